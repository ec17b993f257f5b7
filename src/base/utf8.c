/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

/*
 * The length of the well-formed sequence at p (Unicode 15, table 3-7), 0 if it is ill-formed.  If
 * the bytes end inside a sequence that could still become well-formed, *ret_short is set.
 */
static size_t
sequence(const unsigned char *p, size_t n, bool *ret_short)
{
    unsigned char lo = 0x80, hi = 0xbf; /* of the second byte */
    size_t len;

    *ret_short = false;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0)
        lo = 0xa0;
    if (p[0] == 0xed)
        hi = 0x9f;
    if (p[0] == 0xf0)
        lo = 0x90;
    if (p[0] == 0xf4)
        hi = 0x8f;
    for (size_t i = 1; i < len; i++) {
        if (i == n) {
            *ret_short = true;
            return 0;
        }
        if (p[i] < lo || p[i] > hi)
            return 0;
        lo = 0x80;
        hi = 0xbf;
    }
    return len;
}

bool
utf8_valid(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;

    for (size_t i = 0; i < n;) {
        bool cut;
        size_t len = sequence(u + i, n - i, &cut);

        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

size_t
utf8_cut(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;

    /* A sequence that is cut off has its first byte among the last three. */
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        size_t at = n - back;
        bool cut;

        if ((u[at] & 0xc0) == 0x80)
            continue;
        (void)sequence(u + at, back, &cut);
        return cut ? at : n;
    }
    return n;
}

size_t
utf8_next(const char *p, size_t n, size_t from)
{
    size_t k = from;

    /* More than three continuation bytes are no sequence: then from is as good as any. */
    while (k < n && k - from < 4 && ((unsigned char)p[k] & 0xc0) == 0x80)
        k++;
    if (k - from == 4)
        return from;
    return k < n ? k : n;
}

int
utf8_scrub(struct buf *out, const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t start = 0, i = 0;

    while (i < n) {
        bool cut;
        size_t len = sequence(u + i, n - i, &cut);

        if (len > 0) {
            i += len;
            continue;
        }
        if (buf_append(out, p + start, i - start) < 0 || buf_puts(out, "\xef\xbf\xbd") < 0)
            return -1;
        start = ++i;
    }
    return buf_append(out, p + start, n - start);
}
