/* SPDX-License-Identifier: MIT */
#include "json/writer.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Levels that has_items can tell apart. */
#define JW_DEPTH_MAX 63

void
jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

/* What a byte becomes inside a string; NULL: itself. */
static const char *
escape_of(unsigned char c, char room[8])
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    default:
        if (c >= 0x20 && c != 0x7f)
            return NULL;
        (void)snprintf(room, 8, "\\u%04x", c);
        return room;
    }
}

/* Valid UTF-8 as a quoted string. */
static void
put_valid(struct buf *out, const char *p, size_t n)
{
    size_t start = 0;

    (void)buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        char room[8];
        const char *esc = escape_of((unsigned char)p[i], room);
        size_t len = 1;

        /* U+2028 and U+2029 end a line in JavaScript source. */
        if (!esc && n - i >= 3 && memcmp(p + i, "\xe2\x80", 2) == 0 &&
            ((unsigned char)p[i + 2] & 0xfe) == 0xa8) {
            esc = (unsigned char)p[i + 2] == 0xa8 ? "\\u2028" : "\\u2029";
            len = 3;
        }
        if (!esc)
            continue;
        (void)buf_append(out, p + start, i - start);
        (void)buf_puts(out, esc);
        i += len - 1;
        start = i + 1;
    }
    (void)buf_append(out, p + start, n - start);
    (void)buf_putc(out, '"');
}

static void
put_string(struct buf *out, const char *p, size_t n)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(out->max);

    if (utf8_valid(p, n)) {
        put_valid(out, p, n);
        return;
    }
    if (utf8_scrub(&clean, p, n) < 0)
        out->failed = 1;
    else
        put_valid(out, clean.data, clean.len);
}

/* The fewest digits that read back as the same number, always recognisable as a fraction. */
static void
put_double(struct buf *out, double v)
{
    char text[40];

    if (!isfinite(v)) {
        (void)buf_puts(out, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    (void)buf_puts(out, text);
    if (!strpbrk(text, ".e"))
        (void)buf_puts(out, ".0");
}

/* The comma and the member's name. */
static void
begin(struct json_writer *w, const char *name)
{
    uint64_t bit = UINT64_C(1) << w->depth;

    if (w->has_items & bit)
        (void)buf_putc(w->out, ',');
    w->has_items |= bit;
    if (name) {
        put_string(w->out, name, strlen(name));
        (void)buf_putc(w->out, ':');
    }
}

static void
open_level(struct json_writer *w, const char *name, char bracket)
{
    begin(w, name);
    (void)buf_putc(w->out, bracket);
    if (w->depth == JW_DEPTH_MAX) {
        w->out->failed = 1;
        return;
    }
    w->depth++;
    w->has_items &= ~(UINT64_C(1) << w->depth);
}

static void
close_level(struct json_writer *w, char bracket)
{
    (void)buf_putc(w->out, bracket);
    if (w->depth > 0)
        w->depth--;
}

void
jw_object(struct json_writer *w, const char *name)
{
    open_level(w, name, '{');
}

void
jw_array(struct json_writer *w, const char *name)
{
    open_level(w, name, '[');
}

void
jw_end_object(struct json_writer *w)
{
    close_level(w, '}');
}

void
jw_end_array(struct json_writer *w)
{
    close_level(w, ']');
}

void
jw_string(struct json_writer *w, const char *name, const char *s)
{
    if (s)
        jw_string_n(w, name, s, strlen(s));
    else
        jw_null(w, name);
}

void
jw_string_n(struct json_writer *w, const char *name, const char *p, size_t n)
{
    begin(w, name);
    put_string(w->out, p, n);
}

void
jw_i64(struct json_writer *w, const char *name, int64_t v)
{
    begin(w, name);
    (void)buf_printf(w->out, "%lld", (long long)v);
}

void
jw_double(struct json_writer *w, const char *name, double v)
{
    begin(w, name);
    put_double(w->out, v);
}

void
jw_bool(struct json_writer *w, const char *name, bool v)
{
    begin(w, name);
    (void)buf_puts(w->out, v ? "true" : "false");
}

void
jw_null(struct json_writer *w, const char *name)
{
    begin(w, name);
    (void)buf_puts(w->out, "null");
}

void
jw_raw(struct json_writer *w, const char *name, const char *p, size_t n)
{
    begin(w, name);
    (void)buf_append(w->out, p, n);
}

static void put_value(struct buf *out, json_val v);

static void
put_array(struct buf *out, json_val v)
{
    (void)buf_putc(out, '[');
    for (size_t i = 0; i < json_length(v); i++) {
        if (i > 0)
            (void)buf_putc(out, ',');
        put_value(out, json_item(v, i));
    }
    (void)buf_putc(out, ']');
}

static void
put_object(struct buf *out, json_val v)
{
    const char *name, *comma = "";
    size_t iter = 0, len;
    json_val member;

    (void)buf_putc(out, '{');
    while (json_next_member(v, &iter, &name, &len, &member)) {
        (void)buf_puts(out, comma);
        comma = ",";
        put_string(out, name, len);
        (void)buf_putc(out, ':');
        put_value(out, member);
    }
    (void)buf_putc(out, '}');
}

/* As deep as the document it is from, which json_parse bounded. */
static void
put_value(struct buf *out, json_val v)
{
    const char *s;
    size_t len;
    int64_t i;
    double d;

    switch (json_type(v)) {
    case JSON_BOOL:
        (void)buf_puts(out, json_bool(v, false) ? "true" : "false");
        break;
    case JSON_INT:
        if (json_i64(v, INT64_MIN, INT64_MAX, &i))
            (void)buf_printf(out, "%lld", (long long)i);
        break;
    case JSON_DOUBLE:
        put_double(out, json_double(v, &d) ? d : NAN);
        break;
    case JSON_STRING:
        s = json_string(v, &len);
        put_string(out, s, len);
        break;
    case JSON_ARRAY:
        put_array(out, v);
        break;
    case JSON_OBJECT:
        put_object(out, v);
        break;
    case JSON_ABSENT:
    case JSON_NULL:
        (void)buf_puts(out, "null");
        break;
    }
}

void
jw_value(struct json_writer *w, const char *name, json_val v)
{
    begin(w, name);
    put_value(w->out, v);
}

void
jw_time(struct json_writer *w, const char *name, int64_t wall_ms)
{
    char text[CLOCK_RFC3339_SIZE];

    if (wall_ms == 0) {
        jw_null(w, name);
        return;
    }
    clock_rfc3339(wall_ms, text);
    jw_string(w, name, text);
}
