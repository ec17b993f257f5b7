/* SPDX-License-Identifier: MIT */
#include "http/conditional.h"

#include <string.h>

/* An entity tag in a header (RFC 9110 8.8.3): the text between the quotes, and whether W/ stood
 * before it. */
struct tag {
    const char *p;
    size_t n;
    bool weak;
};

static const char *
skip_space(const char *s)
{
    return s + strspn(s, " \t");
}

/* Reads one entity tag at *s and moves *s behind it. */
static bool
read_tag(const char **s, struct tag *ret)
{
    const char *p = *s;

    ret->weak = p[0] == 'W' && p[1] == '/';
    if (ret->weak)
        p += 2;
    if (*p++ != '"')
        return false;
    ret->p = p;
    while (*p && *p != '"') {
        unsigned char c = (unsigned char)*p;
        if (c <= ' ' || c == 0x7f)
            return false;
        p++;
    }
    if (*p != '"')
        return false;
    ret->n = (size_t)(p - ret->p);
    *s = p + 1;
    return true;
}

static bool
tags_equal(const struct tag *a, const char *etag, bool strong)
{
    struct tag b;

    if (!etag || !read_tag(&etag, &b))
        return false;
    if (strong && (a->weak || b.weak))
        return false;
    return a->n == b.n && memcmp(a->p, b.p, a->n) == 0;
}

/* Does a list of entity tags, or "*", name the representation? 1 yes, 0 no, -1 malformed. */
static int
list_matches(const char *list, bool exists, const char *etag, bool strong)
{
    bool found = false, any = false;

    list = skip_space(list);
    if (*list == '*')
        return *skip_space(list + 1) ? -1 : exists;
    while (*list) {
        struct tag t;
        if (*list == ',') { /* empty elements are allowed (5.6.1.2) */
            list = skip_space(list + 1);
            continue;
        }
        if (!read_tag(&list, &t))
            return -1;
        any = true;
        found = found || (exists && tags_equal(&t, etag, strong));
        list = skip_space(list);
        if (*list && *list != ',')
            return -1;
    }
    return any ? found : -1;
}

static int64_t
seconds(int64_t ms)
{
    return ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
}

/* Is there a valid date in the header, and is the representation newer than it? An invalid date
 * counts as no header (13.1.3, 13.1.4). 1 newer, 0 not newer, -1 no date. */
static int
newer_than(const char *header, int64_t mtime_wall_ms)
{
    int64_t date;

    if (!header || !clock_parse_http(header, &date))
        return -1;
    return seconds(mtime_wall_ms) > seconds(date);
}

/* In the order of RFC 9110 13.2.2. */
int
http_precondition(const struct http_exchange *x, bool exists, const char *etag,
                  int64_t mtime_wall_ms)
{
    bool reading = x->req.method == HTTP_GET || x->req.method == HTTP_HEAD;
    const char *match = http_header(x, "if-match");
    const char *none = http_header(x, "if-none-match");

    if (match) {
        int m = list_matches(match, exists, etag, true);
        if (m <= 0)
            return m < 0 ? 400 : 412;
    } else if (exists && newer_than(http_header(x, "if-unmodified-since"), mtime_wall_ms) == 1) {
        return 412;
    }
    if (none) {
        int m = list_matches(none, exists, etag, false);
        if (m < 0)
            return 400;
        if (m > 0)
            return reading ? 304 : 412;
    } else if (exists && reading &&
               newer_than(http_header(x, "if-modified-since"), mtime_wall_ms) == 0) {
        return 304;
    }
    return 0;
}

bool
http_if_range(const struct http_exchange *x, const char *etag, int64_t mtime_wall_ms)
{
    const char *h = http_header(x, "if-range");
    struct tag t;
    int64_t date;

    if (!h)
        return true;
    h = skip_space(h);
    if (*h == '"' || (h[0] == 'W' && h[1] == '/'))
        return read_tag(&h, &t) && !*skip_space(h) && tags_equal(&t, etag, true);
    /* A date is a strong validator only when the file has been left alone since (8.8.2.2). */
    return clock_parse_http(h, &date) && seconds(date) == seconds(mtime_wall_ms) &&
           seconds(clock_wall_ms()) - seconds(mtime_wall_ms) >= 2;
}
