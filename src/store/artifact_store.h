/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_ARTIFACT_STORE_H
#define HUSK_STORE_ARTIFACT_STORE_H

#include "base/err.h"
#include "model/artifact.h"
#include "store/db.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Files that runs kept, by owner and session name: artifacts, their versions, the last short
 * reference of each name, and what each owner uses (sql/004_artifacts.sql).  The bytes lie beside
 * the database, one file a digest; a row is only ever committed while its file is there, and a file
 * only removed while no row names it: both happen with the writer's lock held.
 *
 * Where an `owner` may be NULL it means any.
 */

enum artifact_add {
    ARTIFACT_ADDED,
    ARTIFACT_SAME, /* the latest version has this content; nothing changed */
    ARTIFACT_COUNT_FULL,
    ARTIFACT_BYTES_FULL,
    ARTIFACT_BLOB_GONE /* there() said no; nothing changed */
};

struct artifact_add_args {
    const char *owner, *session_name, *eid;
    const char *path;
    size_t path_len;
    const char *sha256;
    int64_t size;
    int64_t max_versions, max_bytes; /* of the owner */
    int64_t now_wall_ms;
    bool (*there)(void *ctx, const char *sha256); /* is the content's file there? */
    void *ctx;
};
/* One transaction, on disk when it returns: a new artifact, or a new version of the one with this
 * path. *ret is filled for ADDED and SAME. */
int artifact_store_add(struct db *db, const struct artifact_add_args *a, enum artifact_add *ret_how,
                       struct artifact *ret, struct err *err);

/* The latest version (version 0) or a certain one: 1 found, 0 not. */
int artifact_store_get(struct db *db, const char *owner, const char *artifact_id, int64_t version,
                       struct artifact *ret, struct err *err);
/* By its short reference in a session's name, the latest version. */
int artifact_store_by_ref(struct db *db, const char *owner, const char *session_name, int64_t ref,
                          struct artifact *ret, struct err *err);

/* Latest versions, newest artifact first, behind `after_aid` (0: from the newest). session_name
 * NULL: all. *ret is a heap array. */
int artifact_store_list(struct db *db, const char *owner, const char *session_name,
                        int64_t after_aid, int limit, struct artifact **ret, size_t *ret_n,
                        bool *ret_more, struct err *err);
/* All versions, newest first, behind `after_version` (0: from the newest). */
int artifact_store_versions(struct db *db, int64_t aid, int64_t after_version, int limit,
                            struct artifact **ret, size_t *ret_n, bool *ret_more, struct err *err);

/* Deletes an artifact with all versions: 1 done, 0 there is none. on_blob is told each content it
 * had, after the transaction; others may use it too. */
int artifact_store_remove(struct db *db, int64_t aid, void (*on_blob)(void *ctx, const char *sha),
                          void *ctx, struct err *err);

/* Calls remove() if no row names the content, while nobody can write one: 1 it did, 0 it is used.
 */
int artifact_store_forget(struct db *db, const char *sha256,
                          int (*remove)(void *ctx, const char *sha), void *ctx, struct err *err);

#endif
