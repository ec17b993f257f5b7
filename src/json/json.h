/* SPDX-License-Identifier: MIT */
#ifndef HUSK_JSON_JSON_H
#define HUSK_JSON_JSON_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reading JSON strictly: RFC 8259, valid UTF-8 (also once its escapes are read: no half of a
 * surrogate pair, RFC 7493 2.1), no duplicate member names, no bare NaN or Infinity, no trailing
 * bytes, nesting up to max_depth.  Values are borrowed from the document that holds them.
 */
struct json_doc;              /* owns everything below it */
typedef const void *json_val; /* one value, borrowed; NULL is "absent"; JSON null is JSON_NULL */

enum json_type {
    JSON_ABSENT,
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,
    JSON_DOUBLE,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

#define JSON_LAX_NUMBERS 1u    /* NaN, Infinity and -Infinity are read (and written as null) */
#define JSON_LAX_KEYS 2u       /* of duplicate names the last wins */
#define JSON_LAX_SURROGATES 4u /* an escaped half of a surrogate pair is read as U+FFFD */
#define JSON_LAX (JSON_LAX_NUMBERS | JSON_LAX_KEYS | JSON_LAX_SURROGATES) /* others' messages */

/* ERR_INVALID (slug "invalid_json", with the offset) or ERR_LIMIT for depth. Copies. */
int json_parse(const char *p, size_t n, int max_depth, unsigned flags, struct json_doc **ret,
               struct err *err);
void json_free(struct json_doc *doc); /* NULL is fine */
json_val json_root(const struct json_doc *doc);

enum json_type json_type(json_val v);

json_val json_member(json_val object, const char *name); /* absent if no object or no such name */
size_t json_length(json_val array_or_object);
json_val json_item(json_val array, size_t i);

/* Walks an object: *iter starts at 0; returns false at the end. Names are borrowed. */
bool json_next_member(json_val object, size_t *iter, const char **ret_name, size_t *ret_len,
                      json_val *ret);

/* The bytes of a string (may hold NUL); NULL if v is no string. */
const char *json_string(json_val v, size_t *ret_len);
/* As a C string: NULL if no string or a NUL is in it. */
const char *json_cstring(json_val v);
bool json_bool(json_val v, bool otherwise);
/* 1 if v is a number that is an integer in range, else 0. */
int json_i64(json_val v, int64_t min, int64_t max, int64_t *ret);
/* 1 if v is a finite number. */
int json_double(json_val v, double *ret);

#endif
