/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "store/pool_store.h"
#include "unit/store_fixture.h"

#define AGE_MS 60000

static const struct pool_kind kind = {"jupyter", "python", AGE_MS};

static int
put(struct store_fixture *f, const char *handle)
{
    return pool_store_put(f->db, &kind, 2, handle, "ks", &f->now, NULL);
}

static int
claim(struct store_fixture *f, int64_t sid, int64_t generation, struct pool_row *ret)
{
    return pool_store_claim(f->db, &kind, sid, generation, false, &f->now, ret, NULL);
}

static void
t_a_claim_moves_one_to_its_session(void **state)
{
    struct store_fixture *f = *state;
    struct pool_row row;
    struct session_counts c;
    int64_t a, b;

    assert_int_equal(put(f, "k1"), 1);
    store_fixture_pass(f, 1);
    assert_int_equal(put(f, "k2"), 1);
    assert_int_equal(put(f, "k3"), 0); /* it is full */
    assert_int_equal(session_store_counts(f->db, &c, NULL), 0);
    assert_int_equal(c.pooled, 2);
    assert_int_equal(c.live + c.starting + c.quarantined, 0);
    assert_int_equal(runtime_store_knows(f->db, "k1", NULL), 1);

    assert_int_equal(store_fixture_open(f, "o", "a", &a), SESSION_OPEN_NEW);
    assert_int_equal(store_fixture_open(f, "o", "b", &b), SESSION_OPEN_NEW);
    assert_int_equal(claim(f, a, 2, &row), 0); /* fenced: nothing is lost */
    assert_int_equal(claim(f, a, 1, &row), 1);
    assert_string_equal(row.handle, "k1");
    assert_string_equal(row.kernel_session, "ks");
    assert_string_equal(store_fixture_ask(f, "SELECT handle FROM runtimes WHERE name LIKE '%a'"),
                        "k1");
    assert_int_equal(runtime_store_knows(f->db, "k1", NULL), 1);
    assert_int_equal(pool_store_take(f->db, "k1", NULL), 0);
    assert_int_equal(claim(f, b, 1, &row), 1);
    assert_string_equal(row.handle, "k2");
    /* One that did not answer makes room for the next. */
    assert_int_equal(put(f, "k4"), 1);
    assert_int_equal(claim(f, b, 1, &row), 1);
    assert_string_equal(row.handle, "k4");
    assert_int_equal(claim(f, b, 1, &row), 0);
    assert_int_equal(session_store_opened(f->db, b, 1, "k4", "ks", &f->now, NULL), 1);
    assert_int_equal(put(f, "k5"), 1);
    assert_int_equal(claim(f, b, 1, &row), 0); /* it is not starting any more */
}

static void
t_only_fit_ones_are_claimed(void **state)
{
    struct store_fixture *f = *state;
    const struct pool_kind other = {"jupyter", "other", AGE_MS};
    struct db_now later = f->now;
    struct pool_row row, rows[4];
    int64_t sid;

    assert_int_equal(put(f, "k1"), 1);
    assert_int_equal(store_fixture_open(f, "o", "a", &sid), SESSION_OPEN_NEW);
    assert_int_equal(pool_store_claim(f->db, &other, sid, 1, false, &f->now, &row, NULL), 0);
    later.boot_id = "another-boot";
    assert_int_equal(pool_store_claim(f->db, &kind, sid, 1, false, &later, &row, NULL), 0);
    store_fixture_pass(f, AGE_MS - 1);
    assert_int_equal(pool_store_list(f->db, &kind, &f->now, rows, 4, NULL), 1);
    assert_true(rows[0].fit);
    store_fixture_pass(f, 1);
    assert_int_equal(claim(f, sid, 1, &row), 0);
    assert_int_equal(put(f, "k2"), 1);
    assert_int_equal(pool_store_list(f->db, &kind, &f->now, rows, 4, NULL), 2);
    assert_string_equal(rows[0].handle, "k1");
    assert_false(rows[0].fit);
    assert_true(rows[1].fit);
    assert_int_equal(pool_store_take(f->db, "k1", NULL), 1);
    assert_int_equal(pool_store_take(f->db, "k1", NULL), 0);
    assert_int_equal(runtime_store_knows(f->db, "k1", NULL), 0);
}

static void
t_sessions_that_start_go_first(void **state)
{
    struct store_fixture *f = *state;
    int64_t since = f->now.wall_ms - 1000, sid;

    assert_int_equal(pool_store_wanted(f->db, 0, since, NULL), 0);
    assert_int_equal(pool_store_wanted(f->db, 1, since, NULL), 1);
    assert_int_equal(store_fixture_open(f, "o", "a", &sid), SESSION_OPEN_NEW);
    assert_int_equal(pool_store_wanted(f->db, 1, since, NULL), 0);
    assert_int_equal(pool_store_wanted(f->db, 1, f->now.wall_ms, NULL), 1); /* a dead one's */
    assert_int_equal(runtime_store_note(f->db, sid, 1, "k", "", NULL), 1);
    assert_int_equal(pool_store_wanted(f->db, 1, since, NULL), 1);
    assert_int_equal(put(f, "k1"), 1);
    assert_int_equal(pool_store_wanted(f->db, 1, since, NULL), 0);
}

/* The pool's are no orphans, not even when they were listed before their row was there. */
static void
t_pooled_ones_are_no_orphans(void **state)
{
    struct store_fixture *f = *state;
    const struct orphan_handle seen[] = {{"k1"}};
    struct orphan_handle old[4];

    assert_int_equal(runtime_store_orphans(f->db, "jupyter", seen, 1, 10, &f->now, old, 4, NULL),
                     0);
    assert_int_equal(put(f, "k1"), 1);
    store_fixture_pass(f, 20);
    assert_int_equal(runtime_store_orphans(f->db, "jupyter", seen, 1, 10, &f->now, old, 4, NULL),
                     0);
    assert_string_equal(store_fixture_ask(f, "SELECT state || ' ' || handle FROM v_runtimes"),
                        "pooled k1");
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_a_claim_moves_one_to_its_session),
        T(t_only_fit_ones_are_claimed),
        T(t_sessions_that_start_go_first),
        T(t_pooled_ones_are_no_orphans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
