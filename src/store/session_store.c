/* SPDX-License-Identifier: MIT */
#include "store/session_store.h"

#include <string.h>

#include "store/row.h"
#include "store/sql.h"

static int
one_session(sqlite3_stmt *s, int r, struct session *ret)
{
    if (r > 0)
        row_session(s, ret);
    return r;
}

int
session_store_find(struct db *db, const char *owner, const char *name, struct session *ret,
                   struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT " SESSION_COLUMNS SESSION_FROM "WHERE s.owner = ? AND s.name = ?",
                      "tt", owner, name);

    return one_session(s, r, ret);
}

int
session_store_by_sid(struct db *db, int64_t sid, struct session *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r =
        sql_first(db, &s, err, "SELECT " SESSION_COLUMNS SESSION_FROM "WHERE s.sid = ?", "i", sid);

    return one_session(s, r, ret);
}

int
session_store_find_any_owner(struct db *db, const char *name, struct session *ret, struct err *err)
{
    sqlite3_stmt *s;
    struct session found = {0};
    int r = sql_first(db, &s, err,
                      "SELECT " SESSION_COLUMNS SESSION_FROM "WHERE s.name = ? LIMIT 2", "t", name);

    if (r <= 0)
        return r;
    row_session(s, &found);
    r = sql_next(db, &s, err);
    sql_done(&s);
    if (r != 0) {
        session_done(&found);
        return r < 0 ? -1 : 0;
    }
    *ret = found;
    return 1;
}

struct patch {
    int64_t sid, ttl_ms;
    const char *labels;
    struct session session;
};

static int
patch(struct db *db, void *ctx, struct err *err)
{
    struct patch *p = ctx;
    int r;

    session_done(&p->session); /* of an earlier run */
    r = sql_run(db, err,
                "UPDATE sessions SET ttl_ms = CASE WHEN ?2 >= 0 THEN ?2 ELSE ttl_ms END,"
                " labels = coalesce(?3, labels), temporary = 0"
                " WHERE sid = ?1 AND state <> 'closing'",
                "iit", p->sid, p->ttl_ms, p->labels);

    if (r <= 0)
        return r;
    return session_store_by_sid(db, p->sid, &p->session, err);
}

int
session_store_patch(struct db *db, int64_t sid, int64_t ttl_ms, const char *labels,
                    struct session *ret, struct err *err)
{
    struct patch p = {.sid = sid, .ttl_ms = ttl_ms, .labels = labels};
    int r = sql_tx(db, patch, &p, err);

    if (r > 0 && ret)
        *ret = p.session;
    else
        session_done(&p.session);
    return r;
}

int
session_store_touch(struct db *db, int64_t sid, const struct db_now *now,
                    enum session_state *ret_state, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    char state[16];
    int more;
    int r = sql_first(db, &s, err,
                      "UPDATE sessions SET last_work_at = ?2, last_work_boot_ms = ?3, boot_id = ?4"
                      " WHERE sid = ?1 RETURNING state",
                      "iiit", sid, now->wall_ms, now->boot_ms, now->boot_id);

    if (r <= 0)
        return r;
    sql_text(s, 0, state, sizeof(state));
    more = sql_next(db, &s, err); /* to its end: until then the write lock is held */
    if (more < 0)
        return -1;
    if (ret_state)
        (void)session_state_parse(state, ret_state);
    return 1;
}

int
session_store_take_state_lost(struct db *db, int64_t sid, struct err *err)
{
    return sql_run(db, err, "UPDATE sessions SET state_lost = 0 WHERE sid = ? AND state_lost = 1",
                   "i", sid);
}
