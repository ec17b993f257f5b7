/* SPDX-License-Identifier: MIT */
#include "store/workspace_store.h"

#include "store/sql.h"

#define COLUMNS "workspace_id, owner, name, kept_since"

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
    }
    return r < 0 ? -1 : n;
}

int
workspace_store_doomed(struct db *db, int64_t kept_before, struct workspace_row *ret, int max,
                       struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_run(db, err,
                    "UPDATE workspaces SET state = 'doomed', kept_since = NULL"
                    " WHERE state = 'kept' AND kept_since < ?",
                    "i", kept_before);

    if (r < 0)
        return -1;
    r = sql_first(db, &s, err, "SELECT " COLUMNS " FROM workspaces WHERE state = 'doomed' LIMIT ?",
                  "d", max);
    return read_workspaces(db, r, s, ret, err);
}

int
workspace_store_kept(struct db *db, struct workspace_row *ret, int max, struct err *err)
{
    sqlite3_stmt *s;
    int r = sql_first(db, &s, err,
                      "SELECT " COLUMNS " FROM workspaces WHERE state = 'kept'"
                      " ORDER BY kept_since, workspace_id LIMIT ?",
                      "d", max);

    return read_workspaces(db, r, s, ret, err);
}

int
workspace_store_doom(struct db *db, int64_t workspace_id, struct err *err)
{
    return sql_run(db, err,
                   "UPDATE workspaces SET state = 'doomed', kept_since = NULL"
                   " WHERE workspace_id = ? AND state = 'kept'",
                   "i", workspace_id);
}

int
workspace_store_removed(struct db *db, int64_t workspace_id, struct err *err)
{
    return sql_run(db, err, "DELETE FROM workspaces WHERE workspace_id = ? AND state = 'doomed'",
                   "i", workspace_id);
}

int
workspace_store_knows(struct db *db, int64_t workspace_id, struct err *err)
{
    int64_t one;

    return sql_int(db, &one, err, "SELECT 1 FROM workspaces WHERE workspace_id = ?", "i",
                   workspace_id);
}
