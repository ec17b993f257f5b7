/* SPDX-License-Identifier: MIT */
#include "store/artifact_store.h"

#include <stdlib.h>
#include <string.h>

#include "store/artifact_row.h"
#include "store/sql.h"

struct add {
    const struct artifact_add_args *a;
    enum artifact_add how;
    struct artifact *ret;
};

/* The artifact of this path, at its latest version. */
static int
present(struct db *db, const struct artifact_add_args *a, struct artifact *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err,
                      "SELECT " ARTIFACT_COLUMNS ARTIFACT_FROM
                      " AND v.version = a.latest WHERE a.owner = ?1 AND a.session_name = ?2"
                      " AND a.path = ?3",
                      "ttb", a->owner, a->session_name, (const void *)a->path, a->path_len);

    if (r > 0)
        row_artifact(s, ret);
    return r;
}

/* 1 there is room, 0 not and how says which. */
static int
room(struct db *db, struct add *t, struct err *err)
{
    const struct artifact_add_args *a = t->a;
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int64_t versions = 0, bytes = 0;
    int r = sql_first(db, &s, err, "SELECT versions, bytes FROM artifact_usage WHERE owner = ?",
                      "t", a->owner);

    if (r < 0)
        return -1;
    if (r > 0) {
        versions = sqlite3_column_int64(s, 0);
        bytes = sqlite3_column_int64(s, 1);
    }
    if (versions >= a->max_versions)
        t->how = ARTIFACT_COUNT_FULL;
    else if (a->size > a->max_bytes - bytes)
        t->how = ARTIFACT_BYTES_FULL;
    else
        return 1;
    return 0;
}

static int
new_artifact(struct db *db, const struct artifact_add_args *a, struct artifact *n, struct err *err)
{
    int64_t ref = 0;

    if (sql_int(db, &ref, err,
                "INSERT INTO artifact_refs (owner, session_name, last_ref) VALUES (?, ?, 1)"
                " ON CONFLICT DO UPDATE SET last_ref = last_ref + 1 RETURNING last_ref",
                "tt", a->owner, a->session_name) < 0)
        return -1;
    *n = (struct artifact){.ref = ref, .version = 1};
    id_uuid4(n->artifact_id);
    if (sql_run(db, err,
                "INSERT INTO artifacts (artifact_id, owner, session_name, ref, path, latest)"
                " VALUES (?, ?, ?, ?, ?, 1)",
                "tttib", n->artifact_id, a->owner, a->session_name, ref, (const void *)a->path,
                a->path_len) < 0)
        return -1;
    n->aid = sqlite3_last_insert_rowid(db->handle);
    return 0;
}

static int
add(struct db *db, void *ctx, struct err *err)
{
    struct add *t = ctx;
    const struct artifact_add_args *a = t->a;
    struct artifact n;
    int r = present(db, a, &n, err);

    if (r < 0)
        return -1;
    if (r > 0 && strcmp(n.sha256, a->sha256) == 0) {
        t->how = ARTIFACT_SAME;
        *t->ret = n;
        return 0;
    }
    if (!a->there(a->ctx, a->sha256)) {
        t->how = ARTIFACT_BLOB_GONE;
        return 0;
    }
    int fits = room(db, t, err);
    if (fits <= 0)
        return fits;
    if (r == 0 && new_artifact(db, a, &n, err) < 0)
        return -1;
    if (r > 0 && sql_run(db, err, "UPDATE artifacts SET latest = ?2 WHERE aid = ?1", "ii", n.aid,
                         ++n.version) < 0)
        return -1;
    if (sql_run(db, err,
                "INSERT INTO artifact_versions (aid, version, owner, sha256, size, eid, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                "iittiti", n.aid, n.version, a->owner, a->sha256, a->size, a->eid,
                a->now_wall_ms) < 0)
        return -1;
    t->how = ARTIFACT_ADDED;
    r = present(db, a, t->ret, err);
    return r < 0 ? -1 : 0;
}

int
artifact_store_add(struct db *db, const struct artifact_add_args *a, enum artifact_add *ret_how,
                   struct artifact *ret, struct err *err)
{
    struct add t = {.a = a, .ret = ret};

    if (sql_tx_durable(db, add, &t, err) < 0)
        return -1;
    *ret_how = t.how;
    return 0;
}

#define BLOB_NAME_MAX 64
struct removal {
    int64_t aid;
    char (*blobs)[SHA256_HEX_SIZE];
    size_t n;
    int done;
};

static int
remove_rows(struct db *db, void *ctx, struct err *err)
{
    struct removal *t = ctx;
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r;

    t->n = 0;
    for (r = sql_first(db, &s, err, "SELECT DISTINCT sha256 FROM artifact_versions WHERE aid = ?",
                       "i", t->aid);
         r > 0; r = sql_next(db, &s, err)) {
        void *bigger = t->n % BLOB_NAME_MAX
                           ? t->blobs
                           : reallocarray(t->blobs, t->n + BLOB_NAME_MAX, sizeof(*t->blobs));

        if (!bigger)
            return err_set(err, ERR_NOMEM, "no memory for the versions of an artifact");
        t->blobs = bigger;
        sql_text(s, 0, t->blobs[t->n++], SHA256_HEX_SIZE);
    }
    if (r < 0 || sql_run(db, err, "DELETE FROM artifact_versions WHERE aid = ?", "i", t->aid) < 0)
        return -1;
    t->done = sql_run(db, err, "DELETE FROM artifacts WHERE aid = ?", "i", t->aid);
    return t->done < 0 ? -1 : 0;
}

int
artifact_store_remove(struct db *db, int64_t aid, void (*on_blob)(void *ctx, const char *sha),
                      void *ctx, struct err *err)
{
    struct removal t = {.aid = aid};
    int r = sql_tx_durable(db, remove_rows, &t, err);

    for (size_t i = 0; r >= 0 && i < t.n; i++)
        on_blob(ctx, t.blobs[i]);
    free(t.blobs);
    return r < 0 ? -1 : t.done;
}

struct forgetting {
    const char *sha256;
    int (*remove)(void *ctx, const char *sha);
    void *ctx;
    bool done;
};

static int
forget(struct db *db, void *ctx, struct err *err)
{
    struct forgetting *t = ctx;
    int64_t used = 0;

    t->done = false;
    if (sql_int(db, &used, err, "SELECT EXISTS (SELECT 1 FROM artifact_versions WHERE sha256 = ?)",
                "t", t->sha256) < 0)
        return -1;
    if (!used) {
        (void)t->remove(t->ctx, t->sha256);
        t->done = true;
    }
    return 0;
}

int
artifact_store_forget(struct db *db, const char *sha256, int (*remove)(void *ctx, const char *sha),
                      void *ctx, struct err *err)
{
    struct forgetting t = {.sha256 = sha256, .remove = remove, .ctx = ctx};

    return sql_tx(db, forget, &t, err) < 0 ? -1 : t.done;
}
