/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_WORKSPACE_STORE_H
#define HUSK_STORE_WORKSPACE_STORE_H

#include "base/err.h"
#include "model/session.h"
#include "store/db.h"

#include <stdint.h>

/*
 * workspaces(workspace_id PK, owner, name, state, created_at, kept_since, kept_bytes,
 *   backend)
 * state: used (a live session's), kept (its session ended; found again by owner + name within the
 * retention and at the same backend; at most one kept per owner + name, an older one becomes
 * doomed), doomed (its files are to be removed, never handed out).  Rows are made and moved by
 * session_store.h.
 */
enum workspace_state { WORKSPACE_ROW_USED, WORKSPACE_ROW_KEPT, WORKSPACE_ROW_DOOMED };

struct workspace_row {
    int64_t workspace_id;
    char owner[OWNER_MAX + 1];
    char name[SESSION_NAME_MAX + 1];
    char backend[16];
    int64_t kept_since; /* wall ms */
};

/* kept since before `kept_before` become doomed (wall ms); then all doomed ones of an id above
 * `after`, in that order, at most max. Returns how many, or -1. */
int workspace_store_doomed(struct db *db, int64_t kept_before, int64_t after,
                           struct workspace_row *ret, int max, struct err *err);
/* Kept ones whose size is not known yet, the longest kept first, at most max. */
int workspace_store_unmeasured(struct db *db, struct workspace_row *ret, int max, struct err *err);
/* What it takes on disk. 1, or 0 when it was used since it was read: then it may have changed. */
int workspace_store_measured(struct db *db, const struct workspace_row *w, int64_t bytes,
                             struct err *err);
/* While all kept ones together take more than max_bytes, the longest kept becomes doomed. How many
 * did; *ret_before and *ret_after are what all took. Unmeasured ones count nothing. */
int workspace_store_bound(struct db *db, int64_t max_bytes, int64_t *ret_before, int64_t *ret_after,
                          struct err *err);
/* While more than max_n of a backend are kept, the longest kept becomes doomed. How many did;
 * their files are not here, and count no bytes. */
int workspace_store_bound_of(struct db *db, const char *backend, int64_t max_n, struct err *err);
/* The files of a doomed one are gone: the row goes. */
int workspace_store_removed(struct db *db, int64_t workspace_id, struct err *err);
/* The state of its row; 1, or 0 when there is none. */
int workspace_store_state(struct db *db, int64_t workspace_id, enum workspace_state *ret,
                          struct err *err);

#endif
