/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/store_fixture.h"

static enum runtime_begin_outcome
begin(struct store_fixture *f, int64_t sid, int64_t generation, int64_t *ret_generation)
{
    struct runtime_begin_args a = {
        .sid = sid, .generation = generation, .max_sessions = 5, .max_per_owner = 3, .now = f->now};
    enum runtime_begin_outcome how;

    assert_int_equal(runtime_store_begin(f->db, &a, &how, ret_generation, NULL), 0);
    return how;
}

static int
drop(struct store_fixture *f, int64_t sid, int64_t generation, bool ended, int lost)
{
    struct runtime_drop_args a = {sid, generation, ended, NULL, lost, f->now};

    return runtime_store_drop(f->db, &a, NULL);
}

static void
t_a_lost_runtime_is_replaced(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), g = 0;
    struct runtime_row rt;
    struct session s;

    assert_int_equal(begin(f, sid, 1, &g), RUNTIME_BEGIN_STALE); /* it has one */
    assert_int_equal(runtime_store_of(f->db, sid, &rt, NULL), 1);
    assert_string_equal(rt.handle, "k-s");
    assert_int_equal(drop(f, sid, 2, true, 1), 0);
    assert_int_equal(drop(f, sid, 1, true, 1), 1);
    assert_int_equal(drop(f, sid, 1, true, 1), 0);
    assert_string_equal(store_fixture_state(f, sid), "cold");
    assert_int_equal(begin(f, sid, 7, &g), RUNTIME_BEGIN_STALE);
    assert_int_equal(begin(f, sid, 1, &g), RUNTIME_BEGIN_OK);
    assert_int_equal(g, 2);
    assert_int_equal(runtime_store_note(f->db, sid, 1, "k2", "", NULL), 0);
    assert_int_equal(runtime_store_note(f->db, sid, 2, "k2", "", NULL), 1);
    assert_int_equal(runtime_store_knows(f->db, "k2", NULL), 1);
    assert_int_equal(runtime_store_knows(f->db, "", NULL), 0);
    assert_int_equal(runtime_store_ready(f->db, sid, 1, "k2", "ks2", NULL), 0);
    assert_int_equal(runtime_store_ready(f->db, sid, 2, "k2", "ks2", NULL), 1);
    assert_int_equal(session_store_by_sid(f->db, sid, &s, NULL), 1);
    assert_int_equal(s.state, SESSION_READY);
    assert_string_equal(s.handle, "k2");
    assert_true(s.state_lost);
    session_done(&s);
    assert_int_equal(drop(f, sid, 2, true, -1), 1);
    assert_int_equal(session_store_by_sid(f->db, sid, &s, NULL), 1);
    assert_false(s.state_lost);
    session_done(&s);
}

static void
t_a_dead_start_is_cleared(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), g = 0;
    struct runtime_row rows[4];

    assert_int_equal(drop(f, sid, 1, true, 0), 1);
    assert_int_equal(begin(f, sid, 1, &g), RUNTIME_BEGIN_OK);
    assert_int_equal(begin(f, sid, 2, &g), RUNTIME_BEGIN_OK); /* its process died before a kernel */
    assert_int_equal(g, 3);
    /* There may be one all the same: it goes on counting, without the session. */
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM runtimes"), "2");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM runtimes WHERE sid IS NULL"),
                        "1");

    /* It died with one: that one is ended before another is made. */
    assert_int_equal(runtime_store_note(f->db, sid, 3, "k3", "", NULL), 1);
    assert_int_equal(begin(f, sid, 3, &g), RUNTIME_BEGIN_QUARANTINED);
    assert_int_equal(runtime_store_quarantined(f->db, "o", "s", &f->now, rows, 4, NULL), 1);
    assert_string_equal(rows[0].handle, "k3");
    assert_int_equal(runtime_store_ended(f->db, rows[0].rid, NULL), 1);
    assert_int_equal(runtime_store_ended(f->db, rows[0].rid, NULL), 0);
    assert_int_equal(begin(f, sid, 3, &g), RUNTIME_BEGIN_OK);
}

