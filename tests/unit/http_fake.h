/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_UNIT_HTTP_FAKE_H
#define HUSK_TESTS_UNIT_HTTP_FAKE_H

#include "http/http.h"

#include <string.h>

/* A carrier in memory: request headers from a table, a body that comes in small pieces and may end
 * early, and an answer that is collected. */
struct fake {
    const char *const *headers; /* name, value, …, NULL */
    const char *body;
    size_t body_len, body_at, piece;
    bool gone;
    int writes;
    struct buf out;
};

static inline const char *
fake_header(void *ctx, const char *name)
{
    const struct fake *f = ctx;

    for (size_t i = 0; f->headers && f->headers[i]; i += 2) {
        if (strcmp(f->headers[i], name) == 0)
            return f->headers[i + 1];
    }
    return NULL;
}

static inline int64_t
fake_read(void *ctx, void *p, size_t n, struct deadline d)
{
    struct fake *f = ctx;
    size_t left = f->body_len - f->body_at;

    (void)d;
    if (left == 0)
        return -1;
    if (n > left)
        n = left;
    if (f->piece > 0 && n > f->piece)
        n = f->piece;
    memcpy(p, f->body + f->body_at, n);
    f->body_at += n;
    return (int64_t)n;
}

static inline int
fake_write(void *ctx, const void *p, size_t n, struct deadline d)
{
    struct fake *f = ctx;

    (void)d;
    f->writes++;
    return f->gone ? -1 : buf_append(&f->out, p, n);
}

static const struct http_carrier fake_carrier = {
    .header = fake_header,
    .read = fake_read,
    .write = fake_write,
};

static inline void
fake_init(struct fake *f, struct http_exchange *x, enum http_method m, const char *const *headers)
{
    memset(f, 0, sizeof(*f));
    buf_init(&f->out, 1 << 20);
    f->headers = headers;
    http_exchange_init(x, &fake_carrier, f);
    x->req.method = m;
    x->req.request_id = "rid";
}

static inline void
fake_done(struct fake *f, struct http_exchange *x)
{
    http_exchange_done(x);
    buf_done(&f->out);
}

#endif
