/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_EXTRACT_PY_H
#define HUSK_API_EXTRACT_PY_H

#include <stddef.h>

/* src/api/extract.py, embedded by src/api/embed.sh when the programs are built. It defines
 * husk_extract(suffix, limit, with_schema). */
extern const unsigned char extract_py[];
extern const size_t extract_py_len;

#endif
