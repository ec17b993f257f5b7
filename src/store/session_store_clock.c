/* SPDX-License-Identifier: MIT */
#include "store/session_store.h"

#include <string.h>

#include "model/execution.h"
#include "store/sql.h"

/* In this order. Parameters: ?1 wall clock, ?2 boot clock, ?3 boot id; `format` tells how many. */
static const struct {
    const char *format, *sql;
} after_reboot[] = {
    {"i", "UPDATE executions SET reason = 'aborted', ended_at = ?1,"
          " duration_ms = max(0, ?1 - started_at) WHERE reason IS NULL"},
    {"", "DELETE FROM runtimes WHERE state = 'starting' AND handle = ''"
         " AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.sid = runtimes.sid"
         "                 AND s.state = 'opening')"},
    /* A gateway elsewhere may still have them: due at once. Those that are quarantined already
     * counted on a boot clock that is no more. */
    {"ii", "UPDATE runtimes SET state = 'quarantined', next_try_at = ?1, next_try_boot_ms = ?2"
           " WHERE state <> 'starting' OR NOT EXISTS (SELECT 1 FROM sessions s"
           "                WHERE s.sid = runtimes.sid AND s.state = 'opening')"},
    {"iit", "UPDATE sessions SET last_work_at = ?1, last_work_boot_ms = ?2, boot_id = ?3,"
            " busy_execution = NULL, busy_since = NULL, busy_pid = NULL,"
            " state_lost = CASE WHEN state IN ('ready', 'busy') THEN 1 ELSE state_lost END,"
            " state = CASE WHEN state IN ('ready', 'busy') THEN 'cold' ELSE state END"},
    {"", "DELETE FROM turns"},
    {"", "DELETE FROM orphans"},
    {"iit", "UPDATE clock SET wall_ms = ?1, boot_ms = ?2, boot_id = ?3"},
};

int
session_store_same_boot(struct db *db, const struct db_now *now, struct err *err)
{
    int64_t n;
    int r = sql_int(db, &n, err, "SELECT count(*) FROM clock WHERE boot_id = ?", "t", now->boot_id);

    return r < 0 ? -1 : n > 0;
}

static int
reboot_tx(struct db *db, void *ctx, struct err *err)
{
    const struct db_now *now = ctx;
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    char boot_id[64];
    int r = sql_first(db, &s, err, "SELECT boot_id FROM clock", "");

    if (r < 0)
        return -1;
    if (r == 0)
        return sql_run(db, err,
                       "INSERT INTO clock (id, wall_ms, boot_ms, boot_id) VALUES (1, ?, ?, ?)",
                       "iit", now->wall_ms, now->boot_ms, now->boot_id) < 0
                   ? -1
                   : 0;
    sql_text(s, 0, boot_id, sizeof(boot_id));
    sql_done(&s);
    if (strcmp(boot_id, now->boot_id) == 0)
        return 0;
    for (size_t i = 0; i < sizeof(after_reboot) / sizeof(after_reboot[0]); i++)
        if (sql_run(db, err, after_reboot[i].sql, after_reboot[i].format, now->wall_ms,
                    now->boot_ms, now->boot_id) < 0)
            return -1;
    return 1;
}

int
session_store_reboot(struct db *db, const struct db_now *now, struct err *err)
{
    struct db_now copy = *now;
    int same = session_store_same_boot(db, now, err);

    /* Mostly nothing is to be done, and then a process starts though somebody holds the writer's
     * lock. */
    return same ? (same < 0 ? -1 : 0) : sql_tx(db, reboot_tx, &copy, err);
}

int
session_store_set_clock(struct db *db, const struct db_now *now, struct err *err)
{
    /* Another boot id is session_store_reboot()'s to write, or it would not notice. */
    return sql_run(db, err,
                   "INSERT INTO clock (id, wall_ms, boot_ms, boot_id, swept_at)"
                   " VALUES (1, ?1, ?2, ?3, ?1) ON CONFLICT (id) DO UPDATE"
                   " SET wall_ms = ?1, boot_ms = ?2, swept_at = ?1 WHERE boot_id = ?3",
                   "iit", now->wall_ms, now->boot_ms, now->boot_id) < 0
               ? -1
               : 0;
}

int
session_store_prune_history(struct db *db, int64_t ended_before, int max, struct err *err)
{
    return sql_run(db, err,
                   "DELETE FROM session_history WHERE sid IN (SELECT sid FROM session_history"
                   " WHERE ended_at < ? ORDER BY ended_at LIMIT ?)",
                   "id", ended_before, max);
}

