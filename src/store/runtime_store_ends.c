/* SPDX-License-Identifier: MIT */
#include "store/runtime_store.h"

#include <string.h>

#include "store/row.h"
#include "store/sql.h"

#define COLUMNS "rid, sid, owner, name, backend, handle, generation, tries"

static void
read_runtime(sqlite3_stmt *s, struct runtime_row *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->rid = sqlite3_column_int64(s, 0);
    ret->sid = sqlite3_column_int64(s, 1);
    sql_text(s, 2, ret->owner, sizeof(ret->owner));
    sql_text(s, 3, ret->name, sizeof(ret->name));
    sql_text(s, 4, ret->backend, sizeof(ret->backend));
    sql_text(s, 5, ret->handle, sizeof(ret->handle));
    ret->generation = sqlite3_column_int64(s, 6);
    ret->tries = sqlite3_column_int64(s, 7);
}

int
runtime_store_of(struct db *db, int64_t sid, struct runtime_row *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT " COLUMNS " FROM runtimes WHERE sid = ? AND state <> 'quarantined'",
                      "i", sid);

    if (r > 0)
        read_runtime(s, ret);
    return r;
}

int
runtime_store_quarantined(struct db *db, const char *owner, const char *name,
                          const struct db_now *now, struct runtime_row *ret, int max,
                          struct err *err)
{
    sqlite3_stmt *s;
    int n = 0;
    int r;

    if (owner)
        r = sql_first(db, &s, err,
                      "SELECT " COLUMNS " FROM runtimes WHERE owner = ? AND name = ?"
                      " AND state = 'quarantined' ORDER BY rid LIMIT ?",
                      "ttd", owner, name, max);
    else
        r = sql_first(db, &s, err,
                      "SELECT " COLUMNS " FROM runtimes WHERE state = 'quarantined'"
                      " AND next_try_boot_ms <= ? ORDER BY next_try_boot_ms, rid LIMIT ?",
                      "id", now->boot_ms, max);
    for (; r > 0; r = sql_next(db, &s, err))
        read_runtime(s, &ret[n++]);
    return r < 0 ? -1 : n;
}

int
runtime_store_ended(struct db *db, int64_t rid, struct err *err)
{
    return sql_run(db, err, "DELETE FROM runtimes WHERE rid = ? AND state = 'quarantined'", "i",
                   rid);
}

struct retry {
    int64_t rid;
    const struct db_now *now;
};

static int
retry_tx(struct db *db, void *ctx, struct err *err)
{
    const struct retry *y = ctx;
    int64_t tries, wait_ms;
    int r = sql_int(db, &tries, err,
                    "UPDATE runtimes SET tries = tries + 1 WHERE rid = ? AND state = 'quarantined'"
                    " RETURNING tries",
                    "i", y->rid);

    if (r <= 0)
        return r;
    wait_ms = row_back_off_ms(tries);
    return sql_run(db, err,
                   "UPDATE runtimes SET next_try_at = ?2, next_try_boot_ms = ?3 WHERE rid = ?1",
                   "iii", y->rid, y->now->wall_ms + wait_ms, y->now->boot_ms + wait_ms);
}

int
runtime_store_retry_later(struct db *db, int64_t rid, const struct db_now *now, struct err *err)
{
    struct retry y = {rid, now};

    return sql_tx(db, retry_tx, &y, err);
}

int
runtime_store_live(struct db *db, const char *backend, struct runtime_live *ret, int max,
                   struct err *err)
{
    sqlite3_stmt *s;
    int n = 0;
    int r = sql_first(db, &s, err,
                      "SELECT sid, generation, handle FROM runtimes WHERE backend = ?"
                      " AND state = 'live' AND sid IS NOT NULL ORDER BY handle LIMIT ?",
                      "td", backend, max);

    for (; r > 0; r = sql_next(db, &s, err)) {
        ret[n].sid = sqlite3_column_int64(s, 0);
        ret[n].generation = sqlite3_column_int64(s, 1);
        sql_text(s, 2, ret[n].handle, sizeof(ret[n].handle));
        n++;
    }
    return r < 0 ? -1 : n;
}

