/* SPDX-License-Identifier: MIT */
#ifndef HUSK_FCGI_FCGI_H
#define HUSK_FCGI_FCGI_H

#include "base/err.h"
#include "http/http.h"

/*
 * The FastCGI side of a worker: one listening unix socket, one request at a time (FCGX_*_r only).
 * Order matters: our signal handlers first, then fcgi_new, then sig_ignore_pipe().
 */
struct fcgi;

/* listen_fd is borrowed; made non-blocking. */
int fcgi_new(int listen_fd, struct fcgi **ret, struct err *err);
void fcgi_free(struct fcgi *f);

/* Accepts a pending connection, close-on-exec and still unread: 1, 0 nothing was there, -1 the
 * socket is unusable. */
int fcgi_take(struct fcgi *f, int *ret_fd, struct err *err);

/* Reads the request of an accepted connection, which is the fcgi's from here on: 1 *x is filled
 * (request line, headers, target parsed; a target that does not parse leaves x->req.path NULL and
 * err set), 0 the peer went or spoke no FastCGI. io_timeout_ms bounds each read or write on the
 * connection. */
int fcgi_read(struct fcgi *f, int fd, int64_t io_timeout_ms, struct http_exchange *x,
              struct err *err);

/* Sends what is left and closes the connection. */
void fcgi_finish(struct fcgi *f, struct http_exchange *x);

#endif
