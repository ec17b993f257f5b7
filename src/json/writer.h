/* SPDX-License-Identifier: MIT */
#ifndef HUSK_JSON_WRITER_H
#define HUSK_JSON_WRITER_H

#include "base/buf.h"
#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Writes compact JSON into a buf, placing commas itself.  Strings are scrubbed to valid UTF-8 and
 * escaped (RFC 8259 7; U+2028 and U+2029 too, "</" stays).  Errors (no room) stick in the buf:
 * check buf_check() once at the end.  name is the member name inside an object, NULL inside an
 * array or at the top.
 */
struct json_writer {
    struct buf *out;
    int depth;
    uint64_t has_items; /* a bit per level */
};

void jw_init(struct json_writer *w, struct buf *out);
void jw_object(struct json_writer *w, const char *name);
void jw_array(struct json_writer *w, const char *name);
void jw_end_object(struct json_writer *w);
void jw_end_array(struct json_writer *w);
void jw_string(struct json_writer *w, const char *name, const char *s); /* NULL writes null */
void jw_string_n(struct json_writer *w, const char *name, const char *p, size_t n);
void jw_i64(struct json_writer *w, const char *name, int64_t v);
void jw_double(struct json_writer *w, const char *name, double v); /* shortest; not finite: null */
void jw_bool(struct json_writer *w, const char *name, bool v);
void jw_null(struct json_writer *w, const char *name);
/* Already valid JSON, copied as it is. */
void jw_raw(struct json_writer *w, const char *name, const char *p, size_t n);
/* A parsed value, written strictly (numbers that are not finite become null). */
void jw_value(struct json_writer *w, const char *name, json_val v);
/* wall-clock ms as RFC 3339; null when 0. */
void jw_time(struct json_writer *w, const char *name, int64_t wall_ms);

#endif