int
runtime_store_starting(struct db *db, int64_t sid, struct runtime_row *ret, int max,
                       struct err *err)
{
    sqlite3_stmt *s;
    int n = 0;
    int r = sql_first(db, &s, err,
                      "SELECT " COLUMNS " FROM runtimes WHERE state = 'starting'"
                      " AND (?1 = 0 OR sid = ?1) AND EXISTS (SELECT 1 FROM sessions s"
                      " WHERE s.sid = runtimes.sid AND s.state NOT IN ('opening', 'closing'))"
                      " ORDER BY rid LIMIT ?2",
                      "id", sid, max);

    for (; r > 0; r = sql_next(db, &s, err))
        read_runtime(s, &ret[n++]);
    return r < 0 ? -1 : n;
}

int
runtime_store_knows(struct db *db, const char *handle, struct err *err)
{
    int64_t one;

    return sql_int(db, &one, err,
                   "SELECT 1 FROM runtimes WHERE handle = ?1 AND ?1 <> ''"
                   " UNION ALL SELECT 1 FROM pool WHERE handle = ?1",
                   "t", handle);
}

struct orphans {
    const char *backend;
    const struct orphan_handle *seen;
    int n_seen;
    int64_t older_than_ms;
    const struct db_now *now;
    struct orphan_handle *ret;
    int max;
};

static int
orphans_tx(struct db *db, void *ctx, struct err *err)
{
    const struct orphans *o = ctx;
    sqlite3_stmt *s;
    int n = 0, r;

    for (int i = 0; i < o->n_seen; i++)
        if (sql_run(db, err,
                    "INSERT INTO orphans (handle, backend, first_seen_boot_ms, last_seen_boot_ms)"
                    " SELECT ?1, ?2, ?3, ?3 WHERE ?1 <> ''"
                    " ON CONFLICT (handle) DO UPDATE SET last_seen_boot_ms = ?3",
                    "tti", o->seen[i].handle, o->backend, o->now->boot_ms) < 0)
            return -1;
    if (sql_run(db, err,
                "DELETE FROM orphans WHERE backend = ?1 AND (last_seen_boot_ms <> ?2"
                " OR EXISTS (SELECT 1 FROM runtimes r WHERE r.handle = orphans.handle)"
                " OR EXISTS (SELECT 1 FROM pool p WHERE p.handle = orphans.handle))",
                "ti", o->backend, o->now->boot_ms) < 0)
        return -1;
    for (r = sql_first(db, &s, err,
                       "SELECT handle FROM orphans WHERE backend = ? AND first_seen_boot_ms <= ?"
                       " ORDER BY first_seen_boot_ms LIMIT ?",
                       "tid", o->backend, o->now->boot_ms - o->older_than_ms, o->max);
         r > 0; r = sql_next(db, &s, err))
        sql_text(s, 0, o->ret[n++].handle, sizeof(o->ret[0].handle));
    return r < 0 ? -1 : n;
}

int
runtime_store_orphans(struct db *db, const char *backend, const struct orphan_handle *seen,
                      int n_seen, int64_t older_than_ms, const struct db_now *now,
                      struct orphan_handle *ret, int max, struct err *err)
{
    struct orphans o = {backend, seen, n_seen, older_than_ms, now, ret, max};

    return sql_tx(db, orphans_tx, &o, err);
}

int
runtime_store_orphan_gone(struct db *db, const char *handle, struct err *err)
{
    return sql_run(db, err, "DELETE FROM orphans WHERE handle = ?", "t", handle) < 0 ? -1 : 0;
}

#define ABANDONED "backend = ?1 AND state = 'starting' AND sid IS NULL AND handle = ''"

int
runtime_store_abandoned_end(struct db *db, const char *backend, int64_t since_wall_ms,
                            int64_t end_wall_ms, struct err *err)
{
    return sql_run(db, err,
                   "DELETE FROM runtimes WHERE rid IN (SELECT rid FROM runtimes WHERE " ABANDONED
                   " AND created_at <= ?2 ORDER BY created_at, rid LIMIT max(0,"
                   " (SELECT count(*) FROM runtimes WHERE " ABANDONED ")"
                   " - (SELECT count(*) FROM orphans WHERE backend = ?1)))"
                   " OR (" ABANDONED " AND created_at <= ?3)",
                   "tii", backend, since_wall_ms, end_wall_ms);
}
