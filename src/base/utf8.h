/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_UTF8_H
#define HUSK_BASE_UTF8_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Strict UTF-8 (no surrogates, no overlong forms, up to U+10FFFF). */
bool utf8_valid(const char *p, size_t n);

/* The largest k <= n such that p[0..k) does not end inside a sequence. */
size_t utf8_cut(const char *p, size_t n);

/* The smallest k >= from (k <= n) that does not begin inside a sequence. */
size_t utf8_next(const char *p, size_t n, size_t from);

/* Appends p, each invalid byte replaced by U+FFFD. 0, or -1 when it does not fit. */
int utf8_scrub(struct buf *out, const char *p, size_t n);

#endif
