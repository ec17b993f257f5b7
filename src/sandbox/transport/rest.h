/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_TRANSPORT_REST_H
#define HUSK_SANDBOX_TRANSPORT_REST_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>

/*
 * Small REST calls over libcurl: one handle a process, its connection kept between calls, one call
 * at a time.  No redirects, no proxies, no cookies; the token travels in a header only.  A call can
 * be made at once (rest_call) or beside other work (rest_begin, rest_step until it is done).
 */
struct rest;

struct rest_options {
    const char *base_url;      /* "http://host:port" and perhaps a path; copied */
    const char *authorization; /* value of the Authorization header, or NULL; copied */
    const char *header;        /* one further header line of every call, or NULL; copied */
    const char *ca_file;       /* for https, or NULL for the system's; copied */
    size_t max_body;           /* of an answer, bytes */
};

/* ERR_INVALID if the URL is no http(s) URL. One struct rest must not cross a fork. */
int rest_new(const struct rest_options *o, struct rest **ret, struct err *err);
void rest_free(struct rest *r); /* NULL is fine */

/* Another base_url from the next call on; the rest stays. */
int rest_set_base(struct rest *r, const char *base_url, struct err *err);

/* An answer; borrowed from the struct rest until its next call. */
struct rest_reply {
    int status;
    bool is_json; /* by its Content-Type */
    const char *body;
    size_t body_len;
};

/*
 * Makes a call and waits for the answer, whatever its status.  body is JSON or NULL.  A call that
 * is idempotent is made once more when a kept connection turns out to be dead.
 * ERR_UNAVAILABLE: nothing was sent (no connection).  ERR_UNCERTAIN: it may have arrived, but no
 * whole answer came.  ERR_TIMEOUT: the same, because the deadline passed.  ERR_LIMIT: the answer is
 * larger than max_body.
 */
int rest_call(struct rest *r, const char *method, const char *path, const char *body,
              struct deadline d, struct rest_reply *ret, struct err *err);

/*
 * A call whose body is a file between two pieces of text, or whose answer is one; memory is bounded
 * by a piece of REST_PIECE bytes either way.  It also ends (ERR_TIMEOUT) when nothing moved for
 * REST_STALL_S seconds.  Never made twice.
 */
#define REST_PIECE 65536
#define REST_STALL_S 30
struct rest_file {
    const char *content_type; /* of the request's body; NULL: it has none */
    const char *head, *tail;  /* C strings around the bytes */
    int fd;                   /* read by pread from 0; borrowed */
    int64_t size;
    int out_fd; /* where the bytes of an answer of status 200 go, by write; -1: as ever */
    int64_t max_bytes;
    int64_t got; /* ret: how many came */
};
/* As rest_call; ERR_LIMIT: more than max_bytes came. ERR_INTERNAL with an errno: a descriptor
 * failed. */
int rest_call_file(struct rest *r, const char *method, const char *path, struct rest_file *f,
                   struct deadline d, struct rest_reply *ret, struct err *err);

/* Begins a call; one that is still under way is cancelled. body is copied. */
int rest_begin(struct rest *r, const char *method, const char *path, const char *body,
               struct deadline d, struct err *err);
/* Moves it without waiting: 1 done (ret filled), 0 not yet, -1 failed as above. */
int rest_step(struct rest *r, struct rest_reply *ret, struct err *err);
/* Ends a call under way, answer or not. */
void rest_cancel(struct rest *r);

/* Percent-encodes one path segment. 0, or -1 when it does not fit. */
int rest_escape(struct buf *out, const char *segment);

#endif
