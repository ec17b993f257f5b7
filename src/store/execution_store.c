/* SPDX-License-Identifier: MIT */
#include "store/execution_store.h"

#include <string.h>

#include "store/row.h"
#include "store/session_store.h"
#include "store/sql.h"

struct look {
    const char *request_id, *owner, *session_name, *idempotency_key, *body_sha256;
    int64_t since; /* keys from before are forgotten */
};

/* Was this request, or this idempotency key, seen before? 1 with outcome and row, 0, -1. */
static int
look(struct db *db, const struct look *l, enum execution_begin_outcome *ret_outcome,
     struct execution *ret_seen, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    char body[65];
    int r =
        sql_first(db, &s, err, "SELECT " EXECUTION_COLUMNS " FROM executions WHERE request_id = ?",
                  "t", l->request_id);

    if (r > 0) {
        row_execution(s, ret_seen);
        *ret_outcome = EXECUTION_BEGIN_DUPLICATE;
    }
    if (r != 0 || !l->idempotency_key)
        return r;
    r = sql_first(db, &s, err,
                  "SELECT " EXECUTION_COLUMNS ", body_sha256 FROM executions WHERE owner = ?"
                  " AND session_name = ? AND idempotency_key = ? AND created_at >= ?",
                  "ttti", l->owner, l->session_name, l->idempotency_key, l->since);
    if (r <= 0)
        return r;
    row_execution(s, ret_seen);
    sql_text(s, 21, body, sizeof(body));
    *ret_outcome = l->body_sha256 && strcmp(body, l->body_sha256) == 0 ? EXECUTION_BEGIN_REPLAY
                                                                       : EXECUTION_BEGIN_MISMATCH;
    return 1;
}

int
execution_store_seen(struct db *db, const char *request_id, const char *owner,
                     const char *session_name, const char *idempotency_key, const char *body_sha256,
                     int64_t idempotency_retention_ms, const struct db_now *now,
                     enum execution_begin_outcome *ret_outcome, struct execution *ret_seen,
                     struct err *err)
{
    struct look l = {request_id,      owner,       session_name,
                     idempotency_key, body_sha256, now->wall_ms - idempotency_retention_ms};

    return look(db, &l, ret_outcome, ret_seen, err);
}

struct begin {
    const struct execution_begin_args *a;
    enum execution_begin_outcome outcome;
    struct execution seen;
};

/* 1 the session can take it, 0 not (outcome says why), -1. */
static int
session_takes(struct db *db, struct begin *b, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT busy_execution IS NOT NULL FROM sessions WHERE sid = ?"
                      " AND generation = ? AND state NOT IN ('opening', 'closing')",
                      "ii", b->a->row->sid, b->a->row->generation);

    if (r < 0)
        return -1;
    b->outcome = r == 0                          ? EXECUTION_BEGIN_STALE
                 : sqlite3_column_int(s, 0) != 0 ? EXECUTION_BEGIN_BUSY
                                                 : EXECUTION_BEGIN_OK;
    return b->outcome == EXECUTION_BEGIN_OK;
}

static int
insert(struct db *db, const struct execution_begin_args *a, struct err *err)
{
    const struct execution *x = a->row;

    return sql_run(db, err,
                   "INSERT INTO executions (eid, sid, session_name, owner, key_id, request_id,"
                   " client_request_id, idempotency_key, body_sha256, generation, pid, created_at,"
                   " started_at, waited_ms, code_sha256, code)"
                   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   "titteteteiiiiitT", x->eid, x->sid, x->session_name, x->owner, a->key_id,
                   x->request_id, x->client_request_id, a->idempotency_key, a->body_sha256,
                   x->generation, a->pid, x->created_at, x->started_at, x->waited_ms,
                   x->code_sha256, a->code, a->code_len);
}

static int
begin_tx(struct db *db, void *ctx, struct err *err)
{
    struct begin *b = ctx;
    const struct execution_begin_args *a = b->a;
    const struct execution *x = a->row;
    struct look l = {x->request_id,   x->owner,
                     x->session_name, a->idempotency_key,
                     a->body_sha256,  a->now.wall_ms - a->idempotency_retention_ms};
    int r;

    if (a->idempotency_key &&
        sql_run(db, err,
                "UPDATE executions SET idempotency_key = NULL WHERE owner = ? AND session_name = ?"
                " AND idempotency_key IS NOT NULL AND created_at < ?",
                "tti", x->owner, x->session_name, l.since) < 0)
        return -1;
    r = look(db, &l, &b->outcome, &b->seen, err);
    if (r != 0)
        return r < 0 ? -1 : 0;
    r = session_takes(db, b, err);
    if (r <= 0)
        return r;
    if (insert(db, a, err) < 0 ||
        sql_run(db, err,
                "UPDATE sessions SET state = 'busy', busy_execution = ?2, busy_since = ?3,"
                " busy_pid = ?4 WHERE sid = ?1",
                "itii", x->sid, x->eid, x->started_at, a->pid) < 0 ||
        sql_run(db, err, "DELETE FROM turns WHERE ticket = ?", "i", a->ticket) < 0)
        return -1;
    return 0;
}

