/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_SEND_FILE_H
#define HUSK_API_SEND_FILE_H

#include "api/files.h"

/* "…" of a digest is the longest entity tag there is. */
#define OUT_ETAG_SIZE 80

/* A file on its way out. The caller fills all but buf. */
struct out_file {
    int fd; /* the caller's */
    struct file_info info;
    char etag[OUT_ETAG_SIZE];
    const char *type;
    const char *name;
    size_t name_len;
    bool has_digest; /* known without reading it */
    uint8_t digest[SHA256_SIZE];
    char *buf;
};

/* Sends it with regard to ranges and preconditions, or a 304. 1 the file or a part of it was sent
 * (or could not be to its end), 0 a 304, -1 with err and nothing sent. */
int send_out_file(struct api_call *c, struct out_file *f, struct err *err);

#endif
