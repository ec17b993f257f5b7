/* SPDX-License-Identifier: MIT */
#include "store/workspace_store.h"

#include "store/sql.h"

#define COLUMNS "workspace_id, owner, name, kept_since, backend"

static int
read_workspaces(struct db *db, int r, sqlite3_stmt *s, struct workspace_row *ret, struct err *err)
{
    int n = 0;

    for (; r > 0; r = sql_next(db, &s, err)) {
        struct workspace_row *w = &ret[n++];

        w->workspace_id = sqlite3_column_int64(s, 0);
        sql_text(s, 1, w->owner, sizeof(w->owner));
        sql_text(s, 2, w->name, sizeof(w->name));
        w->kept_since = sqlite3_column_int64(s, 3);
        sql_text(s, 4, w->backend, sizeof(w->backend));
    }
    return r < 0 ? -1 : n;
}

int
workspace_store_doomed(struct db *db, int64_t kept_before, int64_t after, struct workspace_row *ret,
                       int max, struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_run(db, err,
                    "UPDATE workspaces SET state = 'doomed', kept_since = NULL,"
                    " kept_bytes = NULL WHERE state = 'kept' AND kept_since < ?",
                    "i", kept_before);

    if (r < 0)
        return -1;
    r = sql_first(db, &s, err,
                  "SELECT " COLUMNS " FROM workspaces WHERE state = 'doomed' AND workspace_id > ?"
                  " ORDER BY workspace_id LIMIT ?",
                  "id", after, max);
    return read_workspaces(db, r, s, ret, err);
}

int
workspace_store_unmeasured(struct db *db, struct workspace_row *ret, int max, struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_first(db, &s, err,
                      "SELECT " COLUMNS " FROM workspaces WHERE state = 'kept'"
                      " AND kept_bytes IS NULL ORDER BY kept_since, workspace_id LIMIT ?",
                      "d", max);

    return read_workspaces(db, r, s, ret, err);
}

int
workspace_store_measured(struct db *db, const struct workspace_row *w, int64_t bytes,
                         struct err *err)
{
    return sql_run(db, err,
                   "UPDATE workspaces SET kept_bytes = ?3 WHERE workspace_id = ?1"
                   " AND state = 'kept' AND kept_since = ?2",
                   "iii", w->workspace_id, w->kept_since, bytes);
}

#define KEPT_BYTES "SELECT coalesce(sum(kept_bytes), 0) FROM workspaces WHERE state = 'kept'"

struct bounding {
    int64_t max, before, after;
    int dropped;
};

static int
bound_tx(struct db *db, void *ctx, struct err *err)
{
    struct bounding *b = ctx;

    /* Those stay that were kept last and fit together. */
    if (sql_int(db, &b->before, err, KEPT_BYTES, "") < 0)
        return -1;
    b->dropped = sql_run(db, err,
                         "UPDATE workspaces SET state = 'doomed', kept_since = NULL,"
                         " kept_bytes = NULL WHERE workspace_id IN (SELECT workspace_id FROM"
                         " (SELECT workspace_id, sum(kept_bytes) OVER"
                         "   (ORDER BY kept_since DESC, workspace_id DESC) AS with_newer"
                         "  FROM workspaces WHERE state = 'kept') WHERE with_newer > ?)",
                         "i", b->max);
    if (b->dropped < 0 || sql_int(db, &b->after, err, KEPT_BYTES, "") < 0)
        return -1;
    return sql_run(db, err, "UPDATE workspaces_dropped SET n = n + ?, bytes = bytes + ?", "ii",
                   (int64_t)b->dropped, b->before - b->after);
}

int
workspace_store_bound(struct db *db, int64_t max_bytes, int64_t *ret_before, int64_t *ret_after,
                      struct err *err)
{
    struct bounding b = {.max = max_bytes};

    /* Mostly it is kept, and then nobody is made to wait for the writer's lock. */
    if (sql_int(db, &b.before, err, KEPT_BYTES, "") < 0)
        return -1;
    b.after = b.before;
    if (b.before > max_bytes && sql_tx(db, bound_tx, &b, err) < 0)
        return -1;
    *ret_before = b.before;
    *ret_after = b.after;
    return b.dropped;
}

struct bounding_of {
    const char *backend;
    int64_t max;
    int dropped;
};

static int
bound_of_tx(struct db *db, void *ctx, struct err *err)
{
    struct bounding_of *b = ctx;

    b->dropped = sql_run(db, err,
                         "UPDATE workspaces SET state = 'doomed', kept_since = NULL,"
                         " kept_bytes = NULL WHERE workspace_id IN (SELECT workspace_id FROM"
                         " workspaces WHERE state = 'kept' AND backend = ?"
                         " ORDER BY kept_since DESC, workspace_id DESC LIMIT -1 OFFSET ?)",
                         "ti", b->backend, b->max);
    if (b->dropped < 0)
        return -1;
    return sql_run(db, err, "UPDATE workspaces_dropped SET n = n + ?", "i", (int64_t)b->dropped);
}

int
workspace_store_bound_of(struct db *db, const char *backend, int64_t max_n, struct err *err)
{
    struct bounding_of b = {backend, max_n, 0};
    int64_t kept;

    if (sql_int(db, &kept, err,
                "SELECT count(*) FROM workspaces WHERE state = 'kept' AND backend = ?", "t",
                backend) < 0 ||
        (kept > max_n && sql_tx(db, bound_of_tx, &b, err) < 0))
        return -1;
    return b.dropped;
}

int
workspace_store_removed(struct db *db, int64_t workspace_id, struct err *err)
{
    return sql_run(db, err, "DELETE FROM workspaces WHERE workspace_id = ? AND state = 'doomed'",
                   "i", workspace_id);
}

int
workspace_store_state(struct db *db, int64_t workspace_id, enum workspace_state *ret,
                      struct err *err)
{
    int64_t state;
    int r = sql_int(db, &state, err,
                    "SELECT CASE state WHEN 'used' THEN 0 WHEN 'kept' THEN 1 ELSE 2 END"
                    " FROM workspaces WHERE workspace_id = ?",
                    "i", workspace_id);

    if (r > 0)
        *ret = (enum workspace_state)state;
    return r;
}
