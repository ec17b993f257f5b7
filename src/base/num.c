/* SPDX-License-Identifier: MIT */
#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The longest number text looked at; a double needs no more than 1100 digits, people fewer. */
#define NUM_TEXT_MAX 400

int
num_u64(const char *s, size_t n, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        unsigned d;

        if (s[i] < '0' || s[i] > '9')
            return 0;
        d = (unsigned)(s[i] - '0');
        if (v > (UINT64_MAX - d) / 10)
            return 0;
        v = v * 10 + d;
    }
    if (v > max)
        return 0;
    *ret = v;
    return 1;
}

int
num_i64(const char *s, size_t n, int64_t min, int64_t max, int64_t *ret)
{
    int minus = n > 0 && s[0] == '-';
    uint64_t mag;
    int64_t v;

    if (!num_u64(s + minus, n - (size_t)minus, (uint64_t)INT64_MAX + (uint64_t)minus, &mag))
        return 0;
    if (!minus)
        v = (int64_t)mag;
    else
        v = mag == 0 ? 0 : -(int64_t)(mag - 1) - 1;
    if (v < min || v > max)
        return 0;
    *ret = v;
    return 1;
}

int
num_double(const char *s, size_t n, double *ret)
{
    char text[NUM_TEXT_MAX + 1], *end;
    double v;

    if (n == 0 || n > NUM_TEXT_MAX)
        return 0;
    memcpy(text, s, n);
    text[n] = '\0';
    /* strtod also knows spaces, hexadecimal numbers, "inf" and "nan". */
    if (strspn(text, "0123456789.eE+-") != n)
        return 0;
    v = strtod(text, &end);
    if (end != text + n || !isfinite(v))
        return 0;
    *ret = v;
    return 1;
}

struct unit {
    const char *name;
    int64_t factor;
};

static char
lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* A number without sign or exponent, spaces, and one of the units; the result must fit. */
static int
with_unit(const char *s, size_t n, const struct unit *units, int64_t *ret)
{
    size_t digits = 0, at;
    double v;

    while (digits < n && ((s[digits] >= '0' && s[digits] <= '9') || s[digits] == '.'))
        digits++;
    if (!num_double(s, digits, &v))
        return 0;
    for (at = digits; at < n && s[at] == ' '; at++)
        ;
    for (const struct unit *u = units; u->name; u++) {
        size_t len = strlen(u->name), i;
        int64_t whole;

        if (len != n - at)
            continue;
        for (i = 0; i < len && lower(s[at + i]) == u->name[i]; i++)
            ;
        if (i < len)
            continue;
        /* Whole numbers stay exact. */
        if (num_i64(s, digits, 0, INT64_MAX / u->factor, &whole)) {
            *ret = whole * u->factor;
            return 1;
        }
        v *= (double)u->factor;
        if (v >= 9.2e18)
            return 0;
        *ret = (int64_t)v;
        return 1;
    }
    return 0;
}

int
num_bytes(const char *s, size_t n, int64_t *ret)
{
    static const int64_t k = 1024;
    const struct unit units[] = {
        {"", 1},
        {"b", 1},
        {"bytes", 1},
        {"k", k},
        {"kb", k},
        {"kib", k},
        {"m", k * k},
        {"mb", k * k},
        {"mib", k * k},
        {"g", k * k * k},
        {"gb", k * k * k},
        {"gib", k * k * k},
        {"t", k * k * k * k},
        {"tb", k * k * k * k},
        {"tib", k * k * k * k},
        {NULL, 0},
    };

    return with_unit(s, n, units, ret);
}

int
num_duration_ms(const char *s, size_t n, int64_t *ret)
{
    static const struct unit units[] = {
        {"", 1000},         {"ms", 1},           {"s", 1000},          {"sec", 1000},
        {"second", 1000},   {"seconds", 1000},   {"m", 60000},         {"min", 60000},
        {"minute", 60000},  {"minutes", 60000},  {"h", 3600000},       {"hour", 3600000},
        {"hours", 3600000}, {"d", 86400000},     {"day", 86400000},    {"days", 86400000},
        {"w", 604800000},   {"week", 604800000}, {"weeks", 604800000}, {NULL, 0},
    };

    return with_unit(s, n, units, ret);
}