static void
t_closing_is_fenced(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), g = 0;
    struct session_close_args c = {.sid = sid, .now = f->now};

    assert_int_equal(drop(f, sid, 1, true, 0), 1);
    assert_int_equal(begin(f, sid, 1, &g), RUNTIME_BEGIN_OK);
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(runtime_store_ready(f->db, sid, g, "k2", "", NULL), 0);
    assert_int_equal(begin(f, sid, g, &g), RUNTIME_BEGIN_STALE);
    assert_int_equal(
        session_store_finish_close(f->db, sid, false, WORKSPACE_REMOVED, &f->now, NULL), 1);
    assert_string_equal(
        store_fixture_ask(f, "SELECT count(*) FROM runtimes WHERE sid IS NULL AND handle = ''"),
        "1");
}

#define LEFT(f) store_fixture_ask(f, "SELECT count(*) FROM runtimes")

static void
t_abandoned_starts_end(void **state)
{
    struct store_fixture *f = *state;
    struct orphan_handle seen[2] = {{"x"}, {"y"}}, ret[4];
    int64_t sid[3], t0 = f->now.wall_ms;

    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), '\0'};

        assert_int_equal(store_fixture_open(f, "o", name, &sid[i]), SESSION_OPEN_NEW);
        store_fixture_pass(f, 1000);
        assert_int_equal(session_store_undo_open(f->db, sid[i], 1, "", true, &f->now, NULL), 1);
    }
    assert_string_equal(LEFT(f), "3");
    assert_int_equal(store_fixture_open(f, "o", "d", &sid[0]), SESSION_OPEN_OWNER_FULL);
    /* Two may be the orphans there are; of the third nothing has shown since it was given up. */
    assert_int_equal(runtime_store_orphans(f->db, "jupyter", seen, 2, 1000, &f->now, ret, 4, NULL),
                     0);
    assert_int_equal(runtime_store_abandoned_end(f->db, "other", t0 + 9000, 0, NULL), 0);
    assert_int_equal(runtime_store_abandoned_end(f->db, "jupyter", t0 + 999, 0, NULL), 0);
    assert_int_equal(runtime_store_abandoned_end(f->db, "jupyter", t0 + 9000, 0, NULL), 1);
    assert_int_equal(runtime_store_abandoned_end(f->db, "jupyter", t0 + 9000, 0, NULL), 0);
    assert_int_equal(runtime_store_orphan_gone(f->db, "x", NULL), 0);
    assert_int_equal(runtime_store_abandoned_end(f->db, "jupyter", t0 + 9000, 0, NULL), 1);
    assert_string_equal(LEFT(f), "1");
    /* Not for ever, whatever the list is like. */
    assert_int_equal(runtime_store_abandoned_end(f->db, "jupyter", 0, t0 + 9000, NULL), 1);
    assert_string_equal(LEFT(f), "0");
}

static void
t_live_and_starting_ones(void **state)
{
    struct store_fixture *f = *state;
    int64_t b = store_fixture_ready(f, "o", "b"), a = store_fixture_ready(f, "o", "a"), g = 0;
    struct runtime_live live[3];
    struct runtime_row row[2];

    (void)store_fixture_open(f, "o", "opening", NULL);
    assert_int_equal(runtime_store_live(f->db, "jupyter", live, 3, NULL), 2);
    assert_string_equal(live[0].handle, "k-a");
    assert_int_equal(live[0].sid, a);
    assert_int_equal(live[1].generation, 1);
    assert_int_equal(runtime_store_live(f->db, "jupyter", live, 1, NULL), 1);
    assert_int_equal(runtime_store_live(f->db, "other", live, 3, NULL), 0);
    assert_int_equal(runtime_store_starting(f->db, 0, row, 2, NULL), 0);
    assert_int_equal(drop(f, b, 1, true, 0), 1);
    assert_int_equal(runtime_store_begin(f->db, &(struct runtime_begin_args){b, 1, 9, 9, 0, f->now},
                                         &(enum runtime_begin_outcome){0}, &g, NULL),
                     0);
    assert_int_equal(runtime_store_starting(f->db, 0, row, 2, NULL), 1);
    assert_int_equal(row[0].sid, b);
    assert_int_equal(runtime_store_starting(f->db, a, row, 2, NULL), 0);
    assert_int_equal(runtime_store_starting(f->db, b, row, 2, NULL), 1);
}

