/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/key_store.h"
#include "store/turn_store.h"
#include "unit/store_fixture.h"

static void
t_keys(void **state)
{
    struct store_fixture *f = *state;
    struct key_row k = {.key_id = "k1", .owner = "o", .scopes = 5, .note = "n", .created_at = 10},
                   got, *list;
    struct err err = ERR_INIT;
    size_t n;

    memset(k.digest, 7, sizeof(k.digest));
    assert_int_equal(key_store_insert(f->db, &k, &err), 0);
    assert_int_equal(key_store_insert(f->db, &k, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(key_store_get(f->db, "k1", &got, &err), 1);
    assert_memory_equal(got.digest, k.digest, sizeof(k.digest));
    assert_int_equal(got.scopes, 5);
    assert_string_equal(got.note, "n");
    assert_int_equal(key_store_get(f->db, "k2", &got, &err), 0);

    assert_int_equal(key_store_used(f->db, "k1", 50, &err), 0);
    assert_int_equal(key_store_used(f->db, "k1", 40, &err), 0); /* a slower process */
    assert_int_equal(key_store_revoke(f->db, "k1", 60, &err), 1);
    assert_int_equal(key_store_revoke(f->db, "k1", 70, &err), 1);
    assert_int_equal(key_store_revoke(f->db, "k2", 70, &err), 0);
    assert_int_equal(key_store_get(f->db, "k1", &got, &err), 1);
    assert_int_equal(got.last_used_at, 50);
    assert_int_equal(got.revoked_at, 60);

    k.created_at = 5;
    k.digest[0] = 8;
    memcpy(k.key_id, "k0", 3);
    assert_int_equal(key_store_insert(f->db, &k, &err), 0);
    assert_int_equal(key_store_list(f->db, &list, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].key_id, "k0");
    free(list);
}

static void
t_turns(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), a, b, c;
    struct turn_row rows[TURN_ROWS_MAX];
    struct err err = ERR_INIT;

    assert_int_equal(turn_store_enter(f->db, sid, 11, 1, 2, &f->now, &a, &err), 1);
    assert_int_equal(turn_store_enter(f->db, sid, 12, 2, 2, &f->now, &b, &err), 1);
    assert_int_equal(turn_store_enter(f->db, sid, 13, 3, 2, &f->now, &c, &err), 0);
    assert_true(a < b);
    assert_int_equal(turn_store_list(f->db, sid, rows, &err), 2);
    assert_true(rows[0].ticket == a && rows[0].lock_id == 11 && rows[1].pid == 2);
    assert_int_equal(turn_store_leave(f->db, a, &err), 0);
    assert_int_equal(turn_store_leave(f->db, a, &err), 0);
    assert_int_equal(turn_store_enter(f->db, sid, 13, 3, 2, &f->now, &c, &err), 1);
    assert_true(c > b); /* a ticket is never given out twice */
    assert_int_equal(turn_store_all(f->db, rows, TURN_ROWS_MAX, &err), 2);
    assert_int_equal(turn_store_enter(f->db, 99, 1, 1, 2, &f->now, &c, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {T(t_keys), T(t_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
