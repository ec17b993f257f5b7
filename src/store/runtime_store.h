/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_RUNTIME_STORE_H
#define HUSK_STORE_RUNTIME_STORE_H

#include "base/err.h"
#include "model/session.h"
#include "store/db.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What runs the sessions.
 *
 * runtimes(rid PK, sid or NULL once the session is gone, owner, name, generation, backend, handle,
 *   kernel_session, state, created_at, tries, next_try_at, next_try_boot_ms)
 * state is one of starting, live, quarantined.  All rows count against the caps.  At most one row
 * that is not quarantined per sid (partial UNIQUE index).  A handle is unique where not ''.
 * Back-off of quarantined ones: 2 s doubling with every try to at most 5 min, on the boot clock.
 *
 * A starting row without sid and handle is an abandoned start: its opener died or got no answer, so
 * that the backend may have a runtime whose handle nobody knows.  It counts like the others until
 * that has turned up among the orphans and was ended, or did not turn up (created_at: since when).
 *
 * orphans(handle PK, backend, first_seen_boot_ms, last_seen_boot_ms): runtimes the backend has and
 * no row knows.
 *
 * Fenced: with a generation that is not the session's own any more nothing changes, answer 0.
 */

enum runtime_begin_outcome {
    RUNTIME_BEGIN_OK,    /* row starting; the session's generation is *ret_generation */
    RUNTIME_BEGIN_STALE, /* generation moved on, session gone or closing, or it has one */
    RUNTIME_BEGIN_FULL,
    RUNTIME_BEGIN_OWNER_FULL,
    RUNTIME_BEGIN_BACKEND_FULL,
    RUNTIME_BEGIN_QUARANTINED /* one of this owner + name is pending */
};
struct runtime_begin_args {
    int64_t sid, generation;
    int64_t max_sessions, max_per_owner;
    int64_t max_of_backend; /* 0: no bound but the others */
    struct db_now now;
};
/* For a session without a runtime (no row starting or live with its sid; one that is starting with
 * the session's generation is a dead process's, since the caller has the session's turn: it is
 * abandoned first, or where a handle was noted quarantined, due at once: then QUARANTINED). Checks
 * as session_store_open does; generation + 1 in both rows. */
int runtime_store_begin(struct db *db, const struct runtime_begin_args *a,
                        enum runtime_begin_outcome *ret_outcome, int64_t *ret_generation,
                        struct err *err);

/* Notes the handle of one that is still starting, so that its exact runtime can be ended whoever
 * dies. 1, or 0 when fenced. */
int runtime_store_note(struct db *db, int64_t sid, int64_t generation, const char *handle,
                       const char *kernel_session, struct err *err);

/* starting -> live with handle and kernel_session; the session: cold -> ready. 1, or 0 fenced. */
int runtime_store_ready(struct db *db, int64_t sid, int64_t generation, const char *handle,
                        const char *kernel_session, struct err *err);

/* The session loses its runtime (live or starting, of this generation): the row is deleted when
 * `ended`, else quarantined (next try after the first back-off; with handle `handle` if that is not
 * NULL, or abandoned where no handle is known). The session: ready -> cold; busy stays busy;
 * state_lost is set to 1 when `lost`, and to 0 when `lost` < 0, left when 0. 1, or 0 fenced. */
struct runtime_drop_args {
    int64_t sid, generation;
    bool ended;
    const char *handle;
    int lost;
    struct db_now now;
};
int runtime_store_drop(struct db *db, const struct runtime_drop_args *a, struct err *err);

/* A starting or live row's handle of a session, by sid; 1 and *ret filled, or 0 none. */
struct runtime_row {
    int64_t rid, sid; /* sid 0: none any more */
    char owner[OWNER_MAX + 1];
    char name[SESSION_NAME_MAX + 1];
    char backend[16];
    char handle[HANDLE_MAX + 1];
    int64_t generation;
    int64_t tries;
};
int runtime_store_of(struct db *db, int64_t sid, struct runtime_row *ret, struct err *err);

/* Quarantined ones: due (next_try_boot_ms <= now.boot_ms; owner NULL) or all of owner + name
 * whatever their time. At most max into ret; returns how many, or -1. */
int runtime_store_quarantined(struct db *db, const char *owner, const char *name,
                              const struct db_now *now, struct runtime_row *ret, int max,
                              struct err *err);
/* Its end is confirmed: the row goes. 1, 0 gone already. */
int runtime_store_ended(struct db *db, int64_t rid, struct err *err);
/* One more try failed: tries + 1, next try later. 1, 0 gone. */
int runtime_store_retry_later(struct db *db, int64_t rid, const struct db_now *now,
                              struct err *err);

/* Those that are live for a session, by handle; at most max, how many, or -1. */
struct runtime_live {
    int64_t sid, generation;
    char handle[HANDLE_MAX + 1];
};
int runtime_store_live(struct db *db, const char *backend, struct runtime_live *ret, int max,
                       struct err *err);
/* Those that are starting for a session which is not opening or closing: of sid alone, or (0) of
 * all; at most max, how many, or -1. */
int runtime_store_starting(struct db *db, int64_t sid, struct runtime_row *ret, int max,
                           struct err *err);

/* Does any row know this handle, of a session or of the pool? 1 or 0. */
int runtime_store_knows(struct db *db, const char *handle, struct err *err);

/* The backend has these handles and no row knows them (checked again inside): rows new to orphans
 * are inserted with first_seen = now, rows of this backend that are not among them are deleted.
 * Returns into ret those first seen at or before now.boot_ms - older_than_ms, at most max; the
 * count, or -1. */
struct orphan_handle {
    char handle[HANDLE_MAX + 1];
};
int runtime_store_orphans(struct db *db, const char *backend, const struct orphan_handle *seen,
                          int n_seen, int64_t older_than_ms, const struct db_now *now,
                          struct orphan_handle *ret, int max, struct err *err);
int runtime_store_orphan_gone(struct db *db, const char *handle, struct err *err);

/* Deletes abandoned starts of this backend: those from before since_wall_ms, as far as there are
 * more of them than orphans (each of which may be what one of them made), and all from before
 * end_wall_ms. How many, or -1. */
int runtime_store_abandoned_end(struct db *db, const char *backend, int64_t since_wall_ms,
                                int64_t end_wall_ms, struct err *err);

#endif
