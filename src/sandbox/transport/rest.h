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
    const char *ca_file;       /* for https, or NULL for the system's; copied */
    size_t max_body;           /* of an answer, bytes */
};

/* ERR_INVALID if the URL is no http(s) URL. One struct rest must not cross a fork. */
int rest_new(const struct rest_options *o, struct rest **ret, struct err *err);
void rest_free(struct rest *r); /* NULL is fine */

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

/* Begins a call; one that is still under way is cancelled. body is copied. */
int rest_begin(struct rest *r, const char *method, const char *path, const char *body,
               struct deadline d, struct err *err);
/* Moves it without waiting: 1 done (ret filled), 0 not yet, -1 failed as above. */
int rest_step(struct rest *r, struct rest_reply *ret, struct err *err);
/* Ends a call under way, answer or not. */
void rest_cancel(struct rest *r);
bool rest_busy(const struct rest *r);

/* Percent-encodes one path segment. 0, or -1 when it does not fit. */
int rest_escape(struct buf *out, const char *segment);

#endif
