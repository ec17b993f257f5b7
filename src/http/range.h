/* SPDX-License-Identifier: MIT */
#ifndef HUSK_HTTP_RANGE_H
#define HUSK_HTTP_RANGE_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_RANGES_MAX 16

struct http_range {
    int64_t first, last; /* inclusive */
};

/* A Range header against a size (RFC 9110 14): n > 0 satisfiable ranges, overlapping and adjacent
 * ones merged; 0: ignore the header (no bytes unit, malformed, more than 16); -1: none is
 * satisfiable (416). */
int http_ranges(const char *header, int64_t size, struct http_range ret[HTTP_RANGES_MAX]);

#endif
