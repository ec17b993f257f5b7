/* SPDX-License-Identifier: MIT */
#include "store/execution_store.h"

#include "store/sql.h"

int
execution_store_old_spools(struct db *db, int64_t ended_before, struct execution_id *ret, int max,
                           struct err *err)
{
    sqlite3_stmt *s;
    int n = 0, r;

    for (r = sql_first(db, &s, err,
                       "SELECT eid FROM executions WHERE spool_pruned = 0 AND ended_at < ?"
                       " ORDER BY ended_at LIMIT ?",
                       "id", ended_before, max);
         r > 0; r = sql_next(db, &s, err))
        sql_text(s, 0, ret[n++].eid, sizeof(ret[0].eid));
    return r < 0 ? -1 : n;
}

struct removed_spools {
    const struct execution_id *ids;
    int n;
};

static int
spools_removed_tx(struct db *db, void *ctx, struct err *err)
{
    const struct removed_spools *x = ctx;
    int r = 0;

    for (int i = 0; i < x->n && r >= 0; i++)
        r = sql_run(db, err, "UPDATE executions SET spool_pruned = 1 WHERE eid = ?", "t",
                    x->ids[i].eid);
    return r < 0 ? -1 : 0;
}

int
execution_store_spools_removed(struct db *db, const struct execution_id *ids, int n,
                               struct err *err)
{
    struct removed_spools x = {.ids = ids, .n = n};

    return n > 0 ? sql_tx(db, spools_removed_tx, &x, err) : 0;
}

int
execution_store_prune(struct db *db, int64_t ended_before, int max, struct err *err)
{
    return sql_run(db, err,
                   "DELETE FROM executions WHERE eid IN (SELECT eid FROM executions"
                   " WHERE ended_at < ? AND spool_pruned = 1 ORDER BY ended_at LIMIT ?)",
                   "id", ended_before, max);
}

int
execution_store_unfinished(struct db *db, bool strays, struct execution_id *ret, int max,
                           struct err *err)
{
    sqlite3_stmt *s;
    int n = 0;
    int r = sql_first(db, &s, err,
                      "SELECT eid FROM executions WHERE reason IS NULL"
                      " AND (NOT ?1 OR NOT EXISTS (SELECT 1 FROM sessions s"
                      "      WHERE s.sid = executions.sid AND s.busy_execution = executions.eid))"
                      " LIMIT ?2",
                      "dd", strays, max);

    for (; r > 0; r = sql_next(db, &s, err))
        sql_text(s, 0, ret[n++].eid, sizeof(ret[0].eid));
    return r < 0 ? -1 : n;
}
