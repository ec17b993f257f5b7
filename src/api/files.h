/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_FILES_H
#define HUSK_API_FILES_H

#include "api/call.h"
#include "base/digest.h"
#include "workspace/workspace.h"

/* Bytes of a file in memory at a time, whatever its size. */
#define FILE_STEP (256 * 1024)

/* A call on one file of a session: the lease of its workspace and the path, both checked. */
struct file_call {
    struct file_lease lease;
    const char *path;
    size_t n;
};

int file_call_begin(struct api_call *c, struct file_call *ret, struct err *err);
/* worked: bytes moved or something changed, so the idle clock starts anew. */
void file_call_end(struct api_call *c, struct file_call *f, bool worked);

/* 0 go on; else an err (precondition_failed, bad_header) was set, or 304 is returned. */
int file_precondition(struct api_call *c, bool exists, const struct file_info *info,
                      const char *etag, struct err *err);

/* --- repr_digest.c: RFC 9530 --- */

/* The sha-256 of a Repr-Digest header: 1 there, 0 not, -1 malformed. */
int repr_digest_parse(const char *header, uint8_t ret[SHA256_SIZE]);
/* Does a Want-Repr-Digest header ask for sha-256? */
bool repr_digest_wanted(const char *header);
void repr_digest_header(struct http_exchange *x, const uint8_t digest[SHA256_SIZE]);

#endif
