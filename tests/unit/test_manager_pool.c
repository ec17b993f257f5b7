/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "manager/internal.h"
#include "store/pool_store.h"

FIXTURE(f)
FIXTURE_SWEEP(f)

static int
refill(void)
{
    struct err err = ERR_INIT;
    int64_t again_ms = 0;
    int n = -1;

    for (; again_ms == 0; n++)
        assert_int_equal(manager_refill(f.m, deadline_in(10000), false, &again_ms, &err), 0);
    return n;
}

static int64_t
pooled(void)
{
    return fixture_sql(&f, "SELECT count(*) FROM pool");
}

/* Kills one of the pool behind everybody's back. */
static void
kill_one(void)
{
    char handle[HANDLE_MAX + 1] = "";
    struct pool_row row;
    struct pool_kind k = {"fake", "", f.o.pool_max_age_ms};
    struct db_now now = manager_now(f.m);

    assert_int_equal(pool_store_list(f.m->db, &k, &now, &row, 1, NULL), 1);
    (void)snprintf(handle, sizeof handle, "%s", row.handle);
    fake_kill(f.kernels, handle);
}

static void
test_opens_take_what_is_there(void **state)
{
    struct manager_stats stats;
    struct err err = ERR_INIT;

    (void)state;
    fixture_restart_with(&f, "pool=2 sessions=3");
    assert_int_equal(refill(), 2);
    assert_int_equal(refill(), 0);
    assert_int_equal(atomic_load(&f.world->opens), 2);
    assert_int_equal(manager_stats(f.m, &stats, &err), 0);
    assert_int_equal(stats.runtimes_pooled, 2);
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    assert_int_equal(atomic_load(&f.world->opens), 2);
    assert_int_equal(pooled(), 0);
    assert_null(fixture_open(&f, f.m, "c", NULL, NULL));
    assert_int_equal(atomic_load(&f.world->opens), 3);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL));
    /* The pool is beyond the cap, what was claimed counts. */
    assert_int_equal(refill(), 2);
    assert_int_equal(fake_count(f.kernels), 5);
    assert_null(fixture_open(&f, f.m, "d", NULL, NULL));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 3);
    /* One that was used ends with its session and is never handed on. */
    assert_null(fixture_close(&f, f.m, "d", NULL));
    assert_int_equal(pooled(), 1);
    assert_int_equal(fake_count(f.kernels), 3);
}

static void
test_a_lost_runtime_is_replaced_from_the_pool(void **state)
{
    struct exec_outcome o;

    (void)state;
    fixture_restart_with(&f, "pool=1");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_int_equal(refill(), 1);
    assert_null(fixture_exec(&f, f.m, "a", "die", NULL));
    assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
    assert_true(o.session.state_lost);
    exec_outcome_done(&o);
    assert_int_equal(atomic_load(&f.world->opens), 2);
    assert_int_equal(pooled(), 0);
    assert_int_equal(fake_count(f.kernels), 1);
}

static void
test_many_processes_never_get_the_same(void **state)
{
    struct child c[8];
    char out[8][128];

    (void)state;
    fixture_restart_with(&f, "pool=5");
    assert_int_equal(refill(), 5);
    for (int i = 0; i < 8; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "s%d", i);
        c[i] = fixture_spawn(&f, "open", id, NULL);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fixture_wait(&c[i], out[i], sizeof out[i]), 0);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(out[i], out[k]);
    }
    assert_int_equal(pooled(), 0);
    assert_int_equal(atomic_load(&f.world->opens), 8);
    assert_int_equal(fake_count(f.kernels), 8);
}

static void
test_dead_ones_fall_back(void **state)
{
    (void)state;
    fixture_restart_with(&f, "pool=2");
    assert_int_equal(refill(), 2);
    kill_one();
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL)); /* the other */
    assert_int_equal(atomic_load(&f.world->opens), 2);
    assert_int_equal(refill(), 2);
    kill_one();
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM pool"), 2);
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    assert_int_equal(refill(), 2);
    kill_one();
    fixture_restart_with(&f, "pool=1");
    assert_null(fixture_open(&f, f.m, "c", NULL, NULL));
    assert_null(fixture_exec(&f, f.m, "c", "print 1", NULL));
    /* With none left that lives, one is started. */
    assert_int_equal(refill(), 1);
    kill_one();
    assert_null(fixture_open(&f, f.m, "d", NULL, NULL));
    assert_int_equal(fake_count(f.kernels), 4);
    assert_int_equal(pooled(), 0);
}

