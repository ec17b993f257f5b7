/* SPDX-License-Identifier: MIT */
#include "store/session_store.h"

#include <string.h>

#include "store/row.h"
#include "store/sql.h"

struct opening {
    const struct session_open_args *a;
    enum session_open_outcome outcome;
    struct session session;
};

static bool
is_expired(const struct session *s, const struct db_now *now)
{
    return (s->state == SESSION_READY || s->state == SESSION_COLD) &&
           strcmp(s->boot_id, now->boot_id) == 0 &&
           s->last_work_boot_ms + s->ttl_ms <= now->boot_ms;
}

/* Reused: extended, never shrunk, but where a session that was to close again is opened in earnest:
 * it gets the TTL of a new one. What *o reports of state_lost is what it was before. */
static int
reuse(struct db *db, struct opening *o, struct err *err)
{
    const struct session_open_args *a = o->a;
    bool lost = o->session.state_lost;
    int64_t sid = o->session.sid;
    int r = sql_run(db, err,
                    "UPDATE sessions SET ttl_ms = CASE WHEN temporary > ?7 THEN ?8"
                    " ELSE max(ttl_ms, ?2) END, temporary = min(temporary, ?7),"
                    " labels = coalesce(?3, labels), last_work_at = ?4, last_work_boot_ms = ?5,"
                    " boot_id = ?6, state_lost = 0 WHERE sid = ?1",
                    "iitiitdi", sid, a->has_ttl ? a->ttl_ms : (int64_t)0, a->labels, a->now.wall_ms,
                    a->now.boot_ms, a->now.boot_id, a->temporary,
                    a->has_ttl ? a->ttl_ms : a->default_ttl_ms);

    if (r < 0)
        return -1;
    session_done(&o->session);
    if (session_store_by_sid(db, sid, &o->session, err) < 0)
        return -1;
    o->session.state_lost = lost;
    return 0;
}

static int
found(struct db *db, struct opening *o, struct err *err)
{
    o->outcome = SESSION_OPEN_EXISTING;
    if (o->session.state == SESSION_CLOSING)
        o->outcome = SESSION_OPEN_CLOSING;
    else if (!o->a->ignore_expiry && is_expired(&o->session, &o->a->now))
        o->outcome = SESSION_OPEN_EXPIRED;
    else if (o->a->backend_asked && strcmp(o->session.backend, o->a->backend) != 0)
        o->outcome = SESSION_OPEN_ELSEWHERE;
    else if (o->session.state != SESSION_OPENING)
        return reuse(db, o, err);
    return 0;
}

/* 1 there is room, 0 not (outcome says why). */
static int
room(struct db *db, struct opening *o, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT count(*) FILTER (WHERE owner = ?1 AND name = ?2"
                      "                        AND state = 'quarantined'),"
                      " count(*) FILTER (WHERE owner = ?1), count(*),"
                      " count(*) FILTER (WHERE backend = ?3) FROM runtimes",
                      "ttt", o->a->owner, o->a->name, o->a->backend);

    if (r <= 0)
        return -1;
    if (sqlite3_column_int64(s, 0) > 0)
        o->outcome = SESSION_OPEN_QUARANTINED;
    else if (sqlite3_column_int64(s, 1) >= o->a->max_per_owner)
        o->outcome = SESSION_OPEN_OWNER_FULL;
    else if (sqlite3_column_int64(s, 2) >= o->a->max_sessions)
        o->outcome = SESSION_OPEN_FULL;
    else if (o->a->max_of_backend > 0 && sqlite3_column_int64(s, 3) >= o->a->max_of_backend)
        o->outcome = SESSION_OPEN_BACKEND_FULL;
    else
        return 1;
    return 0;
}

/* The kept workspace of that name, or a new row. 1 kept, 0 new, -1. */
static int
take_workspace(struct db *db, const struct session_open_args *a, int64_t *ret_id, struct err *err)
{
    int r =
        sql_int(db, ret_id, err,
                "UPDATE workspaces SET state = 'used', kept_since = NULL, kept_bytes = NULL"
                " WHERE owner = ? AND name = ? AND state = 'kept' AND kept_since >= ?"
                " AND backend = ? RETURNING workspace_id",
                "ttit", a->owner, a->name, a->now.wall_ms - a->workspace_retention_ms, a->backend);

    if (r != 0)
        return r;
    *ret_id = a->new_workspace;
    r = sql_run(db, err,
                "INSERT INTO workspaces (workspace_id, owner, name, state, created_at, backend)"
                " VALUES (?, ?, ?, 'used', ?, ?)",
                "ittit", a->new_workspace, a->owner, a->name, a->now.wall_ms, a->backend);
    return r < 0 ? -1 : 0;
}

static int
insert(struct db *db, struct opening *o, struct err *err)
{
    const struct session_open_args *a = o->a;
    const struct db_now *now = &a->now;
    int64_t workspace;
    int kept = take_workspace(db, a, &workspace, err);
    int r;

    if (kept < 0)
        return -1;
    r = sql_run(db, err,
                "INSERT INTO sessions (sid, owner, name, binding, binding_value, state, backend,"
                " workspace_id, generation, ttl_ms, created_at, last_work_at, last_work_boot_ms,"
                " boot_id, holder_pid, labels, files_kept, temporary)"
                " VALUES (?, ?, ?, ?, ?, 'opening', ?, ?, 1, ?, ?, ?, ?, ?, ?, coalesce(?, '{}'),"
                " ?, ?)",
                "itttTtiiiiititdd", a->new_sid, a->owner, a->name, row_binding_name(a->binding),
                a->value ? a->value : "", a->value ? a->value_len : (size_t)0, a->backend,
                workspace, a->has_ttl ? a->ttl_ms : a->default_ttl_ms, now->wall_ms, now->wall_ms,
                now->boot_ms, now->boot_id, a->holder_pid, a->labels, kept, a->temporary);
    if (r < 0)
        return -1;
    r = sql_run(db, err,
                "INSERT INTO runtimes (sid, owner, name, generation, backend, state, created_at)"
                " VALUES (?, ?, ?, 1, ?, 'starting', ?)",
                "ittti", a->new_sid, a->owner, a->name, a->backend, now->wall_ms);
    if (r < 0)
        return -1;
    o->outcome = SESSION_OPEN_NEW;
    return session_store_by_sid(db, a->new_sid, &o->session, err) < 0 ? -1 : 0;
}

