/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

FIXTURE(f)

static int
entries(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    for (e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static void
test_new_and_reused(void **state)
{
    struct session a = {0}, b = {0};
    bool created = false;

    (void)state;
    assert_null(fixture_open(&f, f.m, "one", &a, &created));
    assert_true(created);
    assert_int_equal(a.state, SESSION_READY);
    assert_string_equal(a.name, "one");
    assert_int_equal(a.ttl_ms, 60000);
    assert_true(a.expires_at > a.created_at);
    assert_false(a.files_kept);
    assert_null(fixture_open(&f, f.m, "one", &b, &created));
    assert_false(created);
    assert_string_equal(a.handle, b.handle);
    assert_true(a.sid == b.sid);
    assert_int_equal(atomic_load(&f.world->opens), 1);
    assert_int_equal(atomic_load(&f.world->binds), 1);
    session_done(&a);
    session_done(&b);
}

static struct session
open_ttl(bool has_ttl, int64_t ttl_ms)
{
    const struct open_request r = {.binding = BIND_SESSION,
                                   .value = "t",
                                   .value_len = 1,
                                   .has_ttl = has_ttl,
                                   .ttl_ms = ttl_ms};
    struct session s = {0};
    bool created;
    struct err err = ERR_INIT;

    assert_int_equal(manager_open(f.m, &f.ann, &r, NULL, deadline_in(5000), &s, &created, &err), 0);
    return s;
}

static void
test_ttl(void **state)
{
    const struct {
        bool has;
        int64_t asked, expected;
    } rows[] = {{true, 5000, 5000},         /* a new one takes it */
                {true, 9000, 9000},         /* reuse extends */
                {true, 2000, 9000},         /* and never shrinks */
                {false, 0, 9000},           /* nor does an open that names none */
                {true, 10, 9000},           /* clamped up to a second */
                {true, -1, 60000},          /* the default */
                {true, INT64_MAX, 600000}}; /* clamped to the maximum */

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct session s = open_ttl(rows[i].has, rows[i].asked);

        assert_int_equal(s.ttl_ms, rows[i].expected);
        session_done(&s);
    }
}

static void
test_owners_do_not_meet(void **state)
{
    struct session a = {0}, b = {0};

    (void)state;
    assert_null(fixture_open(&f, f.m, "same", &a, NULL));
    f.ann = fixture_caller("bob");
    assert_null(fixture_open(&f, f.m, "same", &b, NULL));
    assert_string_not_equal(a.handle, b.handle);
    assert_true(a.sid != b.sid);
    session_done(&a);
    session_done(&b);
}

static void
test_failed_open_leaves_nothing(void **state)
{
    (void)state;
    atomic_store(&f.world->fail_opens, 1);
    assert_string_equal(fixture_open(&f, f.m, "x", NULL, NULL), "start_failed");
    atomic_store(&f.world->fail_binds, 1);
    assert_non_null(fixture_open(&f, f.m, "x", NULL, NULL));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM workspaces"), 0);
    assert_int_equal(entries(f.workspaces), 0);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_null(fixture_open(&f, f.m, "x", NULL, NULL));
}

static void
test_unknown_backend(void **state)
{
    const struct open_request r = {
        .binding = BIND_SESSION, .value = "x", .value_len = 1, .backend = "nonesuch"};
    struct session s = {0};
    bool created;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(manager_open(f.m, &f.ann, &r, NULL, deadline_in(5000), &s, &created, &err),
                     -1);
    assert_string_equal(err.slug, "unknown_backend");
}

static void
test_uncertain_open_is_quarantined(void **state)
{
    (void)state;
    atomic_store(&f.world->uncertain_opens, 1);
    atomic_store(&f.world->fail_closes, -1);
    assert_string_equal(fixture_open(&f, f.m, "q", NULL, NULL), "start_failed");
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE state='quarantined'"), 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
    /* Another id opens, this one fails closed until the end is confirmed. */
    assert_null(fixture_open(&f, f.m, "other", NULL, NULL));
    assert_string_equal(fixture_open(&f, f.m, "q", NULL, NULL), "runtime_quarantined");
    atomic_store(&f.world->fail_closes, 0);
    assert_null(fixture_open(&f, f.m, "q", NULL, NULL));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE state='quarantined'"), 0);
    assert_int_equal(fake_count(f.kernels), 2);
}

#define PARALLEL 32

static void
test_parallel_opens_share_one(void **state)
{
    struct child c[PARALLEL];
    char first[128] = "", out[128];
    int created = 0;

    (void)state;
    atomic_store(&f.world->open_ms, 300);
    for (int i = 0; i < PARALLEL; i++)
        c[i] = fixture_spawn(&f, "open", "same", NULL);
    for (int i = 0; i < PARALLEL; i++) {
        assert_int_equal(fixture_wait(&c[i], out, sizeof out), 0);
        created += strncmp(out, "new ", 4) == 0;
        if (!first[0])
            memcpy(first, out + 4, sizeof first - 4);
        assert_string_equal(first, out + 4);
    }
    assert_int_equal(created, 1);
    assert_int_equal(atomic_load(&f.world->opens), 1);
    assert_int_equal(fake_count(f.kernels), 1);
    assert_int_equal(entries(f.workspaces), 1);
}

static void
test_parallel_opens_with_a_failing_start(void **state)
{
    struct child c[8];
    int failed = 0;

    (void)state;
    atomic_store(&f.world->open_ms, 100);
    atomic_store(&f.world->fail_opens, 1);
    for (int i = 0; i < 8; i++)
        c[i] = fixture_spawn(&f, "open", "same", NULL);
    for (int i = 0; i < 8; i++)
        failed += fixture_wait(&c[i], NULL, 0) != 0;
    assert_int_equal(failed, 1);
    assert_int_equal(fake_count(f.kernels), 1);
}

#define CAP 10
#define CROWD 60

static void
test_cap_holds_in_a_crowd(void **state)
{
    struct child c[CROWD];
    char id[16], out[128];
    int opened = 0;

    (void)state;
    fixture_restart_with(&f, "sessions=10 per_owner=10");
    atomic_store(&f.world->open_ms, 10);
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(id, sizeof id, "s%d", i);
        c[i] = fixture_spawn(&f, "open", id, NULL);
    }
    for (int i = 0; i < CROWD; i++) {
        int rc = fixture_wait(&c[i], out, sizeof out);

        opened += rc == 0;
        if (rc != 0)
            assert_non_null(strstr(out, "session_limit"));
    }
    assert_true(opened >= CAP);
    assert_true(atomic_load(&f.world->most_living) <= CAP);
    assert_int_equal(fake_count(f.kernels), CAP);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), CAP);
}

