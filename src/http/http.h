/* SPDX-License-Identifier: MIT */
#ifndef HUSK_HTTP_HTTP_H
#define HUSK_HTTP_HTTP_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One request and its answer, as the resources in api/ see them.  Who carries the bytes (FastCGI,
 * or a test) stands behind struct http_carrier.  Everything a request points to lives until the
 * exchange ends.
 */
enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER
};

struct http_exchange;

struct http_carrier {
    /* A request header by its lower-case name ("if-match"), NULL if absent. */
    const char *(*header)(void *ctx, const char *name);
    /* A parameter of the front end (FastCGI: REMOTE_ADDR, HUSK_USER, …), NULL if absent. */
    const char *(*param)(void *ctx, const char *name);
    /* Up to n body bytes: >0 read, 0 the end, -1 the peer went or the deadline passed. Blocks
     * within the deadline. */
    int64_t (*read)(void *ctx, void *p, size_t n, struct deadline d);
    /* All n bytes, blocking within the deadline (renewed while bytes move): 0, or -1 when the peer
     * is gone or takes nothing. */
    int (*write)(void *ctx, const void *p, size_t n, struct deadline d);
    /* As much as goes without blocking: bytes taken (0: none now), -1 gone. */
    int64_t (*write_some)(void *ctx, const void *p, size_t n);
    /* Has the peer closed? Never blocks. */
    bool (*gone)(void *ctx);
    /* The descriptor to poll beside others; events are POLLRDHUP, and POLLOUT if `write`. 1 filled,
     * 0 there is none. */
    int (*pollfd)(void *ctx, bool write, struct pollfd *ret);
    /* Breaks the connection on purpose so that the client sees a broken answer. */
    void (*break_off)(void *ctx);
};

#define HTTP_TARGET_MAX 16384 /* bytes of a request target */
#define HTTP_HEAD_MAX 16384   /* bytes of an answer's headers */
#define HTTP_SMALL_BODY 32768 /* a body up to this goes out in one write with its head */
#define HTTP_WRITE_STEP 32768 /* what is written at once; each step renews the budget */
#define HTTP_STALL_MS 60000   /* a body that moves no byte for so long ends the request */

/* Bytes of a request's id, nginx's and the client's own; a longer one of the client's is left out.
 */
#define HTTP_REQUEST_ID_MAX 64

#define HTTP_PARAMS_MAX 4
#define HTTP_QUERY_MAX 16

struct http_param {
    char *name;  /* query only; decoded */
    char *value; /* decoded once, NUL-terminated; len may be larger if it holds NUL */
    size_t len;
};

struct http_request {
    enum http_method method;
    const char *method_name;
    char *path;                                /* as sent, without the query; not decoded */
    struct http_param params[HTTP_PARAMS_MAX]; /* of the route, in its order, each decoded once */
    int n_params;
    struct http_param query[HTTP_QUERY_MAX];
    int n_query;
    int64_t content_length;        /* -1: none given */
    const char *request_id;        /* nginx's, always there (made up if it gave none) */
    const char *client_request_id; /* or NULL */
};

/* The answer. Set status and headers, then either a whole body or a stream. */
struct http_exchange {
    struct http_request req;
    const struct http_carrier *carrier;
    void *carrier_ctx;
    struct deadline budget; /* made at accept; bodies renew it while bytes move */
    /* Told of every renewal, for whoever watches over this process; NULL allowed. */
    void (*renewed)(void *ctx, struct deadline budget);
    /* Told once, when all that the client waits for is about to go out: from then on it may be back
     * with its next request; NULL allowed. */
    void (*ending)(void *ctx);
    void *watch_ctx; /* of both */
    /* answer */
    int status;         /* 0 until set */
    struct buf headers; /* "Name: value\r\n" lines */
    bool head_sent;
    bool last;    /* what the carrier is given now ends the answer: it may send its end with it */
    bool broken;  /* the peer is gone; nothing more can be sent */
    int64_t sent; /* body bytes, for the log */
};

void http_exchange_init(struct http_exchange *x, const struct http_carrier *c, void *ctx);
void http_exchange_done(struct http_exchange *x);

/* Bytes of a body moved: the request's budget reaches at least HTTP_STALL_MS ahead again. */
void http_renew_budget(struct http_exchange *x);

/* Tells x->ending, unless that was done: whoever carries the answer does before its end. */
void http_ending(struct http_exchange *x);

const char *http_header(const struct http_exchange *x, const char *lower_name);
/* The value of a query parameter, NULL if absent. */
const char *http_query(const struct http_exchange *x, const char *name, size_t *ret_len);

/* Splits and decodes the target (REQUEST_URI): path and query; ERR_LIMIT "uri_too_long" (over
 * HTTP_TARGET_MAX), ERR_INVALID "bad_request_target"
 * (bad percent sequences, NUL in a query, too many parameters, duplicates). '+' is a space in
 * queries only. */
int http_parse_target(struct http_request *r, const char *target, struct err *err);
/* Decodes one path segment or rest exactly once into heap memory (NUL-terminated; may hold more
 * NULs). 1 valid, 0 not. */
int http_percent_decode(const char *p, size_t n, bool plus_is_space, char **ret, size_t *ret_n);
void http_request_done(struct http_request *r);

/* Adds a header line. A value with CR, LF or NUL in it, or one that no longer fits into
 * HTTP_HEAD_MAX, is dropped and logged. */
void http_add_header(struct http_exchange *x, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Status, headers and a whole body (Content-Length is set; HEAD sends none of it). Every head
 * carries X-Request-Id. Content-Type, Content-Length and X-Request-Id that http_add_header() gave
 * win. 0, or -1 when the peer is gone or a head was sent before. */
int http_send(struct http_exchange *x, int status, const char *content_type, const void *body,
              size_t n);
int http_send_empty(struct http_exchange *x, int status);
/* The head of a streamed answer; length -1 if unknown (event streams only). */
int http_begin(struct http_exchange *x, int status, const char *content_type, int64_t length);
int http_write(struct http_exchange *x, const void *p, size_t n);

/* Reads exactly the announced body, at most max. ERR_LIMIT "body_too_large", ERR_INVALID
 * "length_required" (a body is needed and no length given), ERR_ABORTED "body_incomplete". */
int http_read_body(struct http_exchange *x, size_t max, struct buf *ret, struct err *err);
/* Reads and throws away what is left of the body, at most max bytes. */
void http_drain(struct http_exchange *x, int64_t max);

/* Routes: a pattern is "/v1/sessions/{id}/files/{path...}"; "{x}" is one segment (no '/'), "{x...}"
 * the non-empty rest. Matching works on the path as sent; parameters are decoded once. */
struct http_route {
    enum http_method method;
    const char *pattern;
    int max_body;          /* of a JSON body; 0: none allowed; -1: the handler reads it itself */
    unsigned scope;        /* api's own */
    const char *lane;      /* exec | api | bulk | ctl */
    void (*handler)(void); /* api's own type, cast */
};
/* 1 found (params filled); 0 no such path; -1 the path is there but not for this method: *ret_allow
 * is then a static "GET, HEAD, …" text in buf; -2 a parameter is badly encoded. HEAD matches GET
 * where no HEAD route stands. */
int http_route_find(const struct http_route *table, size_t n, struct http_request *r,
                    const struct http_route **ret, char *ret_allow, size_t allow_size);

/* By its exact (upper-case) name. */
enum http_method http_method_parse(const char *name);
const char *http_reason(int status);

#endif
