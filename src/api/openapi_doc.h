/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_OPENAPI_DOC_H
#define HUSK_API_OPENAPI_DOC_H

#include <stddef.h>

/* docs/openapi.json, embedded by src/api/embed.sh when the programs are built. */
extern const unsigned char openapi_doc[];
extern const size_t openapi_doc_len;

#endif