static void
test_the_sweep_replaces_dead_and_old_ones(void **state)
{
    (void)state;
    fixture_restart_with(&f, "pool=3");
    assert_int_equal(refill(), 3);
    assert_int_equal(sweep().pool_ended, 0);
    kill_one();
    assert_int_equal(sweep().pool_ended, 1);
    assert_int_equal(pooled(), 2);
    assert_int_equal(refill(), 1);
    fixture_restart_with(&f, "pool=2");
    assert_int_equal(sweep().pool_ended, 1); /* one too many */
    assert_int_equal(fake_count(f.kernels), 2);
    fixture_restart_with(&f, "pool=2 pool_age=50");
    (void)poll(NULL, 0, 60);
    assert_int_equal(sweep().pool_ended, 2);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_int_equal(refill(), 2);
    fixture_restart_with(&f, "pool=0");
    assert_int_equal(sweep().pool_ended, 2);
    assert_int_equal(fake_count(f.kernels), 0);
}

static void
test_one_start_at_a_time_and_pauses_after_a_failure(void **state)
{
    struct manager *other;
    struct err err = ERR_INIT;
    int64_t again_ms = 0;

    (void)state;
    fixture_restart_with(&f, "pool=2");
    other = fixture_other(&f);
    assert_int_equal(lock_try_exclusive(other->lock_fd, LOCK_POOL), 1);
    assert_int_equal(refill(), 0);
    assert_int_equal(lock_release(other->lock_fd, LOCK_POOL), 0);
    manager_free(other);
    atomic_store(&f.world->fail_opens, 1);
    assert_int_equal(manager_refill(f.m, deadline_in(1000), false, &again_ms, &err), -1);
    assert_true(again_ms < 0);
    assert_int_equal(manager_refill(f.m, deadline_in(1000), false, &again_ms, &err), 0);
    assert_true(again_ms > 0);
    assert_int_equal(pooled(), 0);
    f.m->pool_next_ms = 0;
    assert_int_equal(refill(), 2);
}

/* Of three times that a start takes one is used, so that sessions keep the machine. */
static void
test_gently(void **state)
{
    struct err err = ERR_INIT;
    int64_t again_ms = 0;

    (void)state;
    fixture_restart_with(&f, "pool=3");
    atomic_store(&f.world->open_ms, 100);
    assert_int_equal(manager_refill(f.m, deadline_in(10000), true, &again_ms, &err), 0);
    assert_int_equal(again_ms, 0);
    assert_int_equal(manager_refill(f.m, deadline_in(10000), true, &again_ms, &err), 0);
    assert_true(again_ms > 100);
    assert_int_equal(pooled(), 1);
    (void)poll(NULL, 0, (int)again_ms + 1);
    assert_int_equal(manager_refill(f.m, deadline_in(10000), true, &again_ms, &err), 0);
    assert_int_equal(pooled(), 2);
}

static bool
claimed(struct fixture *x)
{
    return fixture_sql(x, "SELECT count(*) FROM runtimes WHERE state='starting' AND handle<>''") ==
           1;
}

static void
test_killed_after_the_claim(void **state)
{
    struct child c;
    bool created = false;

    (void)state;
    fixture_restart_with(&f, "pool=1 start=60000");
    assert_int_equal(refill(), 1);
    atomic_store(&f.world->alive_ms, 5000);
    c = fixture_spawn(&f, "open", "k", NULL);
    assert_true(fixture_until(claimed, &f));
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(fixture_wait(&c, NULL, 0), 1000 + SIGKILL);
    atomic_store(&f.world->alive_ms, 0);
    assert_int_equal(sweep().opening_undone, 1);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM v_runtimes"), 0);
    assert_null(fixture_open(&f, f.m, "k", NULL, &created));
    assert_true(created);
    assert_int_equal(fake_count(f.kernels), 1);
}

static char given[2][HANDLE_MAX + 1];

static void
note_given(void *ctx, const char *handle, const char *session_name)
{
    (void)ctx;
    (void)snprintf(given[0], sizeof given[0], "%s", handle);
    (void)snprintf(given[1], sizeof given[1], "%s", session_name);
}

/* Who looks sees what waits, claims nothing by it, and hears who got which. */
static void
test_channels_ahead_of_need(void **state)
{
    struct manager_pooled p[3];
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(manager_pooled(f.m, p, 3, &err), 0);
    fixture_restart_with(&f, "pool=2");
    f.m->o.pooled_given = note_given;
    assert_int_equal(refill(), 2);
    assert_int_equal(manager_pooled(f.m, p, 1, &err), 1);
    assert_int_equal(manager_pooled(f.m, p, 3, &err), 2);
    assert_int_equal(manager_warm(f.m, &p[0], deadline_in(1000), &err), 0);
    assert_int_equal(atomic_load(&f.world->warms), 1);
    assert_int_equal(pooled(), 2);
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_string_equal(given[0], p[0].handle);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions s JOIN runtimes r USING (sid)"
                                     " WHERE r.handle IN (SELECT handle FROM pool)"),
                     0);
    assert_int_equal(manager_pooled(f.m, p, 3, &err), 1);
    assert_string_not_equal(given[0], p[0].handle);
    kill_one();
    assert_int_equal(manager_warm(f.m, &p[0], deadline_in(1000), &err), -1);
    assert_string_equal(err.slug, "runtime_gone");
    given[0][0] = given[1][0] = '\0';
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL)); /* started, as the other is dead */
    assert_string_equal(given[0], "");
}