static void
t_caps(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), g = 0;

    assert_int_equal(drop(f, sid, 1, true, 0), 1); /* a cold session has no slot */
    for (int i = 0; i < 3; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "o%d", i);
        (void)store_fixture_ready(f, "o", name);
    }
    assert_int_equal(begin(f, sid, 1, &g), RUNTIME_BEGIN_OWNER_FULL);
    sid = store_fixture_ready(f, "p", "s");
    assert_int_equal(drop(f, sid, 1, true, 0), 1);
    (void)store_fixture_ready(f, "q", "x");
    (void)store_fixture_ready(f, "q", "y");
    assert_int_equal(begin(f, sid, 1, &g), RUNTIME_BEGIN_FULL);
}

static void
t_back_off_doubles(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), want = 2000;
    struct runtime_row row;

    assert_int_equal(drop(f, sid, 1, false, 0), 1);
    for (int i = 0; i < 12; i++) {
        store_fixture_pass(f, want - 1);
        assert_int_equal(runtime_store_quarantined(f->db, NULL, NULL, &f->now, &row, 1, NULL), 0);
        store_fixture_pass(f, 1);
        assert_int_equal(runtime_store_quarantined(f->db, NULL, NULL, &f->now, &row, 1, NULL), 1);
        assert_int_equal(row.tries, i);
        assert_int_equal(runtime_store_retry_later(f->db, row.rid, &f->now, NULL), 1);
        want = want * 2 < 300000 ? want * 2 : 300000;
    }
    assert_int_equal(runtime_store_retry_later(f->db, 99, &f->now, NULL), 0);
}

/* The end of an earlier kernel is still not confirmed when the session ends. */
static void
t_a_close_forgets_no_quarantined_one(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s");
    struct session_close_args c = {.sid = sid, .now = f->now};
    struct runtime_row row;

    assert_int_equal(drop(f, sid, 1, false, 0), 1);
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(session_store_finish_close(f->db, sid, true, WORKSPACE_REMOVED, &f->now, NULL),
                     1);
    assert_int_equal(runtime_store_quarantined(f->db, "o", "s", &f->now, &row, 1, NULL), 1);
    assert_string_equal(row.handle, "k-s");
    assert_int_equal(row.sid, 0);
    assert_int_equal(store_fixture_open(f, "o", "s", NULL), SESSION_OPEN_QUARANTINED);
}

static void
t_orphans(void **state)
{
    struct store_fixture *f = *state;
    struct orphan_handle seen[3] = {{"x"}, {"k-s"}, {"y"}}, ret[4];

    (void)store_fixture_ready(f, "o", "s");
#define ORPHANS(n, age) runtime_store_orphans(f->db, "jupyter", seen, n, age, &f->now, ret, 4, NULL)
    assert_int_equal(ORPHANS(2, 1000), 0);
    store_fixture_pass(f, 999);
    assert_int_equal(ORPHANS(3, 1000), 0);
    store_fixture_pass(f, 1);
    assert_int_equal(ORPHANS(3, 1000), 1);
    assert_string_equal(ret[0].handle, "x");
    assert_int_equal(runtime_store_orphan_gone(f->db, "x", NULL), 0);
    store_fixture_pass(f, 1000);
    assert_int_equal(ORPHANS(0, 1000), 0); /* gone by themselves */
    store_fixture_pass(f, 1000);
    assert_int_equal(ORPHANS(3, 1000), 0); /* seen anew */
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_a_lost_runtime_is_replaced),
        T(t_a_dead_start_is_cleared),
        T(t_closing_is_fenced),
        T(t_abandoned_starts_end),
        T(t_live_and_starting_ones),
        T(t_caps),
        T(t_back_off_doubles),
        T(t_a_close_forgets_no_quarantined_one),
        T(t_orphans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
