/* SPDX-License-Identifier: MIT */
#include "store/key_store.h"

#include <stdlib.h>
#include <string.h>

#include "store/sql.h"

#define KEYS_MAX 10000

#define COLUMNS                                                                                    \
    "key_id, owner, digest, scopes, note, created_at, expires_at, revoked_at, last_used_at"

static void
read_key(sqlite3_stmt *s, struct key_row *ret)
{
    const void *digest = sqlite3_column_blob(s, 2);

    memset(ret, 0, sizeof(*ret));
    sql_text(s, 0, ret->key_id, sizeof(ret->key_id));
    sql_text(s, 1, ret->owner, sizeof(ret->owner));
    if (digest && sqlite3_column_bytes(s, 2) == SHA256_SIZE)
        memcpy(ret->digest, digest, SHA256_SIZE);
    ret->scopes = (unsigned)sqlite3_column_int64(s, 3);
    sql_text(s, 4, ret->note, sizeof(ret->note));
    ret->created_at = sqlite3_column_int64(s, 5);
    ret->expires_at = sqlite3_column_int64(s, 6);
    ret->revoked_at = sqlite3_column_int64(s, 7);
    ret->last_used_at = sqlite3_column_int64(s, 8);
}

int
key_store_insert(struct db *db, const struct key_row *k, struct err *err)
{
    int r = sql_run(db, err, "INSERT INTO keys (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    "ttbitiiii", k->key_id, k->owner, (const void *)k->digest, (size_t)SHA256_SIZE,
                    (int64_t)k->scopes, k->note, k->created_at, k->expires_at, k->revoked_at,
                    k->last_used_at);

    return r < 0 ? -1 : 0;
}

int
key_store_get(struct db *db, const char *key_id, struct key_row *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int r = sql_first(db, &s, err, "SELECT " COLUMNS " FROM keys WHERE key_id = ?", "t", key_id);

    if (r > 0)
        read_key(s, ret);
    return r;
}

int
key_store_list(struct db *db, struct key_row **ret, size_t *ret_n, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    _cleanup_free_ struct key_row *rows = NULL;
    size_t n = 0, cap = 0;
    int r;

    for (r = sql_first(db, &s, err,
                       "SELECT " COLUMNS " FROM keys ORDER BY created_at, key_id LIMIT ?", "d",
                       KEYS_MAX);
         r > 0; r = sql_next(db, &s, err)) {
        if (n == cap) {
            struct key_row *bigger;

            cap = cap ? 2 * cap : 16;
            bigger = reallocarray(rows, cap, sizeof(*rows));
            if (!bigger)
                return err_set(err, ERR_NOMEM, "no memory for %zu keys", cap);
            rows = bigger;
        }
        read_key(s, &rows[n++]);
    }
    if (r < 0)
        return -1;
    *ret = steal_ptr(rows);
    *ret_n = n;
    return 0;
}

int
key_store_revoke(struct db *db, const char *key_id, int64_t now_wall_ms, struct err *err)
{
    return sql_run(db, err,
                   "UPDATE keys SET revoked_at = CASE revoked_at WHEN 0 THEN ?2 ELSE revoked_at END"
                   " WHERE key_id = ?1",
                   "ti", key_id, now_wall_ms);
}

int
key_store_used(struct db *db, const char *key_id, int64_t now_wall_ms, struct err *err)
{
    int r =
        sql_run(db, err, "UPDATE keys SET last_used_at = max(last_used_at, ?2) WHERE key_id = ?1",
                "ti", key_id, now_wall_ms);

    return r < 0 ? -1 : 0;
}