static int
open_tx(struct db *db, void *ctx, struct err *err)
{
    struct opening *o = ctx;
    int r;

    session_done(&o->session); /* of an earlier run */
    r = session_store_find(db, o->a->owner, o->a->name, &o->session, err);
    if (r != 0)
        return r < 0 ? -1 : found(db, o, err);
    r = room(db, o, err);
    return r <= 0 ? r : insert(db, o, err);
}

int
session_store_open(struct db *db, const struct session_open_args *a,
                   enum session_open_outcome *ret_outcome, struct session *ret, struct err *err)
{
    struct opening o = {.a = a};

    if (sql_tx(db, open_tx, &o, err) < 0) {
        session_done(&o.session);
        return -1;
    }
    *ret_outcome = o.outcome;
    if (o.session.sid)
        *ret = o.session;
    return 0;
}

struct opened {
    int64_t sid, generation;
    const char *handle, *kernel_session;
    const struct db_now *now;
};

static int
opened_tx(struct db *db, void *ctx, struct err *err)
{
    const struct opened *o = ctx;
    int r =
        sql_run(db, err,
                "UPDATE sessions SET state = 'ready', last_work_at = ?3, last_work_boot_ms = ?4,"
                " boot_id = ?5 WHERE sid = ?1 AND generation = ?2 AND state = 'opening'",
                "iiiit", o->sid, o->generation, o->now->wall_ms, o->now->boot_ms, o->now->boot_id);

    if (r <= 0)
        return r;
    return sql_run(db, err,
                   "UPDATE runtimes SET state = 'live', handle = ?3, kernel_session = ?4"
                   " WHERE sid = ?1 AND generation = ?2 AND state = 'starting'",
                   "iitt", o->sid, o->generation, o->handle, o->kernel_session);
}

int
session_store_opened(struct db *db, int64_t sid, int64_t generation, const char *handle,
                     const char *kernel_session, const struct db_now *now, struct err *err)
{
    struct opened o = {sid, generation, handle, kernel_session, now};

    return sql_tx(db, opened_tx, &o, err);
}

int
session_store_no_files(struct db *db, int64_t sid, int64_t generation, struct err *err)
{
    return sql_run(db, err,
                   "UPDATE sessions SET files_kept = 0 WHERE sid = ? AND generation = ?"
                   " AND state = 'opening'",
                   "ii", sid, generation);
}

struct undo {
    int64_t sid, generation;
    const char *handle;
    bool workspace_removed;
    const struct db_now *now;
};

/* Its starting runtime: kept for another try at ending it, gone, or nobody knows. */
static int
undo_runtime(struct db *db, const struct undo *u, struct err *err)
{
    int64_t wait_ms = row_back_off_ms(0);

    if (u->handle && !*u->handle)
        return row_abandon_start(db, u->sid, u->generation, u->now, err);
    if (!u->handle)
        return sql_run(db, err, "DELETE FROM runtimes WHERE sid = ? AND state = 'starting'", "i",
                       u->sid);
    return sql_run(db, err,
                   "UPDATE runtimes SET state = 'quarantined', handle = ?2, next_try_at = ?3,"
                   " next_try_boot_ms = ?4 WHERE sid = ?1 AND state = 'starting'",
                   "itii", u->sid, u->handle, u->now->wall_ms + wait_ms, u->now->boot_ms + wait_ms);
}

static int
undo_tx(struct db *db, void *ctx, struct err *err)
{
    const struct undo *u = ctx;
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int64_t workspace;
    bool kept;
    int r = sql_first(db, &s, err,
                      "SELECT workspace_id, files_kept FROM sessions WHERE sid = ?1"
                      " AND generation = ?2 AND (state = 'opening' OR (state = 'closing'"
                      " AND EXISTS (SELECT 1 FROM runtimes r WHERE r.sid = ?1"
                      " AND r.generation = 1 AND r.generation = ?2 AND r.state = 'starting')))",
                      "ii", u->sid, u->generation);

    if (r <= 0)
        return r;
    workspace = sqlite3_column_int64(s, 0);
    kept = sqlite3_column_int(s, 1) != 0;
    sql_done(&s);
    if (undo_runtime(db, u, err) < 0 ||
        sql_run(db, err, "DELETE FROM sessions WHERE sid = ?", "i", u->sid) < 0)
        return -1;
    return row_free_workspace(db, workspace,
                              kept                   ? WORKSPACE_KEPT
                              : u->workspace_removed ? WORKSPACE_REMOVED
                                                     : WORKSPACE_DOOMED,
                              u->now, err) < 0
               ? -1
               : 1;
}

int
session_store_undo_open(struct db *db, int64_t sid, int64_t generation,
                        const char *quarantine_handle, bool workspace_removed,
                        const struct db_now *now, struct err *err)
{
    struct undo u = {sid, generation, quarantine_handle, workspace_removed, now};

    return sql_tx(db, undo_tx, &u, err);
}
