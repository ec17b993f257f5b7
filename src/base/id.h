/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_ID_H
#define HUSK_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_UUID_SIZE 37
void id_uuid4(char out[ID_UUID_SIZE]);

/* n random bytes as 2n lower-case hex digits and a NUL. */
void id_random_hex(char *out, size_t n_bytes);

/* 1 … 2^62-1, for rows and lock offsets. */
int64_t id_random_i64(void);

void id_random_bytes(void *out, size_t n);

/* [A-Za-z0-9_-]{min,max} */
bool id_in_alphabet(const char *s, size_t n, size_t min, size_t max);

#endif
