/* SPDX-License-Identifier: MIT */
#include "support/fake_carrier.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX (256 * 1024 * 1024)

static const char *
carrier_header(void *ctx, const char *name)
{
    const struct fake_carrier *f = ctx;

    for (int i = 0; i < f->n_headers; i++)
        if (strcmp(f->names[i], name) == 0)
            return f->values[i];
    return NULL;
}

static const char *
carrier_param(void *ctx, const char *name)
{
    const struct fake_carrier *f = ctx;

    return strcmp(name, "HUSK_USER") == 0 ? f->user : NULL;
}

static int64_t
carrier_read(void *ctx, void *p, size_t n, struct deadline d)
{
    struct fake_carrier *f = ctx;
    size_t left = f->body_len - f->body_at;

    (void)d;
    if (n > left)
        n = left;
    if (n > 0)
        memcpy(p, f->body + f->body_at, n);
    f->body_at += n;
    return (int64_t)n;
}

static int
carrier_write(void *ctx, const void *p, size_t n, struct deadline d)
{
    struct fake_carrier *f = ctx;

    (void)d;
    if (f->gone || f->broken_off)
        return -1;
    assert(buf_append(&f->out, p, n) == 0);
    if (f->gone_at >= 0 && f->out.len >= (size_t)f->gone_at)
        f->gone = true;
    if (f->on_write != NULL)
        f->on_write(f->ctx, f->out.len);
    return 0;
}

static int64_t
carrier_write_some(void *ctx, const void *p, size_t n)
{
    struct fake_carrier *f = ctx;

    if (f->gone || f->broken_off)
        return -1;
    if (f->takes >= 0 && n > (size_t)f->takes)
        n = (size_t)f->takes;
    if (f->takes >= 0)
        f->takes -= (int64_t)n;
    if (n == 0)
        return 0;
    return carrier_write(ctx, p, n, DEADLINE_NEVER) < 0 ? -1 : (int64_t)n;
}

static bool
carrier_gone(void *ctx)
{
    const struct fake_carrier *f = ctx;

    return f->gone;
}

static int
carrier_pollfd(void *ctx, bool write, struct pollfd *ret)
{
    (void)ctx;
    (void)write;
    (void)ret;
    return 0;
}

static void
carrier_break_off(void *ctx)
{
    struct fake_carrier *f = ctx;

    f->broken_off = true;
}

static const struct http_carrier carrier = {
    .header = carrier_header,
    .param = carrier_param,
    .read = carrier_read,
    .write = carrier_write,
    .write_some = carrier_write_some,
    .gone = carrier_gone,
    .pollfd = carrier_pollfd,
    .break_off = carrier_break_off,
};

void
fake_request(struct fake_carrier *f, const char *method, const char *target)
{
    static unsigned count;
    static char request_id[40];

    memset(f, 0, sizeof(*f));
    f->takes = f->gone_at = -1;
    buf_init(&f->out, ANSWER_MAX);
    http_exchange_init(&f->x, &carrier, f);
    f->x.req.method = http_method_parse(method);
    f->x.req.method_name = method;
    (void)snprintf(request_id, sizeof(request_id), "request-%u", ++count);
    f->x.req.request_id = request_id;
    (void)http_parse_target(&f->x.req, target, &f->target_err);
}

void
fake_header(struct fake_carrier *f, const char *lower_name, const char *value)
{
    assert(f->n_headers < FAKE_HEADERS_MAX);
    f->names[f->n_headers] = lower_name;
    f->values[f->n_headers++] = value;
}

void
fake_body(struct fake_carrier *f, const void *p, size_t n)
{
    f->body = p;
    f->body_len = n;
    f->x.req.content_length = (int64_t)n;
}

void
fake_json(struct fake_carrier *f, const char *text)
{
    fake_header(f, "content-type", "application/json");
    fake_body(f, text, strlen(text));
}

void
fake_done(struct fake_carrier *f)
{
    http_exchange_done(&f->x);
    buf_done(&f->out);
}

int
fake_status(const struct fake_carrier *f)
{
    const char *s = fake_answer_header(f, "Status");

    return s != NULL ? (int)strtol(s, NULL, 10) : 0;
}

const char *
fake_answer_header(const struct fake_carrier *f, const char *name)
{
    static char value[4096];
    size_t n = strlen(name);
    const char *end = strstr(buf_str(&f->out), "\r\n\r\n");

    for (const char *p = buf_str(&f->out); end != NULL && p < end + 2;) {
        const char *eol = strstr(p, "\r\n");
        size_t len = (size_t)(eol - p);

        if (len > n && strncasecmp(p, name, n) == 0 && p[n] == ':') {
            p += n + 1;
            p += strspn(p, " ");
            assert((size_t)(eol - p) < sizeof(value));
            memcpy(value, p, (size_t)(eol - p));
            value[eol - p] = '\0';
            return value;
        }
        p = eol + 2;
    }
    return NULL;
}

const char *
fake_answer_body(const struct fake_carrier *f, size_t *ret_n)
{
    const char *head = strstr(buf_str(&f->out), "\r\n\r\n");

    if (head == NULL) {
        *ret_n = 0;
        return "";
    }
    *ret_n = f->out.len - (size_t)(head + 4 - f->out.data);
    return head + 4;
}
