/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_DECODE_EXTRACT_H
#define HUSK_API_DECODE_EXTRACT_H

#include "api/decode.h"
#include "http/multipart.h"

#define EXTRACT_SCHEMA_MAX (1024 * 1024) /* bytes of a schema */

struct extract_limits {
    int64_t max_input_bytes, exec_timeout_ms, max_exec_timeout_ms;
};

/* POST /v1/extract, of either form. Borrowed from the body and doc. */
struct extract_body {
    struct json_doc *doc; /* NULL: multipart */
    /* The document: the bytes of the part, or an artifact. */
    const char *file; /* NULL: artifact */
    size_t file_len;
    const char *artifact;                      /* its id, or its short reference in… */
    struct open_request scope;                 /* … this session's name */
    int64_t version;                           /* 0 the latest */
    char filename[MULTIPART_FILENAME_MAX + 1]; /* its last component; "" the artifact's own */
    bool has_schema;
    struct buf schema;  /* JSON text of an object */
    int64_t timeout_ms; /* clamped */
};

/* As the other bodies: unknown_member (a part too), wrong_type, bad_value, missing_member; besides
 * bad_multipart, and ERR_LIMIT inputs_too_large (the document) and limit_exceeded (the schema). */
int decode_extract_form(const char *content_type, const char *p, size_t n,
                        const struct extract_limits *l, struct extract_body *ret, struct err *err);
int decode_extract_json(const char *p, size_t n, const struct extract_limits *l,
                        struct extract_body *ret, struct err *err);
void extract_body_done(struct extract_body *b);

/* The format by a file name's end ("docx"), or unsupported_document. Static. */
int extract_format(const char *filename, const char **ret, struct err *err);
/* inputs_too_large if a document of so many bytes is too large. */
int extract_size_check(int64_t size, int64_t max_input_bytes, struct err *err);

#endif
