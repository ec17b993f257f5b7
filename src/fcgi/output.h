/* SPDX-License-Identifier: MIT */
#ifndef HUSK_FCGI_OUTPUT_H
#define HUSK_FCGI_OUTPUT_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The answer's records (FCGI_STDOUT, FCGI_END_REQUEST) on one connection.  libfcgi's own output
 * stream can only block; this one takes what the socket takes now.  A record that went out in part
 * is kept (one at most) and goes first next time.
 */
#define FCGI_RECORD_BYTES 32768 /* content of one record */
#define FCGI_HEADER_BYTES 8
#define FCGI_END_BYTES 24 /* of the empty record that ends the stream, and of the request's end */

struct fcgi_output {
    int fd; /* borrowed */
    int request_id;
    bool gone;                  /* the peer is; nothing more can be sent */
    bool ended;                 /* the end was sent, or is kept */
    size_t pending, pending_at; /* bytes of rest[], and where they begin */
    unsigned char rest[FCGI_HEADER_BYTES + FCGI_RECORD_BYTES + FCGI_END_BYTES];
};

void fcgi_output_init(struct fcgi_output *o, int fd, int request_id);

/* Body or head bytes as FCGI_STDOUT: how many were taken without blocking, -1 gone. */
int64_t fcgi_output_some(struct fcgi_output *o, const void *p, size_t n);
/* All of them; each piece that moves renews the time. `last`: they end the answer, and its end goes
 * out in the same write. 0, or -1. */
int fcgi_output_all(struct fcgi_output *o, const void *p, size_t n, bool last, int64_t stall_ms);
/* What was kept of a record that went out in part; each piece that moves renews the time. 0, or -1.
 */
int fcgi_output_flush(struct fcgi_output *o, int64_t stall_ms);
/* The end of the stream and of the request, unless it went out before. 0, or -1. */
int fcgi_output_end(struct fcgi_output *o, int64_t stall_ms);
/* A record of a type that does not exist: the front end then breaks its client's connection, where
 * a mere close would look like a whole answer. */
void fcgi_output_break(struct fcgi_output *o);

#endif
