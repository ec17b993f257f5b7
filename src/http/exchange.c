/* SPDX-License-Identifier: MIT */
#include "http/http.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

/* The answer of one exchange: head and body, written in the form of RFC 3875 6 ("Status: 200 OK"),
 * which is what a FastCGI front end takes. */

void
http_exchange_init(struct http_exchange *x, const struct http_carrier *c, void *ctx)
{
    memset(x, 0, sizeof(*x));
    x->carrier = c;
    x->carrier_ctx = ctx;
    x->req.content_length = -1;
    x->budget = deadline_in(HTTP_STALL_MS);
    buf_init(&x->headers, HTTP_HEAD_MAX);
}

void
http_exchange_done(struct http_exchange *x)
{
    http_request_done(&x->req);
    buf_done(&x->headers);
}

const char *
http_header(const struct http_exchange *x, const char *lower_name)
{
    return x->carrier->header(x->carrier_ctx, lower_name);
}

const char *
http_query(const struct http_exchange *x, const char *name, size_t *ret_len)
{
    for (int i = 0; i < x->req.n_query; i++) {
        if (strcmp(x->req.query[i].name, name) != 0)
            continue;
        if (ret_len)
            *ret_len = x->req.query[i].len;
        return x->req.query[i].value;
    }
    return NULL;
}

void
http_renew_budget(struct http_exchange *x)
{
    struct deadline d = deadline_in(HTTP_STALL_MS);

    if (x->budget.at_ms < d.at_ms)
        x->budget = d;
    if (x->renewed)
        x->renewed(x->watch_ctx, x->budget);
}

void
http_ending(struct http_exchange *x)
{
    void (*ending)(void *ctx) = x->ending;

    x->ending = NULL;
    if (ending)
        ending(x->watch_ctx);
}

static bool
has_header(const struct http_exchange *x, const char *name)
{
    size_t n = strlen(name);
    const char *line = buf_str(&x->headers);

    while (*line) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            return true;
        const char *end = strchr(line, '\n');
        if (!end)
            break;
        line = end + 1;
    }
    return false;
}

void
http_add_header(struct http_exchange *x, const char *name, const char *fmt, ...)
{
    _cleanup_buf_ struct buf value = BUF_INIT(HTTP_HEAD_MAX / 2);
    va_list ap;

    va_start(ap, fmt);
    int rc = buf_vprintf(&value, fmt, ap);
    va_end(ap);
    const char *v = buf_str(&value);
    if (rc < 0 || strlen(v) != value.len || strpbrk(v, "\r\n")) {
        log_error("response header %s dropped: its value is not one line of bounded text", name);
        return;
    }
    if (x->headers.len + strlen(name) + value.len + 4 > x->headers.max) {
        log_error("response header %s dropped: the head is full", name);
        return;
    }
    (void)buf_printf(&x->headers, "%s: %s\r\n", name, v);
}

static int
send_bytes(struct http_exchange *x, const void *p, size_t n, bool whole)
{
    const char *at = p;

    while (n > 0 && !x->broken) {
        size_t step = n < HTTP_WRITE_STEP ? n : HTTP_WRITE_STEP;
        x->last = whole && step == n;
        if (x->carrier->write(x->carrier_ctx, at, step, deadline_in(HTTP_STALL_MS)) < 0) {
            x->broken = true;
            break;
        }
        http_renew_budget(x);
        at += step;
        n -= step;
    }
    return x->broken ? -1 : 0;
}

/* Builds the head, behind it the body when there is one: one write for a small answer, which goes
 * out at once and is the end if it is the whole one. */
static int
send_head(struct http_exchange *x, int status, const char *content_type, int64_t length,
          const void *body, size_t n, bool whole)
{
    _cleanup_buf_ struct buf out = BUF_INIT(HTTP_HEAD_MAX + 4096 + HTTP_SMALL_BODY);
    bool bodiless = status == 204 || status == 304;

    if (x->head_sent)
        return -1;
    x->head_sent = true;
    x->status = status;
    (void)buf_printf(&out, "Status: %d %s\r\n", status, http_reason(status));
    if (content_type && !bodiless && !has_header(x, "Content-Type"))
        (void)buf_printf(&out, "Content-Type: %s\r\n", content_type);
    if (length >= 0 && !bodiless && !has_header(x, "Content-Length"))
        (void)buf_printf(&out, "Content-Length: %" PRId64 "\r\n", length);
    if (x->req.request_id && !has_header(x, "X-Request-Id"))
        (void)buf_printf(&out, "X-Request-Id: %s\r\n", x->req.request_id);
    (void)buf_append(&out, buf_str(&x->headers), x->headers.len);
    (void)buf_puts(&out, "\r\n");
    if (out.failed)
        return -1;
    if (x->req.method == HTTP_HEAD || bodiless)
        n = 0;
    bool small = n <= HTTP_SMALL_BODY && buf_append(&out, body, n) == 0;
    if (small && whole)
        http_ending(x);
    if (send_bytes(x, out.data, out.len, small && whole) < 0 ||
        (!small && send_bytes(x, body, n, whole) < 0))
        return -1;
    x->sent += (int64_t)n;
    return 0;
}

int
http_send(struct http_exchange *x, int status, const char *content_type, const void *body, size_t n)
{
    return send_head(x, status, content_type, (int64_t)n, body, n, true);
}

int
http_send_empty(struct http_exchange *x, int status)
{
    return send_head(x, status, NULL, 0, "", 0, true);
}

int
http_begin(struct http_exchange *x, int status, const char *content_type, int64_t length)
{
    return send_head(x, status, content_type, length, "", 0, false);
}

int
http_write(struct http_exchange *x, const void *p, size_t n)
{
    if (x->req.method == HTTP_HEAD)
        return x->broken ? -1 : 0;
    if (send_bytes(x, p, n, false) < 0)
        return -1;
    x->sent += (int64_t)n;
    return 0;
}
