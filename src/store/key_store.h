/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_KEY_STORE_H
#define HUSK_STORE_KEY_STORE_H

#include "base/digest.h"
#include "base/err.h"
#include "model/session.h"
#include "store/db.h"

#include <stddef.h>
#include <stdint.h>

/*
 * keys(key_id PK, owner, digest BLOB UNIQUE (SHA-256 of the whole token), scopes, note, created_at,
 *   expires_at, revoked_at, last_used_at); times wall ms, 0 none.  The key_id is part of the token,
 * so the row is found by it and the digest compared in constant time by the caller.
 */
struct key_row {
    char key_id[32];
    char owner[OWNER_MAX + 1];
    uint8_t digest[SHA256_SIZE];
    unsigned scopes;
    char note[129];
    int64_t created_at, expires_at, revoked_at, last_used_at;
};

int key_store_insert(struct db *db, const struct key_row *k, struct err *err);
/* 1 found, 0 not. */
int key_store_get(struct db *db, const char *key_id, struct key_row *ret, struct err *err);
/* Oldest first, at most 10000. *ret heap array, NULL when empty. */
int key_store_list(struct db *db, struct key_row **ret, size_t *ret_n, struct err *err);
/* Sets revoked_at if it is not set. 1, or 0 no such key. */
int key_store_revoke(struct db *db, const char *key_id, int64_t now_wall_ms, struct err *err);
/* last_used_at. */
int key_store_used(struct db *db, const char *key_id, int64_t now_wall_ms, struct err *err);

#endif
