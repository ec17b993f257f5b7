/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_NUM_H
#define HUSK_BASE_NUM_H

#include <stddef.h>
#include <stdint.h>

/* Whole-string conversions; 1 if s is exactly one such number in range, else 0. Decimal digits
 * only, no sign for u64, no spaces. */
int num_u64(const char *s, size_t n, uint64_t max, uint64_t *ret);
int num_i64(const char *s, size_t n, int64_t min, int64_t max, int64_t *ret);
int num_double(const char *s, size_t n, double *ret); /* finite; digits . e + - only */

/* "25MiB", "1g", "512k", "4096", "1.5 GiB": bytes (k, m, g, t are powers of 1024). */
int num_bytes(const char *s, size_t n, int64_t *ret);
/* "60", "1.5", "500ms", "30s", "15min", "24h", "30 days": milliseconds; a bare number is seconds.
 */
int num_duration_ms(const char *s, size_t n, int64_t *ret);

#endif
