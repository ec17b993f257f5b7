/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_WALK_H
#define HUSK_BASE_WALK_H

#include "base/clock.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes of names of folders that are still to be visited. */
#define WALK_PENDING_MAX (64 * 1024 * 1024)

struct walk_entry {
    int dir_fd;       /* of the folder it is in, borrowed for the call */
    const char *name; /* in that folder */
    const char *path; /* from the root, borrowed for the call */
    size_t path_len;
    unsigned char d_type; /* DT_*, never DT_UNKNOWN */
};

enum walk_next { WALK_ON, WALK_INTO /* visit this folder too */, WALK_STOP };

typedef enum walk_next (*walk_fn)(void *ctx, const struct walk_entry *e);

/*
 * Calls fn for everything in `folder` ("" is root_fd itself), and in the folders fn asks for, in no
 * order.  1 when all was seen, 0 when fn stopped or max_entries were seen, -1 with err when the
 * folder cannot be opened (err->sys_errno), the deadline passed, or too many folders wait; a folder
 * below that cannot be opened (any more) is passed over.
 */
int walk(int root_fd, const char *folder, int64_t max_entries, struct deadline d, walk_fn fn,
         void *ctx, struct err *err);

/* A walk_fn that adds what each entry takes on disk (st_blocks, in bytes) to the int64_t that ctx
 * points to, and goes into every folder. */
enum walk_next walk_add_usage(void *ctx, const struct walk_entry *e);

#endif
