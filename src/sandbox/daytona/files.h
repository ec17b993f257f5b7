/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_FILES_H
#define HUSK_SANDBOX_DAYTONA_FILES_H

#include "json/json.h"
#include "sandbox/daytona/daytona.h"

/* What the file operations share. */

#define FILES_OWN_PREFIX ".husk-" /* names of ours, which no caller sees */

struct files_job {
    struct daytona *dt;
    const char *id; /* of the box */
    struct deadline d;
};

/* An operation; it may be called twice.  Its err is never NULL. */
typedef int (*files_fn)(struct files_job *j, void *ctx, struct err *err);
/* Does it, and once more where the box was asleep and could be woken. */
int files_run(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, files_fn fn,
              void *ctx, struct err *err);

/* Appends a call and the path, below the workspace, that ends its query. */
int files_path(struct buf *out, const char *call, const char *path, size_t n, struct err *err);
/* A call on a path whose answer must be a 2xx; 404 is file_not_found where the box is well. */
int files_call(struct files_job *j, const char *method, const struct buf *path, const char *what,
               struct rest_reply *ret, struct err *err);
int files_look(struct files_job *j, const char *path, size_t n, struct file_info *ret,
               struct err *err);
/* Removes what a path names. */
int files_remove_call(struct files_job *j, const char *path, size_t n, bool recursive,
                      struct err *err);
/* A FileInfo of the toolbox; false if it is none. */
bool files_read_info(json_val v, struct file_info *ret);
int files_nonsense(struct err *err);

#endif
