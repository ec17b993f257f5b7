/* SPDX-License-Identifier: MIT */
#include "store/session_store.h"

#include <stdlib.h>

#include "store/row.h"
#include "store/sql.h"

int
session_store_list(struct db *db, const struct session_query *q, struct session **ret,
                   size_t *ret_n, bool *ret_more, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    size_t limit = q->limit > 0 ? (size_t)q->limit : 0;
    struct session *list = NULL;
    size_t n = 0;
    bool more = false;
    int r = sql_first(
        db, &s, err,
        "SELECT " SESSION_COLUMNS SESSION_FROM "WHERE (?1 IS NULL OR s.owner = ?1)"
        " AND (?2 IS NULL OR s.state = ?2)"
        " AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(s.labels) l WHERE l.key = ?3"
        "                            AND (?4 IS NULL OR l.value = ?4)))"
        " AND ((?5 = 0 AND ?6 = 0) OR (s.created_at, s.sid) < (?5, ?6))"
        " ORDER BY s.created_at DESC, s.sid DESC LIMIT ?7",
        "ttttiii", q->owner, q->state < 0 ? NULL : session_state_name((enum session_state)q->state),
        q->label_key, q->label_value, q->after_created, q->after_sid, (int64_t)limit + 1);

    for (; r > 0; r = sql_next(db, &s, err)) {
        struct session *bigger;

        if (n == limit) {
            more = true;
            break;
        }
        bigger = reallocarray(list, n + 1, sizeof(*list));
        if (!bigger) {
            r = err_set(err, ERR_NOMEM, "no memory for %zu sessions", n + 1);
            break;
        }
        list = bigger;
        row_session(s, &list[n++]);
    }
    if (r < 0) {
        while (n > 0)
            session_done(&list[--n]);
        free(list);
        return -1;
    }
    *ret = list;
    *ret_n = n;
    *ret_more = more;
    return 0;
}

static int
read_sids(struct db *db, int r, sqlite3_stmt *s, int64_t *ret, struct err *err)
{
    int n = 0;

    for (; r > 0; r = sql_next(db, &s, err))
        ret[n++] = sqlite3_column_int64(s, 0);
    return r < 0 ? -1 : n;
}

int
session_store_idle_lru(struct db *db, const char *owner, const char *backend, int64_t except_sid,
                       int64_t *ret, int max, struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_first(db, &s, err,
                      "SELECT s.sid FROM sessions s JOIN runtimes r ON r.sid = s.sid"
                      " AND r.generation = s.generation AND r.state = 'live'"
                      " WHERE s.owner = ? AND s.state = 'ready' AND s.sid <> ?"
                      " AND s.backend = coalesce(?, s.backend)"
                      " ORDER BY s.last_work_boot_ms, s.sid LIMIT ?",
                      "titd", owner, except_sid, backend, max);

    return read_sids(db, r, s, ret, err);
}

int
session_store_expired(struct db *db, const struct db_now *now, int64_t *ret, int max,
                      struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_first(db, &s, err,
                      "SELECT sid FROM sessions WHERE state IN ('ready', 'cold') AND boot_id = ?"
                      " AND last_work_boot_ms + ttl_ms <= ?"
                      " ORDER BY last_work_boot_ms + ttl_ms, sid LIMIT ?",
                      "tid", now->boot_id, now->boot_ms, max);

    return read_sids(db, r, s, ret, err);
}

int
session_store_in_state(struct db *db, enum session_state state, int64_t after_sid, int64_t *ret,
                       int max, struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_first(db, &s, err,
                      "SELECT sid FROM sessions WHERE state = ? AND sid > ? ORDER BY sid LIMIT ?",
                      "tid", session_state_name(state), after_sid, max);

    return read_sids(db, r, s, ret, err);
}
