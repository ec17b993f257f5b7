/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_FCGI_CLIENT_H
#define HUSK_TESTS_SUPPORT_FCGI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A FastCGI front end for tests: one request to one unix socket, step by step, so that a test can
 * send slowly, stop in the middle, read slowly or not at all, and send what no front end would.
 * Memory is bounded whatever the answer's size: the body is handed on in pieces. No step blocks
 * longer than 10 s. Functions return 0, or -1 with errno.
 */
struct fcgi_client {
    int fd;
    /* the answer, as read so far */
    bool ended;       /* END_REQUEST came */
    bool bad_record;  /* a record came that no responder may send */
    int64_t body_len; /* body bytes so far */
    size_t head_len;
    char head[16384]; /* up to and without the empty line, NUL-terminated when head_done */
    bool head_done;
};

/* param: "NAME=value", NULL-ended. */
int fcgi_client_connect(struct fcgi_client *c, const char *socket_path);
int fcgi_client_begin(struct fcgi_client *c, const char *const *params);
/* Body bytes in records of at most `record` bytes (0: 32 KiB). */
int fcgi_client_body(struct fcgi_client *c, const void *p, size_t n, size_t record);
int fcgi_client_end_body(struct fcgi_client *c);
/* One record with any type and content. */
int fcgi_client_record(struct fcgi_client *c, int type, const void *p, size_t n);
/* Bytes as they are. */
int fcgi_client_raw(struct fcgi_client *c, const void *p, size_t n);

/* Reads one record. Body bytes go to `body` (NULL: are only counted). 1 one was read, 0 the end of
 * the connection, -1 error (ETIMEDOUT: nothing came for timeout_ms). */
int fcgi_client_read(struct fcgi_client *c, void (*body)(void *ctx, const void *p, size_t n),
                     void *ctx, int timeout_ms);
/* Reads to the end of the request or of the connection. */
int fcgi_client_read_all(struct fcgi_client *c, void (*body)(void *ctx, const void *p, size_t n),
                         void *ctx);
void fcgi_client_close(struct fcgi_client *c);

/* The status of the answer's head, 0 if there is none. */
int fcgi_client_status(const struct fcgi_client *c);
/* A whole exchange with a small answer: the status (0: none came); the body's beginning, as a
 * string, in out. */
int fcgi_client_call(const char *socket_path, const char *const *params, const char *body,
                     char *out, size_t out_size);

#endif
