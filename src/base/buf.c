/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

void
buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf)BUF_INIT(max_bytes);
}

void
buf_done(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void
buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = 0;
    if (b->data)
        b->data[0] = '\0';
}

char *
buf_reserve(struct buf *b, size_t n)
{
    size_t want, cap;
    char *data;

    /* The maximum itself must leave room for the NUL. */
    if (b->failed || b->len > b->max || n > b->max - b->len || b->len + n >= SIZE_MAX / 2) {
        b->failed = 1;
        return NULL;
    }
    want = b->len + n + 1;
    if (want <= b->cap)
        return b->data + b->len;
    cap = b->cap ? b->cap : 64;
    while (cap < want)
        cap *= 2;
    if (cap - 1 > b->max)
        cap = b->max + 1;
    data = realloc(b->data, cap);
    if (!data) {
        b->failed = 1;
        return NULL;
    }
    b->data = data;
    b->cap = cap;
    data[b->len] = '\0';
    return data + b->len;
}

void
buf_added(struct buf *b, size_t n)
{
    b->len += n;
    b->data[b->len] = '\0';
}

int
buf_append(struct buf *b, const void *p, size_t n)
{
    char *to = buf_reserve(b, n);

    if (!to)
        return -1;
    if (n > 0)
        memcpy(to, p, n);
    buf_added(b, n);
    return 0;
}

int
buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int
buf_putc(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

int
buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return r;
}

int
buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    char few[256];
    va_list again;
    char *to;
    int n;

    va_copy(again, ap);
    n = vsnprintf(few, sizeof few, fmt, again);
    va_end(again);
    if (n < 0) {
        b->failed = 1;
        return -1;
    }
    if ((size_t)n < sizeof few)
        return buf_append(b, few, (size_t)n);
    to = buf_reserve(b, (size_t)n);
    if (!to)
        return -1;
    (void)vsnprintf(to, (size_t)n + 1, fmt, ap);
    buf_added(b, (size_t)n);
    return 0;
}

void
buf_consume(struct buf *b, size_t n)
{
    if (n > b->len)
        n = b->len;
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

const char *
buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *
buf_steal(struct buf *b, size_t *ret_len)
{
    size_t len = b->len;
    char *data = b->data ? b->data : strdup("");

    if (data && ret_len)
        *ret_len = len;
    if (data)
        buf_init(b, b->max);
    return data;
}

int
buf_check(const struct buf *b, const char *what, struct err *err)
{
    if (!b->failed)
        return 0;
    return err_set(err, ERR_LIMIT, "%s is longer than %zu bytes", what, b->max);
}
