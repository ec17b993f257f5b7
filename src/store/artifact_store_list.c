/* SPDX-License-Identifier: MIT */
#include "store/artifact_store.h"

#include <stdlib.h>
#include <string.h>

#include "store/artifact_row.h"

void
row_artifact(sqlite3_stmt *s, struct artifact *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->aid = sqlite3_column_int64(s, 0);
    sql_text(s, 1, ret->artifact_id, sizeof(ret->artifact_id));
    sql_text(s, 2, ret->owner, sizeof(ret->owner));
    sql_text(s, 3, ret->session_name, sizeof(ret->session_name));
    ret->ref = sqlite3_column_int64(s, 4);
    ret->version = sqlite3_column_int64(s, 5);
    sql_text(s, 6, ret->path, sizeof(ret->path));
    ret->size = sqlite3_column_int64(s, 7);
    sql_text(s, 8, ret->sha256, sizeof(ret->sha256));
    ret->created_at = sqlite3_column_int64(s, 9);
    sql_text(s, 10, ret->eid, sizeof(ret->eid));
}

int
artifact_store_get(struct db *db, const char *owner, const char *artifact_id, int64_t version,
                   struct artifact *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT " ARTIFACT_COLUMNS ARTIFACT_FROM
                      " AND v.version = CASE ?3 WHEN 0 THEN a.latest ELSE ?3 END"
                      " WHERE a.artifact_id = ?1 AND (?2 IS NULL OR a.owner = ?2)",
                      "tti", artifact_id, owner, version);

    if (r > 0)
        row_artifact(s, ret);
    return r;
}

int
artifact_store_by_ref(struct db *db, const char *owner, const char *session_name, int64_t ref,
                      struct artifact *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT " ARTIFACT_COLUMNS ARTIFACT_FROM " AND v.version = a.latest"
                      " WHERE a.owner = ?1 AND a.session_name = ?2 AND a.ref = ?3",
                      "tti", owner, session_name, ref);

    if (r > 0)
        row_artifact(s, ret);
    return r;
}

/* Takes the rows from r on, at most limit. */
static int
collect(struct db *db, sqlite3_stmt **s, int r, int limit, struct artifact **ret, size_t *ret_n,
        bool *ret_more, struct err *err)
{
    _cleanup_free_ struct artifact *list = NULL;
    size_t n = 0;
    bool more = false;

    for (; r > 0; r = sql_next(db, s, err)) {
        struct artifact *bigger;

        if (n == (size_t)limit) {
            more = true;
            break;
        }
        bigger = reallocarray(list, n + 1, sizeof(*list));
        if (!bigger)
            return err_set(err, ERR_NOMEM, "no memory for %zu artifacts", n + 1);
        list = bigger;
        row_artifact(*s, &list[n++]);
    }
    if (r < 0)
        return -1;
    *ret = steal_ptr(list);
    *ret_n = n;
    *ret_more = more;
    return 0;
}

int
artifact_store_list(struct db *db, const char *owner, const char *session_name, int64_t after_aid,
                    int limit, struct artifact **ret, size_t *ret_n, bool *ret_more,
                    struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT " ARTIFACT_COLUMNS ARTIFACT_FROM " AND v.version = a.latest"
                      " WHERE (?1 IS NULL OR a.owner = ?1)"
                      " AND (?2 IS NULL OR a.session_name = ?2) AND (?3 = 0 OR a.aid < ?3)"
                      " ORDER BY a.aid DESC LIMIT ?4",
                      "ttii", owner, session_name, after_aid, (int64_t)limit + 1);

    return collect(db, &s, r, limit, ret, ret_n, ret_more, err);
}

int
artifact_store_versions(struct db *db, int64_t aid, int64_t after_version, int limit,
                        struct artifact **ret, size_t *ret_n, bool *ret_more, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT " ARTIFACT_COLUMNS ARTIFACT_FROM
                      " WHERE a.aid = ?1 AND (?2 = 0 OR v.version < ?2)"
                      " ORDER BY v.version DESC LIMIT ?3",
                      "iii", aid, after_version, (int64_t)limit + 1);

    return collect(db, &s, r, limit, ret, ret_n, ret_more, err);
}
