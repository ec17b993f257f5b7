/* SPDX-License-Identifier: MIT */
#ifndef HUSK_HTTP_MULTIPART_H
#define HUSK_HTTP_MULTIPART_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * multipart/form-data (RFC 7578 over RFC 2046 5.1) in a body that is there as a whole: the parts
 * are borrowed from it, in their order, and may hold any bytes.  All refusals are ERR_INVALID
 * "bad_multipart" and say what is wrong.
 */
#define MULTIPART_BOUNDARY_MAX 70   /* RFC 2046 5.1.1 */
#define MULTIPART_PARTS_MAX 16      /* of one body */
#define MULTIPART_HEADERS_MAX 4096  /* bytes of one part's headers */
#define MULTIPART_NAME_MAX 64       /* bytes of a part's name */
#define MULTIPART_FILENAME_MAX 1024 /* bytes of a part's filename */

struct multipart {
    const char *p;
    size_t n, at;
    char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF - - boundary */
    size_t delimiter_len;
    int parts;
    bool ended;
};

struct multipart_part {
    char name[MULTIPART_NAME_MAX + 1];
    bool has_filename;
    char filename[MULTIPART_FILENAME_MAX + 1]; /* as sent: any path in it is the caller's to drop */
    const char *p;
    size_t n;
};

/* Is this a Content-Type of such a body? NULL is none. */
bool multipart_is_form(const char *content_type);
/* The boundary is taken from the Content-Type; body is borrowed for as long as m is used. */
int multipart_begin(struct multipart *m, const char *content_type, const char *body, size_t n,
                    struct err *err);
/* 1 the next part, 0 the end, -1. What is behind the end is left alone (RFC 2046: an epilogue). */
int multipart_next(struct multipart *m, struct multipart_part *ret, struct err *err);

#endif
