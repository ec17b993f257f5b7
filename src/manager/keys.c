/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/id.h"
#include "base/log.h"
#include "manager/internal.h"
#include "store/key_store.h"

/*
 * A token is husk_<key id>_<secret>: the id (16 hex digits) finds the row, the secret (24 random
 * bytes in hex) proves it. Only the SHA-256 of the whole is stored: the secret has entropy enough
 * that no slow hash is needed.
 */
#define TOKEN_PREFIX "husk_"
#define KEY_ID_BYTES 8
#define SECRET_BYTES 24
#define KEY_ID_LEN (2 * KEY_ID_BYTES)
#define TOKEN_LEN (sizeof TOKEN_PREFIX - 1 + KEY_ID_LEN + 1 + 2 * SECRET_BYTES)
#define USE_NOTED_EVERY_MS 60000

static const struct {
    const char *name;
    enum key_scope scope;
} scopes[KEY_SCOPES] = {{"read", KEY_READ}, {"execute", KEY_EXECUTE}, {"admin", KEY_ADMIN}};

enum key_scope
key_scope_at(int i, const char **ret_name)
{
    *ret_name = scopes[i].name;
    return scopes[i].scope;
}

int
key_scope_find(const char *name, size_t n, enum key_scope *ret)
{
    for (int i = 0; i < KEY_SCOPES; i++)
        if (strlen(scopes[i].name) == n && memcmp(scopes[i].name, name, n) == 0) {
            *ret = scopes[i].scope;
            return 1;
        }
    return 0;
}

static void
info_of(const struct key_row *k, struct key_info *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret->key_id, k->key_id, sizeof ret->key_id);
    memcpy(ret->owner, k->owner, sizeof ret->owner);
    memcpy(ret->note, k->note, sizeof ret->note);
    ret->scopes = k->scopes;
    ret->created_at = k->created_at;
    ret->expires_at = k->expires_at;
    ret->revoked_at = k->revoked_at;
    ret->last_used_at = k->last_used_at;
}

int
manager_key_create(struct manager *m, const char *owner, unsigned wanted, int64_t expires_at,
                   const char *note, char ret_token[KEY_TOKEN_SIZE], struct key_info *ret,
                   struct err *err)
{
    struct key_row k = {.scopes = wanted, .expires_at = expires_at, .created_at = clock_wall_ms()};
    char secret[2 * SECRET_BYTES + 1], token[KEY_TOKEN_SIZE];
    size_t owner_len = strlen(owner), note_len = note ? strlen(note) : 0;

    if (owner_len == 0 || owner_len > OWNER_MAX)
        return err_slug(err, ERR_INVALID, "bad_value", "an owner is 1 to %d bytes", OWNER_MAX);
    if (note_len >= sizeof k.note)
        return err_slug(err, ERR_INVALID, "bad_value", "a note is at most %zu bytes",
                        sizeof k.note - 1);
    if (wanted == 0 || (wanted & ~(unsigned)(KEY_READ | KEY_EXECUTE | KEY_ADMIN)))
        return err_slug(err, ERR_INVALID, "bad_value", "scopes are read, execute and admin");
    memcpy(k.owner, owner, owner_len);
    if (note_len > 0)
        memcpy(k.note, note, note_len);
    id_random_hex(k.key_id, KEY_ID_BYTES);
    id_random_hex(secret, SECRET_BYTES);
    (void)snprintf(token, sizeof token, TOKEN_PREFIX "%s_%s", k.key_id, secret);
    sha256_of(token, strlen(token), k.digest);
    if (key_store_insert(m->db, &k, err) < 0)
        return -1;
    memcpy(ret_token, token, sizeof token);
    info_of(&k, ret);
    return 0;
}

int
manager_key_list(struct manager *m, struct key_info **ret, size_t *ret_n, struct err *err)
{
    _cleanup_free_ struct key_row *rows = NULL;
    struct key_info *list = NULL;
    size_t n = 0;

    if (key_store_list(m->db, &rows, &n, err) < 0)
        return -1;
    if (n > 0)
        list = xcalloc(n, sizeof *list);
    for (size_t i = 0; i < n; i++)
        info_of(&rows[i], &list[i]);
    *ret = list;
    *ret_n = n;
    return 0;
}

int
manager_key_revoke(struct manager *m, const char *key_id, struct err *err)
{
    int r = key_store_revoke(m->db, key_id, clock_wall_ms(), err);

    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "key_not_found", "there is no key %.31s", key_id);
    return r < 0 ? -1 : 0;
}

static int
refuse(struct err *err)
{
    return err_slug(err, ERR_DENIED, "unauthorized", "the key is not known");
}

/* The id within a token of the right shape: 1, else 0. */
static int
token_key_id(const char *token, size_t n, char ret[KEY_ID_LEN + 1])
{
    const char *id = token + sizeof TOKEN_PREFIX - 1;

    if (n != TOKEN_LEN || memcmp(token, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1) != 0 ||
        id[KEY_ID_LEN] != '_' || !id_in_alphabet(id, KEY_ID_LEN, KEY_ID_LEN, KEY_ID_LEN))
        return 0;
    memcpy(ret, id, KEY_ID_LEN);
    ret[KEY_ID_LEN] = '\0';
    return 1;
}

int
manager_key_check(struct manager *m, const char *token, size_t n, struct caller *ret,
                  struct err *err)
{
    struct key_row k;
    struct caller c = {.owner = ""};
    uint8_t digest[SHA256_SIZE];
    char key_id[KEY_ID_LEN + 1];
    int64_t now = clock_wall_ms();
    int r;

    if (!token_key_id(token, n, key_id))
        return refuse(err);
    r = key_store_get(m->db, key_id, &k, err);
    if (r < 0)
        return -1;
    sha256_of(token, n, digest);
    if (r == 0 || !digest_equal(digest, k.digest, sizeof digest))
        return refuse(err);
    if (k.revoked_at)
        return err_slug(err, ERR_DENIED, "key_revoked", "the key was revoked");
    if (k.expires_at && k.expires_at <= now)
        return err_slug(err, ERR_DENIED, "key_expired", "the key has expired");
    if (now - k.last_used_at >= USE_NOTED_EVERY_MS || now < k.last_used_at) {
        struct err uerr = ERR_INIT;

        if (key_store_used(m->db, key_id, now, &uerr) < 0)
            log_debug("a key's use was not noted: %s", uerr.msg);
    }
    memcpy(c.owner, k.owner, sizeof c.owner);
    memcpy(c.key_id, k.key_id, sizeof c.key_id);
    c.admin = (k.scopes & KEY_ADMIN) != 0;
    c.read_only = (k.scopes & (KEY_ADMIN | KEY_EXECUTE)) == 0;
    *ret = c;
    return 0;
}
