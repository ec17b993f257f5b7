/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SUPPORT_FAKE_CARRIER_H
#define HUSK_SUPPORT_FAKE_CARRIER_H

#include "base/buf.h"
#include "http/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request and its answer in memory: stands behind struct http_exchange where FastCGI would. */
#define FAKE_HEADERS_MAX 16

struct fake_carrier {
    struct http_exchange x;
    struct err target_err;
    const char *names[FAKE_HEADERS_MAX], *values[FAKE_HEADERS_MAX]; /* borrowed */
    int n_headers;
    const char *user; /* the parameter HUSK_USER */
    const char *body; /* borrowed */
    size_t body_len, body_at;
    struct buf out;  /* all that was sent, head included */
    bool gone;       /* the peer has closed */
    bool broken_off; /* break_off was called */
    int64_t takes;   /* write_some takes so much and then nothing until it is set again; -1 all */
    int64_t gone_at; /* the peer closes after so many bytes; -1 never */
    void (*on_write)(void *ctx, size_t total); /* called after each write */
    void *ctx;
};

/* method and target as in a request line. The exchange is ready to be served. */
void fake_request(struct fake_carrier *f, const char *method, const char *target);
void fake_header(struct fake_carrier *f, const char *lower_name, const char *value);
void fake_body(struct fake_carrier *f, const void *p, size_t n);
/* A JSON body with its Content-Type. */
void fake_json(struct fake_carrier *f, const char *text);
void fake_done(struct fake_carrier *f);

/* Of the answer: the status line's number, a header (NULL absent; valid until the next call), the
 * body. */
int fake_status(const struct fake_carrier *f);
const char *fake_answer_header(const struct fake_carrier *f, const char *name);
const char *fake_answer_body(const struct fake_carrier *f, size_t *ret_n);

#endif