/* Many that open one session at the cap share it, and one other gives way. */
static void
test_parallel_opens_evict_one(void **state)
{
    struct child c[8];
    int created = 0;

    (void)state;
    fixture_restart_with(&f, "sessions=3 per_owner=3");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    assert_null(fixture_open(&f, f.m, "c", NULL, NULL));
    atomic_store(&f.world->close_ms, 200);
    atomic_store(&f.world->open_ms, 100);
    for (int i = 0; i < 8; i++)
        c[i] = fixture_spawn(&f, "open", "same", NULL);
    for (int i = 0; i < 8; i++) {
        char out[128];

        assert_int_equal(fixture_wait(&c[i], out, sizeof out), 0);
        created += strncmp(out, "new ", 4) == 0;
    }
    assert_int_equal(created, 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history"), 1);
    assert_int_equal(fake_count(f.kernels), 3);
}

static bool
two_run(struct fixture *x)
{
    return atomic_load(&x->world->running) == 2;
}

static void
test_busy_ones_are_not_evicted(void **state)
{
    struct child a, b;
    struct caller bob = fixture_caller("bob");

    (void)state;
    fixture_restart_with(&f, "sessions=2 per_owner=2");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    a = fixture_spawn(&f, "exec", "a", "sleep 5000");
    b = fixture_spawn(&f, "exec", "b", "sleep 5000");
    assert_true(fixture_until(two_run, &f));
    assert_string_equal(fixture_open(&f, f.m, "c", NULL, NULL), "owner_session_limit");
    /* Nor does another owner evict anybody. */
    f.ann = bob;
    assert_string_equal(fixture_open(&f, f.m, "c", NULL, NULL), "session_limit");
    f.ann = fixture_caller("ann");
    (void)kill(a.pid, SIGKILL);
    (void)kill(b.pid, SIGKILL);
    (void)fixture_wait(&a, NULL, 0);
    (void)fixture_wait(&b, NULL, 0);
}

static void
test_eviction_takes_the_least_recently_used(void **state)
{
    struct session s = {0};
    struct err err = ERR_INIT;

    (void)state;
    fixture_restart_with(&f, "sessions=2 per_owner=2");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    (void)poll(NULL, 0, 5);
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    (void)poll(NULL, 0, 5);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL));
    assert_null(fixture_open(&f, f.m, "c", NULL, NULL));
    assert_int_equal(manager_get(f.m, &f.ann, "b", false, &s, &err), -1);
    assert_int_equal(manager_get(f.m, &f.ann, "a", false, &s, &err), 0);
    session_done(&s);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history WHERE reason='evicted'"),
                     1);
    assert_int_equal(fake_count(f.kernels), 2);
    /* Its files are kept. */
    assert_null(fixture_open(&f, f.m, "b", &s, NULL));
    assert_true(s.files_kept);
    session_done(&s);
}

