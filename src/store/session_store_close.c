/* SPDX-License-Identifier: MIT */
#include "store/session_store.h"

#include <string.h>

#include "store/row.h"
#include "store/sql.h"

struct closing {
    const struct session_close_args *a;
    struct session session;
};

static int
begin_tx(struct db *db, void *ctx, struct err *err)
{
    struct closing *c = ctx;
    const struct session_close_args *a = c->a;
    int r;

    session_done(&c->session); /* of an earlier run */
    r = sql_run(db, err,
                "UPDATE sessions SET state = 'closing', close_reason = ?2,"
                " temporary = min(temporary, ?7)"
                " WHERE sid = ?1 AND state <> 'closing' AND temporary >= ?7"
                " AND (?3 = 0 OR (state IN ('ready', 'cold') AND boot_id = ?5"
                "                 AND last_work_boot_ms + ttl_ms <= ?6))"
                " AND (?4 = 0 OR state IN ('ready', 'cold'))",
                "itddtid", a->sid, session_end_name(a->why), a->only_if_expired, a->only_if_idle,
                a->now.boot_id, a->now.boot_ms, a->only_if_temporary);
    if (r < 0)
        return -1;
    r = session_store_by_sid(db, a->sid, &c->session, err);
    return r <= 0 ? r : c->session.state == SESSION_CLOSING;
}

int
session_store_begin_close(struct db *db, const struct session_close_args *a, struct session *ret,
                          struct err *err)
{
    struct closing c = {.a = a};
    int r = sql_tx(db, begin_tx, &c, err);

    if (r > 0 && ret)
        *ret = c.session;
    else
        session_done(&c.session);
    return r;
}

struct finish {
    int64_t sid;
    bool runtime_ended;
    enum workspace_fate fate;
    const struct db_now *now;
};

/* Rows that are quarantined already stay so: their ends are not confirmed. */
static int
end_runtimes(struct db *db, const struct finish *f, struct err *err)
{
    int64_t wait_ms = row_back_off_ms(0), generation;
    /* Closing nobody holds it: one that is starting without a handle is a dead process's. */
    int r =
        sql_int(db, &generation, err, "SELECT generation FROM sessions WHERE sid = ?", "i", f->sid);

    if (r < 0 || row_abandon_start(db, f->sid, generation, f->now, err) < 0 ||
        sql_run(db, err, "DELETE FROM runtimes WHERE sid = ?1 AND state <> 'quarantined' AND ?2",
                "id", f->sid, f->runtime_ended) < 0)
        return -1;
    return sql_run(db, err,
                   "UPDATE runtimes SET state = 'quarantined', next_try_at = ?2,"
                   " next_try_boot_ms = ?3 WHERE sid = ?1 AND state <> 'quarantined'",
                   "iii", f->sid, f->now->wall_ms + wait_ms, f->now->boot_ms + wait_ms);
}

static int
finish_tx(struct db *db, void *ctx, struct err *err)
{
    const struct finish *f = ctx;
    int64_t workspace;
    int r = sql_int(db, &workspace, err,
                    "SELECT workspace_id FROM sessions WHERE sid = ? AND state = 'closing'", "i",
                    f->sid);

    if (r <= 0)
        return r;
    if (sql_run(db, err,
                "UPDATE executions SET reason = 'aborted', ended_at = ?2,"
                " duration_ms = max(0, ?2 - started_at) WHERE sid = ?1 AND reason IS NULL",
                "ii", f->sid, f->now->wall_ms) < 0 ||
        sql_run(db, err,
                "INSERT INTO session_history (sid, owner, name, binding, binding_value, backend,"
                " created_at, ended_at, reason, executions, labels)"
                " SELECT sid, owner, name, binding, binding_value, backend, created_at, ?2,"
                " close_reason, (SELECT count(*) FROM executions e WHERE e.sid = ?1), labels"
                " FROM sessions WHERE sid = ?1",
                "ii", f->sid, f->now->wall_ms) < 0 ||
        end_runtimes(db, f, err) < 0 ||
        sql_run(db, err, "DELETE FROM sessions WHERE sid = ?", "i", f->sid) < 0 ||
        row_free_workspace(db, workspace, f->fate, f->now, err) < 0)
        return -1;
    return 1;
}

int
session_store_finish_close(struct db *db, int64_t sid, bool runtime_ended, enum workspace_fate fate,
                           const struct db_now *now, struct err *err)
{
    struct finish f = {sid, runtime_ended, fate, now};

    return sql_tx(db, finish_tx, &f, err);
}

int
session_store_close_reason(struct db *db, int64_t sid, enum session_end *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    char reason[16];
    int r = sql_first(db, &s, err,
                      "SELECT close_reason FROM sessions WHERE sid = ? AND state = 'closing'", "i",
                      sid);

    if (r <= 0)
        return r;
    sql_text(s, 0, reason, sizeof(reason));
    for (int e = SESSION_END_CLOSED; e <= SESSION_END_LOST; e++)
        if (strcmp(reason, session_end_name((enum session_end)e)) == 0)
            *ret = (enum session_end)e;
    return 1;
}
