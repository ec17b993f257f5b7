/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <stdlib.h>
#include <string.h>

FIXTURE(f)

static void
make(const char *owner, unsigned scopes, int64_t expires_at, char token[KEY_TOKEN_SIZE],
     struct key_info *info)
{
    struct err err = ERR_INIT;

    assert_int_equal(
        manager_key_create(f.m, owner, scopes, expires_at, "a note", token, info, &err), 0);
}

static void
test_check(void **state)
{
    char token[KEY_TOKEN_SIZE];
    struct key_info info;
    struct caller c;
    struct err err = ERR_INIT;

    (void)state;
    make("ann", KEY_READ | KEY_EXECUTE, 0, token, &info);
    assert_memory_equal(token, "husk_", 5);
    assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), 0);
    assert_string_equal(c.owner, "ann");
    assert_string_equal(c.key_id, info.key_id);
    assert_false(c.admin);
    assert_false(c.read_only);
    /* Any change of it is another key. */
    for (size_t i = 0; i < strlen(token); i++) {
        token[i] ^= 1;
        assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), -1);
        assert_string_equal(err.slug, "unauthorized");
        token[i] ^= 1;
    }
    assert_int_equal(manager_key_check(f.m, token, strlen(token) - 1, &c, &err), -1);
    assert_int_equal(manager_key_check(f.m, "", 0, &c, &err), -1);
    assert_int_equal(err.code, ERR_DENIED);
}

static void
test_scopes(void **state)
{
    char token[KEY_TOKEN_SIZE];
    struct key_info info;
    struct caller c;
    struct err err = ERR_INIT;

    (void)state;
    make("ann", KEY_READ, 0, token, &info);
    assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), 0);
    assert_true(c.read_only);
    make("root", KEY_ADMIN, 0, token, &info);
    assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), 0);
    assert_true(c.admin);
    assert_false(c.read_only);
    assert_int_equal(manager_key_create(f.m, "ann", 0, 0, NULL, token, &info, &err), -1);
    assert_int_equal(manager_key_create(f.m, "ann", 64, 0, NULL, token, &info, &err), -1);
    assert_int_equal(manager_key_create(f.m, "", KEY_READ, 0, NULL, token, &info, &err), -1);
}

static void
test_expiry_and_revocation(void **state)
{
    char token[KEY_TOKEN_SIZE];
    struct key_info info;
    struct caller c;
    struct err err = ERR_INIT;

    (void)state;
    make("ann", KEY_EXECUTE, clock_wall_ms() - 1, token, &info);
    assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), -1);
    assert_string_equal(err.slug, "key_expired");
    make("ann", KEY_EXECUTE, clock_wall_ms() + 60000, token, &info);
    assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), 0);
    assert_int_equal(manager_key_revoke(f.m, info.key_id, &err), 0);
    assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), -1);
    assert_string_equal(err.slug, "key_revoked");
    assert_int_equal(manager_key_revoke(f.m, "0123456789abcdef", &err), -1);
    assert_string_equal(err.slug, "key_not_found");
}

static void
test_list_and_use(void **state)
{
    char token[KEY_TOKEN_SIZE];
    struct key_info info, *list = NULL;
    struct caller c;
    struct err err = ERR_INIT;
    size_t n = 7;

    (void)state;
    assert_int_equal(manager_key_list(f.m, &list, &n, &err), 0);
    assert_int_equal(n, 0);
    free(list);
    make("ann", KEY_EXECUTE, 0, token, &info);
    assert_int_equal(manager_key_check(f.m, token, strlen(token), &c, &err), 0);
    assert_int_equal(manager_key_list(f.m, &list, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].owner, "ann");
    assert_string_equal(list[0].note, "a note");
    assert_true(list[0].last_used_at > 0);
    free(list);
    /* The token itself is nowhere in the database. */
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM keys WHERE length(digest)=32"), 1);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_check),
        T(test_scopes),
        T(test_expiry_and_revocation),
        T(test_list_and_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