int
execution_store_begin(struct db *db, const struct execution_begin_args *a,
                      enum execution_begin_outcome *ret_outcome, struct execution *ret_seen,
                      struct err *err)
{
    struct begin b = {.a = a};
    /* A key is a promise to run once, which a power cut must not break. */
    int r =
        a->idempotency_key ? sql_tx_durable(db, begin_tx, &b, err) : sql_tx(db, begin_tx, &b, err);

    if (r < 0)
        return -1;
    *ret_outcome = b.outcome;
    if (ret_seen && b.outcome >= EXECUTION_BEGIN_DUPLICATE)
        *ret_seen = b.seen;
    return 0;
}

struct finish {
    const struct execution *row;
    unsigned flags;
    const struct db_now *now;
    bool had_session;
    struct session session;
};

/* The session's side of an end, if this is what it is busy with. */
static int
release(struct db *db, const char *eid, int64_t sid, const struct db_now *now, struct err *err)
{
    return sql_run(db, err,
                   "UPDATE sessions SET state = " STATE_AFTER_WORK
                   ", busy_execution = NULL, busy_since = NULL, busy_pid = NULL,"
                   " last_work_at = ?3, last_work_boot_ms = ?4, boot_id = ?5"
                   " WHERE sid = ?1 AND busy_execution = ?2",
                   "itiit", sid, eid, now->wall_ms, now->boot_ms, now->boot_id);
}

/* The row's own side of an end: 1 with its sid, 0 it had ended. */
static int
record(struct db *db, const struct execution *x, int64_t *ret_sid, struct err *err)
{
    return sql_int(db, ret_sid, err,
                   "UPDATE executions SET ended_at = ?2, duration_ms = ?3, ok = ?4, reason = ?5,"
                   " bytes_stdout = ?6, bytes_stderr = ?7, bytes_rich = ?8, error_name = ?9,"
                   " truncated = ?10, runtime_invalidated = ?11"
                   " WHERE eid = ?1 AND reason IS NULL RETURNING sid",
                   "tiidtiiiedd", x->eid, x->ended_at, x->duration_ms, x->ok,
                   exec_reason_name(x->reason), x->bytes_stdout, x->bytes_stderr, x->bytes_rich,
                   x->error_name, x->truncated, x->runtime_invalidated);
}

static int
finish_tx(struct db *db, void *ctx, struct err *err)
{
    struct finish *f = ctx;
    int64_t sid;
    int r = record(db, f->row, &sid, err);

    session_done(&f->session); /* of an earlier run */
    f->had_session = false;
    if (r <= 0)
        return r;
    if (release(db, f->row->eid, sid, f->now, err) < 0)
        return -1;
    if ((f->flags & FINISH_BOUND) != 0 &&
        sql_run(db, err,
                "UPDATE runtimes SET unbound = 0 WHERE sid = ?1"
                " AND generation = (SELECT generation FROM sessions WHERE sid = ?1)",
                "i", sid) < 0)
        return -1;
    r = session_store_by_sid(db, sid, &f->session, err);
    if (r <= 0)
        return r;
    f->had_session = true;
    if ((f->flags & FINISH_TELLS_LOST) != 0 && session_store_take_state_lost(db, sid, err) < 0)
        return -1;
    return 1;
}

int
execution_store_finish(struct db *db, const struct execution *row, unsigned flags,
                       const struct db_now *now, struct session *ret_session, struct err *err)
{
    struct finish f = {.row = row, .flags = flags, .now = now};
    int r = sql_tx(db, finish_tx, &f, err);

    if (r > 0 && ret_session)
        *ret_session = f.session;
    else
        session_done(&f.session);
    return r;
}

int
execution_store_ran(struct db *db, int64_t sid, int64_t generation, const char *except_eid,
                    struct err *err)
{
    int64_t one;

    return sql_int(db, &one, err,
                   "SELECT 1 FROM executions WHERE sid = ? AND generation = ? AND eid <> ? LIMIT 1",
                   "iit", sid, generation, except_eid);
}

struct abort_args {
    const char *eid;
    const struct db_now *now;
};

static int
abort_tx(struct db *db, void *ctx, struct err *err)
{
    const struct abort_args *a = ctx;
    int64_t sid;
    int r = sql_int(db, &sid, err,
                    "UPDATE executions SET reason = 'aborted', ended_at = ?2,"
                    " duration_ms = max(0, ?2 - started_at) WHERE eid = ?1 AND reason IS NULL"
                    " RETURNING sid",
                    "ti", a->eid, a->now->wall_ms);

    if (r <= 0)
        return r;
    return release(db, a->eid, sid, a->now, err) < 0 ? -1 : 1;
}

int
execution_store_abort(struct db *db, const char *eid, const struct db_now *now, struct err *err)
{
    struct abort_args a = {eid, now};

    return sql_tx(db, abort_tx, &a, err);
}

int
execution_store_ask_interrupt(struct db *db, const char *eid, struct err *err)
{
    return sql_run(db, err,
                   "UPDATE executions SET interrupt_asked = 1 WHERE eid = ? AND reason IS NULL",
                   "t", eid);
}

int
execution_store_interrupt_asked(struct db *db, const char *eid, struct err *err)
{
    int64_t asked;
    int r =
        sql_int(db, &asked, err, "SELECT interrupt_asked FROM executions WHERE eid = ?", "t", eid);

    return r <= 0 ? r : asked != 0;
}
