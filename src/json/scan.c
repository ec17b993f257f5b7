/* SPDX-License-Identifier: MIT */
#include "json/scan.h"

#include "base/digest.h"
#include "base/num.h"
#include "json/json.h"

#include <stdint.h>
#include <string.h>

/*
 * A pass over the tokens before json-c sees the text.  It leaves the grammar to the tokener and
 * refuses what json-c 0.16 takes even when strict: 'single quotes', Infinity and NaN, raw control
 * characters, numbers such as "1.", a NUL in a member's name (which would be cut there) and half a
 * surrogate pair (which would become U+FFFD: two names, ids or paths would be one).
 */
struct cursor {
    const char *p;
    size_t n, at;
    unsigned flags;
    struct json_scan *s;
    struct err *err;
};

static int
refuse(const struct cursor *c, size_t at, const char *what)
{
    return err_slug(c->err, ERR_INVALID, "invalid_json", "%s at byte %zu", what, at);
}

static bool
is_space(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r';
}

static bool
is_letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

/* The UTF-16 unit of a \uXXXX at this place, else 0. */
static unsigned
escaped_unit(const struct cursor *c, size_t at)
{
    unsigned unit = 0;

    if (c->n - at < 6 || c->p[at] != '\\' || c->p[at + 1] != 'u')
        return 0;
    for (size_t i = at + 2; i < at + 6; i++) {
        int digit = hex_value(c->p[i]);

        if (digit < 0)
            return 0;
        unit = unit * 16 + (unsigned)digit;
    }
    return unit;
}

/* At the backslash of an escape; leaves the cursor on a character that cannot end the string. */
static int
scan_escape(struct cursor *c)
{
    unsigned unit = escaped_unit(c, c->at), next;

    if (unit >= 0xd800 && unit <= 0xdfff && !(c->flags & JSON_LAX_SURROGATES)) {
        next = escaped_unit(c, c->at + 6);
        if (unit >= 0xdc00 || next < 0xdc00 || next > 0xdfff)
            return err_slug(c->err, ERR_INVALID, "invalid_json",
                            "half of a surrogate pair, \\u%04x, at byte %zu", unit, c->at);
        c->at += 6;
    }
    c->at++;
    return 0;
}

/* At an opening quote; leaves the cursor behind the closing one. */
static int
scan_string(struct cursor *c)
{
    size_t start = c->at++, next;
    bool has_nul = false;

    for (; c->at < c->n && c->p[c->at] != '"'; c->at++) {
        if ((unsigned char)c->p[c->at] < 0x20)
            return refuse(c, c->at, "a raw control character in a string");
        if (c->p[c->at] != '\\')
            continue;
        if (c->n - c->at >= 6 && memcmp(c->p + c->at, "\\u0000", 6) == 0)
            has_nul = true;
        if (scan_escape(c) < 0)
            return -1;
    }
    if (c->at >= c->n)
        return refuse(c, start, "a string that does not end, begun");
    c->at++;
    for (next = c->at; next < c->n && is_space(c->p[next]); next++)
        ;
    if (has_nul && !(c->flags & JSON_LAX_KEYS) && next < c->n && c->p[next] == ':')
        return refuse(c, start, "a member name with a NUL");
    return 0;
}

static size_t
skip_digits(const char *p, size_t n, size_t i)
{
    while (i < n && p[i] >= '0' && p[i] <= '9')
        i++;
    return i;
}

/* RFC 8259 6: [-] int [frac] [exp] */
static bool
number_ok(const char *p, size_t n, bool *ret_integer)
{
    size_t i = n > 0 && p[0] == '-', start = i;

    *ret_integer = true;
    i = skip_digits(p, n, i);
    if (i == start || (p[start] == '0' && i > start + 1))
        return false;
    if (i < n && p[i] == '.') {
        *ret_integer = false;
        start = ++i;
        i = skip_digits(p, n, i);
        if (i == start)
            return false;
    }
    if (i < n && (p[i] == 'e' || p[i] == 'E')) {
        *ret_integer = false;
        i++;
        if (i < n && (p[i] == '+' || p[i] == '-'))
            i++;
        start = i;
        i = skip_digits(p, n, i);
        if (i == start)
            return false;
    }
    return i == n;
}

static int
scan_number(struct cursor *c)
{
    const char *p = c->p + c->at;
    size_t left = c->n - c->at, len = 1;
    bool integer;
    int64_t v;

    if (*p == '-' && left > 1 && p[1] == 'I') { /* -Infinity: the next character decides */
        c->at++;
        return 0;
    }
    while (len < left && memchr("0123456789+-.eE", p[len], 15))
        len++;
    if (!number_ok(p, len, &integer))
        return refuse(c, c->at, "a malformed number");
    c->at += len;
    if (integer && !num_i64(p, len, INT64_MIN, INT64_MAX, &v))
        c->s->big++;
    else
        return 0;
    /* json-c would clamp it; as a fraction it becomes a double. */
    if (c->s->copy && (buf_append(c->s->copy, p, len) < 0 || buf_puts(c->s->copy, ".0") < 0))
        return err_set(c->err, ERR_NOMEM, "no memory for %zu bytes of JSON", c->n);
    return 1;
}

/* One token or one byte of white space; 1 if it put the text into the copy itself. */
static int
scan_one(struct cursor *c, int max_depth, int *depth)
{
    char ch = c->p[c->at];

    if (ch == '"')
        return scan_string(c);
    if (ch == '-' || (ch >= '0' && ch <= '9'))
        return scan_number(c);
    if (ch == '\'')
        return refuse(c, c->at, "a single quote");
    if ((ch == 'I' || ch == 'N') && !(c->flags & JSON_LAX_NUMBERS))
        return refuse(c, c->at, "NaN or Infinity");
    if ((unsigned char)ch < 0x20 && !is_space(ch))
        return refuse(c, c->at, "a control character");
    if (ch == '{' || ch == '[')
        ++*depth;
    if (*depth > max_depth)
        return err_slug(c->err, ERR_LIMIT, "invalid_json",
                        "nested deeper than %d levels at byte %zu", max_depth, c->at);
    if (ch == '}' || ch == ']')
        --*depth;
    c->s->members += ch == ':';
    c->at++;
    while (is_letter(ch) && c->at < c->n && is_letter(c->p[c->at]))
        c->at++; /* the rest of a word: its capitals say nothing */
    return 0;
}

int
json_scan(const char *p, size_t n, int max_depth, unsigned flags, struct json_scan *s,
          struct err *err)
{
    struct cursor c = {.p = p, .n = n, .flags = flags, .s = s, .err = err};
    int depth = 0;

    while (c.n > 0 && is_space(p[c.n - 1]))
        c.n--;
    s->end = c.n;
    s->members = 0;
    s->big = 0;
    while (c.at < c.n) {
        size_t from = c.at;
        int r = scan_one(&c, max_depth, &depth);

        if (r < 0)
            return -1;
        if (r == 0 && s->copy && buf_append(s->copy, p + from, c.at - from) < 0)
            return err_set(err, ERR_NOMEM, "no memory for %zu bytes of JSON", n);
    }
    return 0;
}
