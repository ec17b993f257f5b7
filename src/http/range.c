/* SPDX-License-Identifier: MIT */
#include "http/range.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Digits at *s as a number that saturates: a larger one lies behind every file's end all the same.
 */
static bool
read_number(const char **s, int64_t *ret)
{
    const char *p = *s;
    int64_t v = 0;

    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        int digit = *p - '0';
        v = v > (INT64_MAX - digit) / 10 ? INT64_MAX : v * 10 + digit;
    }
    *s = p;
    *ret = v;
    return true;
}

/* One range-spec at *s: 1 satisfiable (in *ret), 0 not satisfiable, -1 malformed. */
static int
read_spec(const char **s, int64_t size, struct http_range *ret)
{
    int64_t first, last = INT64_MAX;

    if (**s == '-') {
        int64_t suffix;
        (*s)++;
        if (!read_number(s, &suffix))
            return -1;
        if (suffix == 0 || size == 0)
            return 0;
        ret->first = suffix < size ? size - suffix : 0;
        ret->last = size - 1;
        return 1;
    }
    if (!read_number(s, &first) || **s != '-')
        return -1;
    (*s)++;
    if (**s >= '0' && **s <= '9' && !read_number(s, &last))
        return -1;
    if (last < first)
        return -1;
    if (first >= size)
        return 0;
    ret->first = first;
    ret->last = last < size ? last : size - 1;
    return 1;
}

/* Sorts by first (few: by insertion) and joins what overlaps or touches. */
static int
merge(struct http_range *r, int n)
{
    int out = 0;

    for (int i = 1; i < n; i++) {
        struct http_range x = r[i];
        int j = i;
        for (; j > 0 && r[j - 1].first > x.first; j--)
            r[j] = r[j - 1];
        r[j] = x;
    }
    for (int i = 1; i < n; i++) {
        if (r[i].first <= r[out].last + 1) {
            if (r[i].last > r[out].last)
                r[out].last = r[i].last;
        } else {
            r[++out] = r[i];
        }
    }
    return out + 1;
}

int
http_ranges(const char *header, int64_t size, struct http_range ret[HTTP_RANGES_MAX])
{
    int specs = 0, n = 0;

    if (strncasecmp(header, "bytes=", 6) != 0)
        return 0;
    header += 6;
    for (;;) {
        struct http_range one;
        header += strspn(header, " \t,"); /* empty list elements are allowed (5.6.1.2) */
        if (!*header)
            break;
        if (++specs > HTTP_RANGES_MAX)
            return 0;
        int rc = read_spec(&header, size, &one);
        if (rc < 0)
            return 0;
        if (rc > 0)
            ret[n++] = one;
        header += strspn(header, " \t");
        if (*header && *header != ',')
            return 0;
    }
    if (specs == 0)
        return 0;
    return n > 0 ? merge(ret, n) : -1;
}
