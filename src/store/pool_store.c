/* SPDX-License-Identifier: MIT */
#include "store/pool_store.h"

#include <string.h>

#include "store/sql.h"

/* Of ?1 backend, ?2 kernel name, ?3 boot id, made after ?4. */
#define FIT "(backend = ?1 AND kernel_name = ?2 AND boot_id = ?3 AND created_boot_ms > ?4)"

int
pool_store_wanted(struct db *db, int64_t size, int64_t since_wall_ms, struct err *err)
{
    int64_t one;

    return sql_int(db, &one, err,
                   "SELECT 1 WHERE (SELECT count(*) FROM pool)"
                   " + (SELECT count(*) FROM orphans o WHERE NOT EXISTS"
                   "    (SELECT 1 FROM runtimes r WHERE r.handle = o.handle)"
                   "    AND NOT EXISTS (SELECT 1 FROM pool p WHERE p.handle = o.handle)) < ?1"
                   " AND NOT EXISTS (SELECT 1 FROM runtimes WHERE state = 'starting'"
                   "                 AND handle = '' AND sid IS NOT NULL AND created_at > ?2)",
                   "ii", size, since_wall_ms);
}

int
pool_store_put(struct db *db, const struct pool_kind *k, int64_t size, const char *handle,
               const char *kernel_session, const struct db_now *now, struct err *err)
{
    return sql_run(db, err,
                   "INSERT INTO pool (handle, kernel_session, backend, kernel_name, created_at,"
                   " created_boot_ms, boot_id) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7"
                   " WHERE (SELECT count(*) FROM pool) < ?8",
                   "ttttiiti", handle, kernel_session, k->backend, k->kernel_name, now->wall_ms,
                   now->boot_ms, now->boot_id, size);
}

struct claim {
    const struct pool_kind *k;
    int64_t sid, generation;
    bool unbound;
    const struct db_now *now;
    struct pool_row row;
};

static int
take_oldest(struct db *db, struct claim *c, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "DELETE FROM pool WHERE handle = (SELECT handle FROM pool WHERE " FIT
                      " ORDER BY created_at, handle LIMIT 1)"
                      " RETURNING handle, kernel_session, backend",
                      "ttti", c->k->backend, c->k->kernel_name, c->now->boot_id,
                      c->now->boot_ms - c->k->max_age_ms);

    if (r <= 0)
        return r;
    memset(&c->row, 0, sizeof(c->row));
    sql_text(s, 0, c->row.handle, sizeof(c->row.handle));
    sql_text(s, 1, c->row.kernel_session, sizeof(c->row.kernel_session));
    sql_text(s, 2, c->row.backend, sizeof(c->row.backend));
    c->row.fit = true;
    return 1;
}

static int
claim_tx(struct db *db, void *ctx, struct err *err)
{
    struct claim *c = ctx;
    int64_t rid;
    int r = sql_int(db, &rid, err,
                    "SELECT r.rid FROM runtimes r JOIN sessions s ON s.sid = r.sid"
                    " AND s.generation = r.generation WHERE r.sid = ? AND r.generation = ?"
                    " AND r.state = 'starting'",
                    "ii", c->sid, c->generation);

    if (r > 0)
        r = take_oldest(db, c, err);
    if (r <= 0)
        return r;
    r = sql_run(db, err,
                "UPDATE runtimes SET handle = ?2, kernel_session = ?3, unbound = ?4"
                " WHERE rid = ?1",
                "ittd", rid, c->row.handle, c->row.kernel_session, c->unbound);
    return r < 0 ? -1 : 1;
}

int
pool_store_claim(struct db *db, const struct pool_kind *k, int64_t sid, int64_t generation,
                 bool unbound, const struct db_now *now, struct pool_row *ret, struct err *err)
{
    struct claim c = {.k = k, .sid = sid, .generation = generation, .unbound = unbound, .now = now};
    int r = sql_tx(db, claim_tx, &c, err);

    if (r > 0)
        *ret = c.row;
    return r;
}

int
pool_store_list(struct db *db, const struct pool_kind *k, const struct db_now *now,
                struct pool_row *ret, int max, struct err *err)
{
    sqlite3_stmt *s;
    int n = 0;
    int r = sql_first(db, &s, err,
                      "SELECT handle, kernel_session, backend, " FIT " FROM pool"
                      " ORDER BY created_at, handle LIMIT ?5",
                      "tttid", k->backend, k->kernel_name, now->boot_id,
                      now->boot_ms - k->max_age_ms, max);

    for (; r > 0; r = sql_next(db, &s, err)) {
        struct pool_row *row = &ret[n++];

        sql_text(s, 0, row->handle, sizeof(row->handle));
        sql_text(s, 1, row->kernel_session, sizeof(row->kernel_session));
        sql_text(s, 2, row->backend, sizeof(row->backend));
        row->fit = sqlite3_column_int(s, 3) != 0;
    }
    return r < 0 ? -1 : n;
}

int
pool_store_take(struct db *db, const char *handle, struct err *err)
{
    return sql_run(db, err, "DELETE FROM pool WHERE handle = ?", "t", handle);
}