static int64_t
unbound(void)
{
    return fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE unbound");
}

static void
test_the_first_code_binds(void **state)
{
    (void)state;
    fixture_restart_with(&f, "pool=1");
    assert_int_equal(refill(), 1);
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_int_equal(atomic_load(&f.world->binds), 0);
    assert_int_equal(unbound(), 1);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL));
    assert_int_equal(atomic_load(&f.world->binds), 1);
    assert_int_equal(unbound(), 0);
    assert_null(fixture_exec(&f, f.m, "a", "print 2", NULL));
    assert_int_equal(atomic_load(&f.world->binds), 1);
    /* one that is started for its session is bound with the open */
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    assert_int_equal(atomic_load(&f.world->binds), 2);
    assert_int_equal(unbound(), 0);
}

static bool
binding(struct fixture *x)
{
    return atomic_load(&x->world->binds) == 1;
}

/* Whoever is killed while it binds leaves it to be done once more. */
static void
test_killed_while_the_first_code_binds(void **state)
{
    struct exec_outcome o;
    struct child c;

    (void)state;
    fixture_restart_with(&f, "pool=1 start=60000");
    assert_int_equal(refill(), 1);
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    atomic_store(&f.world->bind_ms, 5000);
    c = fixture_spawn(&f, "exec", "a", "print 1");
    assert_true(fixture_until(binding, &f));
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(fixture_wait(&c, NULL, 0), 1000 + SIGKILL);
    atomic_store(&f.world->bind_ms, 0);
    assert_int_equal(unbound(), 1);
    assert_null(fixture_exec(&f, f.m, "a", "print 2", &o));
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    assert_int_equal(atomic_load(&f.world->binds), 2);
    assert_int_equal(atomic_load(&f.world->opens), 1);
    assert_int_equal(atomic_load(&f.world->execs), 1);
    assert_int_equal(unbound(), 0);
}

static bool
running(struct fixture *x)
{
    return atomic_load(&x->world->running) == 1;
}

/* What a run that was left behind had made is lost, whatever was noted of its runtime. */
static void
test_killed_in_the_first_code_and_the_kernel_with_it(void **state)
{
    struct exec_outcome o;
    struct session s = {0};
    struct child c;

    (void)state;
    fixture_restart_with(&f, "pool=1");
    assert_int_equal(refill(), 1);
    assert_null(fixture_open(&f, f.m, "a", &s, NULL));
    c = fixture_spawn(&f, "exec", "a", "sleep 20000");
    assert_true(fixture_until(running, &f));
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(fixture_wait(&c, NULL, 0), 1000 + SIGKILL);
    fake_kill(f.kernels, s.handle);
    session_done(&s);
    assert_null(fixture_exec(&f, f.m, "a", "print 2", &o));
    assert_true(o.session.state_lost);
    exec_outcome_done(&o);
}

/* Another takes its place, and no state is said to be lost: there was none. */
static void
test_one_that_hangs_or_dies_before_its_first_code(void **state)
{
    struct exec_outcome o;

    (void)state;
    fixture_restart_with(&f, "pool=1 start=1200");
    assert_int_equal(refill(), 1);
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    atomic_store(&f.world->bind_ms, 400); /* too long for one of the pool, not for a start */
    assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    atomic_store(&f.world->bind_ms, 0);
    assert_int_equal(refill(), 1);
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    atomic_store(&f.world->gone_execs, 1);
    assert_null(fixture_exec(&f, f.m, "b", "print 1", &o));
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    assert_int_equal(fake_count(f.kernels), 2);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 2);
}

/* The next of the pool may be as dead as the first: all of them were killed a moment ago. */
static void
test_all_die_before_the_first_code(void **state)
{
    struct exec_outcome o;

    (void)state;
    fixture_restart_with(&f, "pool=3");
    assert_int_equal(refill(), 3);
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    atomic_store(&f.world->gone_execs, 3);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 1);
    /* One that was of use is replaced once. */
    atomic_store(&f.world->gone_execs, 2);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
    assert_int_equal(o.row.reason, REASON_KERNEL_DIED);
    exec_outcome_done(&o);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_opens_take_what_is_there),
        T(test_a_lost_runtime_is_replaced_from_the_pool),
        T(test_many_processes_never_get_the_same),
        T(test_dead_ones_fall_back),
        T(test_the_sweep_replaces_dead_and_old_ones),
        T(test_one_start_at_a_time_and_pauses_after_a_failure),
        T(test_gently),
        T(test_channels_ahead_of_need),
        T(test_killed_after_the_claim),
        T(test_the_first_code_binds),
        T(test_killed_while_the_first_code_binds),
        T(test_killed_in_the_first_code_and_the_kernel_with_it),
        T(test_all_die_before_the_first_code),
        T(test_one_that_hangs_or_dies_before_its_first_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
