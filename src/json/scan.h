/* SPDX-License-Identifier: MIT */
#ifndef HUSK_JSON_SCAN_H
#define HUSK_JSON_SCAN_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Private to this folder: what json-c's tokener does not refuse, found before it runs. */
struct json_scan {
    size_t end;       /* the length without white space at the end */
    size_t members;   /* the colons outside strings: how many members a tree must have */
    size_t big;       /* integers outside int64_t */
    struct buf *copy; /* where scan puts the text with those as "123.0"; NULL: count only */
};

/* ERR_INVALID "invalid_json" with the offset; ERR_LIMIT "invalid_json" for the depth. */
int json_scan(const char *p, size_t n, int max_depth, unsigned flags, struct json_scan *s,
              struct err *err);

#endif
