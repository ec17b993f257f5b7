/* SPDX-License-Identifier: MIT */
#include "store/execution_store.h"

#include <stdlib.h>

#include "store/row.h"
#include "store/sql.h"

#define ONE_EXECUTION_BY(column)                                                                   \
    "SELECT " EXECUTION_COLUMNS " FROM executions WHERE " column                                   \
    " = ?1 AND (?2 IS NULL OR owner = ?2)"

static int
one_execution(struct db *db, const char *sql, const char *value, const char *owner,
              struct execution *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err, sql, "tt", value, owner);

    if (r > 0)
        row_execution(s, ret);
    return r;
}

int
execution_store_get(struct db *db, const char *owner, const char *eid, struct execution *ret,
                    struct err *err)
{
    return one_execution(db, ONE_EXECUTION_BY("eid"), eid, owner, ret, err);
}

int
execution_store_by_request(struct db *db, const char *owner, const char *request_id,
                           struct execution *ret, struct err *err)
{
    return one_execution(db, ONE_EXECUTION_BY("request_id"), request_id, owner, ret, err);
}

int
execution_store_list(struct db *db, const struct execution_query *q, struct execution **ret,
                     size_t *ret_n, bool *ret_more, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    _cleanup_free_ struct execution *list = NULL;
    size_t limit = q->limit > 0 ? (size_t)q->limit : 0;
    size_t n = 0;
    bool more = false;
    int r = sql_first(db, &s, err,
                      "SELECT " EXECUTION_COLUMNS " FROM executions WHERE owner = ?1"
                      " AND session_name = ?2"
                      " AND (?3 = 0 OR (created_at, eid) < (?3, coalesce(?4, '')))"
                      " ORDER BY created_at DESC, eid DESC LIMIT ?5",
                      "ttiti", q->owner, q->session_name, q->after_created, q->after_eid,
                      (int64_t)limit + 1);

    for (; r > 0; r = sql_next(db, &s, err)) {
        struct execution *bigger;

        if (n == limit) {
            more = true;
            break;
        }
        bigger = reallocarray(list, n + 1, sizeof(*list));
        if (!bigger)
            return err_set(err, ERR_NOMEM, "no memory for %zu executions", n + 1);
        list = bigger;
        row_execution(s, &list[n++]);
    }
    if (r < 0)
        return -1;
    *ret = steal_ptr(list);
    *ret_n = n;
    *ret_more = more;
    return 0;
}

int
execution_store_session_known(struct db *db, const char *owner, const char *name, struct err *err)
{
    int64_t known;
    int r = sql_int(db, &known, err,
                    "SELECT EXISTS (SELECT 1 FROM sessions WHERE owner = ?1 AND name = ?2)"
                    " OR EXISTS (SELECT 1 FROM session_history WHERE owner = ?1 AND name = ?2)"
                    " OR EXISTS (SELECT 1 FROM executions WHERE owner = ?1 AND session_name = ?2)",
                    "tt", owner, name);

    return r < 0 ? -1 : known != 0;
}