static void
test_eviction_must_be_confirmed(void **state)
{
    (void)state;
    fixture_restart_with(&f, "sessions=1 per_owner=1");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    atomic_store(&f.world->fail_closes, -1);
    assert_string_equal(fixture_open(&f, f.m, "b", NULL, NULL), "gateway_unavailable");
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE state='quarantined'"), 1);
    assert_int_equal(atomic_load(&f.world->most_living), 1);
}

static void
test_expired_is_gone_before_the_reaper(void **state)
{
    struct session a = {0}, b = {0};
    struct err err = ERR_INIT;
    bool created = false;

    (void)state;
    fixture_restart_with(&f, "ttl=1000");
    assert_null(fixture_open(&f, f.m, "e", &a, NULL));
    (void)poll(NULL, 0, 1100);
    assert_int_equal(manager_get(f.m, &f.ann, "e", false, &b, &err), -1);
    assert_string_equal(err.slug, "session_not_found");
    assert_string_equal(fixture_exec(&f, f.m, "e", "print 1", NULL), "session_not_found");
    assert_null(fixture_open(&f, f.m, "e", &b, &created));
    assert_true(created);
    assert_true(b.files_kept);
    assert_string_not_equal(a.handle, b.handle);
    assert_int_equal(fake_count(f.kernels), 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history WHERE reason='expired'"),
                     1);
    session_done(&a);
    session_done(&b);
}

static bool
opening(struct fixture *x)
{
    return fixture_sql(x, "SELECT count(*) FROM sessions WHERE state='opening'") == 1;
}

static void
test_killed_opener_is_undone(void **state)
{
    struct child c;
    bool created = false;

    (void)state;
    atomic_store(&f.world->open_ms, 5000);
    c = fixture_spawn(&f, "open", "k", NULL);
    assert_true(fixture_until(opening, &f));
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(fixture_wait(&c, NULL, 0), 1000 + SIGKILL);
    atomic_store(&f.world->open_ms, 0);
    assert_null(fixture_open(&f, f.m, "k", NULL, &created));
    assert_true(created);
    /* Of the start that was cut off nobody knows the end: it counts until the sweep has looked. */
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE sid IS NOT NULL"), 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 2);
    assert_int_equal(entries(f.workspaces), 1);
}

static void
test_reboot_makes_cold(void **state)
{
    struct session s = {0};
    struct exec_outcome o;
    struct err err = ERR_INIT;

    (void)state;
    assert_null(fixture_open(&f, f.m, "r", NULL, NULL));
    (void)fixture_sql(&f, "UPDATE sessions SET boot_id='before', last_work_boot_ms=1");
    (void)fixture_sql(&f, "UPDATE clock SET boot_id='before'");
    fixture_restart(&f);
    assert_int_equal(manager_get(f.m, &f.ann, "r", false, &s, &err), 0);
    assert_int_equal(s.state, SESSION_COLD);
    session_done(&s);
    assert_null(fixture_exec(&f, f.m, "r", "print 1", &o));
    assert_true(o.session.state_lost);
    assert_int_equal(o.session.state, SESSION_READY);
    exec_outcome_done(&o);
    assert_int_equal(fake_count(f.kernels), 1);
}

static bool
gone(void *ctx)
{
    (void)ctx;
    return true;
}

static void
test_waiting_open_ends_with_its_caller(void **state)
{
    const struct open_request r = {.binding = BIND_SESSION, .value = "w", .value_len = 1};
    const struct watch watch = {.gone = gone};
    struct session s = {0};
    bool created;
    struct err err = ERR_INIT;
    struct child c;

    (void)state;
    atomic_store(&f.world->open_ms, 1500);
    c = fixture_spawn(&f, "open", "w", NULL);
    assert_true(fixture_until(opening, &f));
    assert_int_equal(manager_open(f.m, &f.ann, &r, &watch, deadline_in(5000), &s, &created, &err),
                     -1);
    assert_int_equal(err.code, ERR_ABORTED);
    assert_int_equal(manager_open(f.m, &f.ann, &r, NULL, deadline_in(100), &s, &created, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    assert_int_equal(fixture_wait(&c, NULL, 0), 0);
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_new_and_reused),
        T(test_ttl),
        T(test_owners_do_not_meet),
        T(test_failed_open_leaves_nothing),
        T(test_unknown_backend),
        T(test_uncertain_open_is_quarantined),
        T(test_parallel_opens_share_one),
        T(test_parallel_opens_with_a_failing_start),
        T(test_cap_holds_in_a_crowd),
        T(test_parallel_opens_evict_one),
        T(test_busy_ones_are_not_evicted),
        T(test_eviction_takes_the_least_recently_used),
        T(test_eviction_must_be_confirmed),
        T(test_expired_is_gone_before_the_reaper),
        T(test_killed_opener_is_undone),
        T(test_reboot_makes_cold),
        T(test_waiting_open_ends_with_its_caller),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
