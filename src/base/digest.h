/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_DIGEST_H
#define HUSK_BASE_DIGEST_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_HEX_SIZE 65

struct sha256; /* opaque, heap */

struct sha256 *sha256_new(void);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_finish(struct sha256 *s, uint8_t out[SHA256_SIZE]); /* and frees s */
void sha256_free(struct sha256 *s);                             /* without a result; NULL is fine */

void sha256_of(const void *p, size_t n, uint8_t out[SHA256_SIZE]);
void sha256_hex_of(const void *p, size_t n, char out[SHA256_HEX_SIZE]);
void hex_encode(const uint8_t *p, size_t n, char *out); /* 2n+1 bytes */
int hex_value(char c); /* of a hex digit, upper or lower case; -1 if it is none */

int base64_encode(struct buf *out, const void *p, size_t n);
/* Strict RFC 4648 with padding; 1 valid, 0 not, -1 does not fit. Line breaks are allowed when
 * lax. */
int base64_decode(struct buf *out, const char *s, size_t n, bool lax);

bool digest_equal(const void *a, const void *b, size_t n); /* constant time */

#endif
