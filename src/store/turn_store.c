/* SPDX-License-Identifier: MIT */
#include "store/turn_store.h"

#include "store/sql.h"

int
turn_store_enter(struct db *db, int64_t sid, int64_t lock_id, int64_t pid, int max_waiters,
                 const struct db_now *now, int64_t *ret_ticket, struct err *err)
{
    /* One statement, so that the count and the insert see one state. */
    return sql_int(db, ret_ticket, err,
                   "INSERT INTO turns (sid, lock_id, pid, since)"
                   " SELECT ?1, ?2, ?3, ?4"
                   "  WHERE (SELECT count(*) FROM turns WHERE sid = ?1) < ?5"
                   " RETURNING ticket",
                   "iiiid", sid, lock_id, pid, now->wall_ms, max_waiters);
}

static int
read_turns(struct db *db, int r, sqlite3_stmt *s, struct turn_row *ret, struct err *err)
{
    int n = 0;

    for (; r > 0; r = sql_next(db, &s, err)) {
        ret[n].ticket = sqlite3_column_int64(s, 0);
        ret[n].lock_id = sqlite3_column_int64(s, 1);
        ret[n].pid = sqlite3_column_int64(s, 2);
        ret[n++].since = sqlite3_column_int64(s, 3);
    }
    return r < 0 ? -1 : n;
}

int
turn_store_list(struct db *db, int64_t sid, struct turn_row ret[TURN_ROWS_MAX], struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_first(db, &s, err,
                      "SELECT ticket, lock_id, pid, since FROM turns WHERE sid = ?"
                      " ORDER BY ticket LIMIT ?",
                      "id", sid, TURN_ROWS_MAX);

    return read_turns(db, r, s, ret, err);
}

int
turn_store_leave(struct db *db, int64_t ticket, struct err *err)
{
    return sql_run(db, err, "DELETE FROM turns WHERE ticket = ?", "i", ticket) < 0 ? -1 : 0;
}

int
turn_store_all(struct db *db, struct turn_row *ret, int max, struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_first(db, &s, err,
                      "SELECT ticket, lock_id, pid, since FROM turns ORDER BY ticket LIMIT ?", "d",
                      max);

    return read_turns(db, r, s, ret, err);
}