/* Adds each row's number to the field its word stands for. */
static int
count_sessions(struct db *db, struct session_counts *c, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r;

    for (r = sql_first(db, &s, err, "SELECT state, count(*) FROM sessions GROUP BY state", "");
         r > 0; r = sql_next(db, &s, err)) {
        enum session_state state;
        char word[16];

        sql_text(s, 0, word, sizeof(word));
        if (session_state_parse(word, &state))
            c->by_state[state] = sqlite3_column_int64(s, 1);
    }
    return r;
}

static int
count_executions(struct db *db, struct session_counts *c, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r;

    for (r = sql_first(db, &s, err, "SELECT reason, n FROM execution_totals", ""); r > 0;
         r = sql_next(db, &s, err)) {
        enum exec_reason reason;
        char word[16];

        sql_text(s, 0, word, sizeof(word));
        if (exec_reason_parse(word, &reason))
            c->executions_by_reason[reason] = sqlite3_column_int64(s, 1);
    }
    return r;
}

static int
counts_tx(struct db *db, void *ctx, struct err *err)
{
    struct session_counts *c = ctx;
    _cleanup_sql_ sqlite3_stmt *s = NULL;

    memset(c, 0, sizeof(*c));
    if (count_sessions(db, c, err) < 0 || count_executions(db, c, err) < 0)
        return -1;
    if (sql_first(db, &s, err,
                  "SELECT (SELECT count(*) FROM runtimes WHERE state = 'starting'),"
                  " (SELECT count(*) FROM runtimes WHERE state = 'live'),"
                  " (SELECT count(*) FROM runtimes WHERE state = 'quarantined'),"
                  " (SELECT count(*) FROM turns),"
                  " (SELECT count(*) FROM workspaces WHERE state = 'used'),"
                  " (SELECT count(*) FROM workspaces WHERE state = 'kept'),"
                  " coalesce((SELECT swept_at FROM clock), 0),"
                  " (SELECT count(*) FROM executions WHERE reason IS NULL),"
                  " (SELECT count(*) FROM pool),"
                  " (SELECT coalesce(sum(kept_bytes), 0) FROM workspaces WHERE state = 'kept'),"
                  " coalesce((SELECT n FROM workspaces_dropped), 0)",
                  "") <= 0)
        return -1;
    c->starting = sqlite3_column_int64(s, 0);
    c->live = sqlite3_column_int64(s, 1);
    c->quarantined = sqlite3_column_int64(s, 2);
    c->waiting_turns = sqlite3_column_int64(s, 3);
    c->workspaces_used = sqlite3_column_int64(s, 4);
    c->workspaces_kept = sqlite3_column_int64(s, 5);
    c->swept_at = sqlite3_column_int64(s, 6);
    c->executions_by_reason[REASON_NONE] = sqlite3_column_int64(s, 7);
    c->pooled = sqlite3_column_int64(s, 8);
    c->workspaces_kept_bytes = sqlite3_column_int64(s, 9);
    c->workspaces_dropped = sqlite3_column_int64(s, 10);
    return 0;
}

int
session_store_counts(struct db *db, struct session_counts *ret, struct err *err)
{
    struct session_counts c;

    if (sql_tx_read(db, counts_tx, &c, err) < 0)
        return -1;
    *ret = c;
    return 0;
}

int
session_store_backend_counts(struct db *db, struct backend_counts *ret, int max, struct err *err)
{
    sqlite3_stmt *s;
    int n = 0;
    int r = sql_first(db, &s, err,
                      "SELECT backend, sum(s), sum(r), sum(k) FROM"
                      " (SELECT backend, 1 AS s, 0 AS r, 0 AS k FROM sessions"
                      "  UNION ALL SELECT backend, 0, 1, 0 FROM runtimes"
                      "  UNION ALL SELECT backend, 0, 0, 1 FROM workspaces WHERE state = 'kept')"
                      " GROUP BY backend ORDER BY backend LIMIT ?",
                      "d", max);

    for (; r > 0; r = sql_next(db, &s, err)) {
        struct backend_counts *c = &ret[n++];

        sql_text(s, 0, c->backend, sizeof(c->backend));
        c->sessions = sqlite3_column_int64(s, 1);
        c->runtimes = sqlite3_column_int64(s, 2);
        c->workspaces_kept = sqlite3_column_int64(s, 3);
    }
    return r < 0 ? -1 : n;
}
