/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_POOL_STORE_H
#define HUSK_STORE_POOL_STORE_H

#include "base/err.h"
#include "model/session.h"
#include "store/db.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The warm pool: runtimes that no session has yet.
 *
 * pool(handle PK, kernel_session, backend, kernel_name, created_at, created_boot_ms, boot_id)
 * A handle stands in pool or in runtimes, never in both: who takes one deletes its row, so nobody
 * else gets it.  Rows do not count against the caps.
 */

/* What a pooled runtime must be to be of use. */
struct pool_kind {
    const char *backend, *kernel_name;
    int64_t max_age_ms; /* on the boot clock */
};

struct pool_row {
    char handle[HANDLE_MAX + 1];
    char kernel_session[HANDLE_MAX + 1];
    char backend[16];
    bool fit; /* of the kind, of this boot and young enough */
};

/* Is one wanted now: fewer than size are there, orphans included (a start for the pool may have
 * left one), and no session's runtime that was begun after since_wall_ms is being started? 1 or 0.
 */
int pool_store_wanted(struct db *db, int64_t size, int64_t since_wall_ms, struct err *err);

/* 1, or 0: there are `size` already. */
int pool_store_put(struct db *db, const struct pool_kind *k, int64_t size, const char *handle,
                   const char *kernel_session, const struct db_now *now, struct err *err);

/* Moves the oldest fit one to the session's row in state starting, in place of what handle was
 * noted there. 1 and handle, kernel_session and backend filled; 0: none is fit, or fenced (see
 * runtime_store.h). */
int pool_store_claim(struct db *db, const struct pool_kind *k, int64_t sid, int64_t generation,
                     bool unbound, const struct db_now *now, struct pool_row *ret, struct err *err);

/* All, the oldest first, at most max. The count, or -1. */
int pool_store_list(struct db *db, const struct pool_kind *k, const struct db_now *now,
                    struct pool_row *ret, int max, struct err *err);

/* Takes one out, to be ended by the caller. 1, or 0: somebody has it already. */
int pool_store_take(struct db *db, const char *handle, struct err *err);

#endif
