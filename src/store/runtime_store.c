/* SPDX-License-Identifier: MIT */
#include "store/runtime_store.h"

#include <string.h>

#include "store/row.h"
#include "store/sql.h"

struct begin {
    const struct runtime_begin_args *a;
    enum runtime_begin_outcome outcome;
};

/* One that is starting is a dead process's. What its row knows a handle of may still run, and is
 * ended first; what may run without a handle goes on counting. */
static int
clear_dead(struct db *db, const struct runtime_begin_args *a, struct err *err)
{
    if (row_abandon_start(db, a->sid, a->generation, &a->now, err) < 0)
        return -1;
    return sql_run(db, err,
                   "UPDATE runtimes SET state = 'quarantined', next_try_at = ?3,"
                   " next_try_boot_ms = ?4"
                   " WHERE sid = ?1 AND generation = ?2 AND state = 'starting'",
                   "iiii", a->sid, a->generation, a->now.wall_ms, a->now.boot_ms);
}

/* 1 there is room, 0 not (outcome says why). */
static int
room(struct db *db, struct begin *b, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT count(*) FILTER (WHERE r.owner = s.owner AND r.name = s.name"
                      "                        AND r.state = 'quarantined'),"
                      " count(*) FILTER (WHERE r.owner = s.owner), count(r.rid),"
                      " count(*) FILTER (WHERE r.backend = s.backend)"
                      " FROM sessions s LEFT JOIN runtimes r WHERE s.sid = ?",
                      "i", b->a->sid);

    if (r <= 0)
        return -1;
    if (sqlite3_column_int64(s, 0) > 0)
        b->outcome = RUNTIME_BEGIN_QUARANTINED;
    else if (sqlite3_column_int64(s, 1) >= b->a->max_per_owner)
        b->outcome = RUNTIME_BEGIN_OWNER_FULL;
    else if (sqlite3_column_int64(s, 2) >= b->a->max_sessions)
        b->outcome = RUNTIME_BEGIN_FULL;
    else if (b->a->max_of_backend > 0 && sqlite3_column_int64(s, 3) >= b->a->max_of_backend)
        b->outcome = RUNTIME_BEGIN_BACKEND_FULL;
    else
        return 1;
    return 0;
}

static int
begin_tx(struct db *db, void *ctx, struct err *err)
{
    struct begin *b = ctx;
    const struct runtime_begin_args *a = b->a;
    int64_t one;
    int r = sql_int(db, &one, err,
                    "SELECT 1 FROM sessions s WHERE sid = ?1 AND generation = ?2"
                    " AND state NOT IN ('opening', 'closing')"
                    " AND NOT EXISTS (SELECT 1 FROM runtimes r WHERE r.sid = ?1"
                    "                 AND (r.state = 'live' OR (r.state = 'starting'"
                    "                                           AND r.generation <> ?2)))",
                    "ii", a->sid, a->generation);

    b->outcome = RUNTIME_BEGIN_STALE;
    if (r <= 0)
        return r;
    if (clear_dead(db, a, err) < 0)
        return -1;
    r = room(db, b, err);
    if (r <= 0)
        return r;
    if (sql_run(db, err, "UPDATE sessions SET generation = generation + 1 WHERE sid = ?", "i",
                a->sid) < 0 ||
        sql_run(db, err,
                "INSERT INTO runtimes (sid, owner, name, generation, backend, state, created_at)"
                " SELECT sid, owner, name, generation, backend, 'starting', ?2 FROM sessions"
                " WHERE sid = ?1",
                "ii", a->sid, a->now.wall_ms) < 0)
        return -1;
    b->outcome = RUNTIME_BEGIN_OK;
    return 0;
}

int
runtime_store_begin(struct db *db, const struct runtime_begin_args *a,
                    enum runtime_begin_outcome *ret_outcome, int64_t *ret_generation,
                    struct err *err)
{
    struct begin b = {.a = a};

    if (sql_tx(db, begin_tx, &b, err) < 0)
        return -1;
    *ret_outcome = b.outcome;
    if (b.outcome == RUNTIME_BEGIN_OK)
        *ret_generation = a->generation + 1;
    return 0;
}

int
runtime_store_note(struct db *db, int64_t sid, int64_t generation, const char *handle,
                   const char *kernel_session, struct err *err)
{
    return sql_run(db, err,
                   "UPDATE runtimes SET handle = ?3, kernel_session = ?4 WHERE sid = ?1"
                   " AND generation = ?2 AND state = 'starting'"
                   " AND EXISTS (SELECT 1 FROM sessions s WHERE s.sid = ?1 AND s.generation = ?2)",
                   "iitt", sid, generation, handle, kernel_session);
}

struct ready {
    int64_t sid, generation;
    const char *handle, *kernel_session;
};

static int
ready_tx(struct db *db, void *ctx, struct err *err)
{
    const struct ready *y = ctx;
    int r = sql_run(db, err,
                    "UPDATE runtimes SET state = 'live', handle = ?3, kernel_session = ?4"
                    " WHERE sid = ?1 AND generation = ?2 AND state = 'starting'"
                    " AND EXISTS (SELECT 1 FROM sessions s WHERE s.sid = ?1 AND s.generation = ?2"
                    "             AND s.state <> 'closing')",
                    "iitt", y->sid, y->generation, y->handle, y->kernel_session);

    if (r <= 0)
        return r;
    if (sql_run(db, err, "UPDATE sessions SET state = 'ready' WHERE sid = ? AND state = 'cold'",
                "i", y->sid) < 0)
        return -1;
    return 1;
}

int
runtime_store_ready(struct db *db, int64_t sid, int64_t generation, const char *handle,
                    const char *kernel_session, struct err *err)
{
    struct ready y = {sid, generation, handle, kernel_session};

    return sql_tx(db, ready_tx, &y, err);
}

static int
drop_tx(struct db *db, void *ctx, struct err *err)
{
    const struct runtime_drop_args *a = ctx;
    const char *handle = a->handle && *a->handle ? a->handle : NULL;
    int64_t wait_ms = row_back_off_ms(0), rid;
    int r = sql_int(db, &rid, err,
                    "SELECT r.rid FROM runtimes r JOIN sessions s ON s.sid = r.sid"
                    " AND s.generation = r.generation WHERE r.sid = ? AND r.generation = ?"
                    " AND r.state <> 'quarantined'",
                    "ii", a->sid, a->generation);

    if (r <= 0)
        return r;
    r = sql_run(db, err, "DELETE FROM runtimes WHERE rid = ? AND ?", "id", rid, a->ended);
    if (r == 0 && !handle)
        r = row_abandon_start(db, a->sid, a->generation, &a->now, err);
    if (r == 0)
        r = sql_run(db, err,
                    "UPDATE runtimes SET state = 'quarantined', handle = coalesce(?2, handle),"
                    " next_try_at = ?3, next_try_boot_ms = ?4 WHERE rid = ?1",
                    "itii", rid, handle, a->now.wall_ms + wait_ms, a->now.boot_ms + wait_ms);
    if (r < 0 ||
        sql_run(db, err,
                "UPDATE sessions SET state = CASE state WHEN 'ready' THEN 'cold' ELSE state END,"
                " state_lost = CASE WHEN ?2 > 0 THEN 1 WHEN ?2 < 0 THEN 0 ELSE state_lost END"
                " WHERE sid = ?1",
                "id", a->sid, a->lost) < 0)
        return -1;
    return 1;
}

int
runtime_store_drop(struct db *db, const struct runtime_drop_args *a, struct err *err)
{
    struct runtime_drop_args copy = *a;

    return sql_tx(db, drop_tx, &copy, err);
}
