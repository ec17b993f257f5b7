/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "manager/internal.h"
#include "store/sql.h"

FIXTURE_SESSION(f, "")

static bool
none_left(struct fixture *x)
{
    return fixture_sql(x, "SELECT count(*) FROM sessions") == 0;
}

static bool
held(struct fixture *x)
{
    struct session s = {0};
    const struct caller bob = fixture_caller("ann");
    struct err err = ERR_INIT;
    bool busy;

    if (manager_get(x->m, &bob, "s", false, &s, &err) < 0)
        return false;
    busy = s.state == SESSION_BUSY;
    session_done(&s);
    return busy;
}

static void
test_idle_one_goes_at_once(void **state)
{
    struct session s = {0};
    bool deferred = true;

    (void)state;
    assert_null(fixture_close(&f, f.m, "s", &deferred));
    assert_false(deferred);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_true(none_left(&f));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history WHERE reason='closed'"),
                     1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM workspaces"), 0);
    assert_string_equal(fixture_close(&f, f.m, "s", &deferred), "session_not_found");
    assert_null(fixture_open(&f, f.m, "s", &s, NULL));
    assert_false(s.files_kept);
    session_done(&s);
}

static void
test_another_owners_is_not_there(void **state)
{
    bool deferred;

    (void)state;
    f.ann = fixture_caller("bob");
    assert_string_equal(fixture_close(&f, f.m, "s", &deferred), "session_not_found");
    f.ann.admin = true;
    assert_null(fixture_close(&f, f.m, "s", &deferred));
}

static void
test_busy_one_is_deferred(void **state)
{
    struct child c;
    struct session s = {0};
    struct file_lease l;
    struct err err = ERR_INIT;
    bool deferred = false;

    (void)state;
    c = fixture_spawn(&f, "exec", "s", "sleep 800");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_true(fixture_until(held, &f));
    assert_null(fixture_close(&f, f.m, "s", &deferred));
    assert_true(deferred);
    deferred = false;
    assert_null(fixture_close(&f, f.m, "s", &deferred));
    assert_true(deferred);
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &s, &err), 0);
    assert_int_equal(s.state, SESSION_CLOSING);
    session_done(&s);
    assert_string_equal(fixture_open(&f, f.m, "s", NULL, NULL), "session_closing");
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 1", NULL), "session_closing");
    assert_int_equal(manager_files_begin(f.m, &f.ann, "s", &l, &err), -1);
    assert_string_equal(err.slug, "session_closing");
    assert_int_equal(manager_patch(f.m, &f.ann, "s", true, 5000, NULL, &s, &err), -1);
    /* The work ran to its end, and whoever did it carried the close out. */
    assert_int_equal(fixture_wait(&c, NULL, 0), 0);
    assert_true(none_left(&f));
    assert_int_equal(fake_count(f.kernels), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason='completed'"),
                     1);
}

static bool
one_waits(struct fixture *x)
{
    return fixture_sql(x, "SELECT count(*) FROM turns") == 1;
}

static void
test_waiters_are_refused_when_it_closes(void **state)
{
    struct child a, b;
    char out[64];

    (void)state;
    a = fixture_spawn(&f, "exec", "s", "sleep 3000");
    assert_true(fixture_until(fixture_one_runs, &f));
    b = fixture_spawn(&f, "exec", "s", "print 1");
    assert_true(fixture_until(one_waits, &f));
    assert_null(fixture_close(&f, f.m, "s", NULL));
    assert_int_equal(fixture_wait(&b, out, sizeof out), 1);
    assert_string_equal(out, "error session_closing\n");
    assert_int_equal(fixture_wait(&a, NULL, 0), 0);
    assert_true(fixture_until(none_left, &f));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM turns"), 0);
}

static void
test_two_holders_one_close(void **state)
{
    struct child c[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        c[i] = fixture_spawn(&f, "files", "s", "600");
    (void)poll(NULL, 0, 300);
    assert_null(fixture_close(&f, f.m, "s", NULL));
    for (int i = 0; i < 6; i++)
        (void)fixture_wait(&c[i], NULL, 0);
    assert_true(fixture_until(none_left, &f));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history"), 1);
    assert_int_equal(atomic_load(&f.world->closes), 1);
}

static void
test_two_closes_at_once(void **state)
{
    struct child c[4];
    char out[64];
    int done = 0;

    (void)state;
    for (int i = 0; i < 4; i++)
        c[i] = fixture_spawn(&f, "close", "s", NULL);
    for (int i = 0; i < 4; i++) {
        (void)fixture_wait(&c[i], out, sizeof out);
        done += strcmp(out, "done\n") == 0;
        assert_true(strcmp(out, "done\n") == 0 || strcmp(out, "deferred\n") == 0 ||
                    strcmp(out, "error session_not_found\n") == 0);
    }
    assert_true(done >= 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history"), 1);
}

static void
test_killed_holder_leaves_the_close_to_the_reaper(void **state)
{
    struct child c;
    struct sweep_report r;
    struct err err = ERR_INIT;

    (void)state;
    c = fixture_spawn(&f, "exec", "s", "sleep 20000");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_true(fixture_until(held, &f));
    assert_null(fixture_close(&f, f.m, "s", NULL));
    (void)kill(c.pid, SIGKILL);
    (void)fixture_wait(&c, NULL, 0);
    assert_int_equal(manager_sweep(f.m, deadline_in(5000), &r, &err), 0);
    assert_int_equal(r.closed, 1);
    assert_true(none_left(&f));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason='aborted'"), 1);
}

static void
test_gateway_down(void **state)
{
    bool deferred = true;

    (void)state;
    atomic_store(&f.world->fail_closes, -1);
    assert_null(fixture_close(&f, f.m, "s", &deferred));
    assert_false(deferred);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE state='quarantined'"), 1);
    assert_string_equal(fixture_open(&f, f.m, "s", NULL, NULL), "runtime_quarantined");
    atomic_store(&f.world->fail_closes, 0);
    assert_null(fixture_open(&f, f.m, "s", NULL, NULL));
    assert_int_equal(fake_count(f.kernels), 1);
}

static bool
opening(struct fixture *x)
{
    return fixture_sql(x, "SELECT count(*) FROM sessions WHERE state='opening'") == 1;
}

static void
test_close_while_it_opens(void **state)
{
    struct child c;
    char out[64];
    bool deferred = false;

    (void)state;
    atomic_store(&f.world->open_ms, 600);
    c = fixture_spawn(&f, "open", "o", NULL);
    assert_true(fixture_until(opening, &f));
    assert_null(fixture_close(&f, f.m, "o", &deferred));
    assert_true(deferred);
    assert_int_equal(fixture_wait(&c, out, sizeof out), 1);
    assert_string_equal(out, "error session_closing\n");
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE name='o'"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 1);
    assert_int_equal(fake_count(f.kernels), 1);
}

static void
test_expired_one_is_gone_while_it_closes(void **state)
{
    struct manager *reaper = fixture_other(&f);
    struct session s = {0};
    struct err err = ERR_INIT;
    int64_t sid = fixture_sql(&f, "SELECT sid FROM sessions");
    struct child c;

    (void)state;
    assert_int_equal(lock_try_exclusive(reaper->lock_fd, sid), 1);
    (void)fixture_sql(&f, "UPDATE sessions SET state='closing', close_reason='expired'");
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &s, &err), -1);
    assert_string_equal(err.slug, "session_not_found");
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 1", NULL), "session_not_found");
    assert_string_equal(fixture_close(&f, f.m, "s", NULL), "session_not_found");
    /* An open of that name waits for the end and is a new one. */
    c = fixture_spawn(&f, "open", "s", NULL);
    (void)poll(NULL, 0, 200);
    assert_int_equal(lock_release(reaper->lock_fd, sid), 0);
    assert_int_equal(fixture_wait(&c, NULL, 0), 0);
    assert_true(fixture_sql(&f, "SELECT sid FROM sessions") != sid);
    assert_int_equal(fake_count(f.kernels), 1);
    manager_free(reaper);
}

static void
test_a_close_that_cannot_be_finished_is_left_to_the_reaper(void **state)
{
    struct sweep_report r;
    struct err err = ERR_INIT;
    bool deferred = false;

    (void)state;
    assert_int_equal(sqlite3_exec(f.m->db->handle,
                                  "CREATE TEMP TRIGGER stuck BEFORE DELETE ON sessions"
                                  " BEGIN SELECT RAISE(ABORT, 'stuck'); END",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_null(fixture_close(&f, f.m, "s", &deferred));
    assert_true(deferred);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state = 'closing'"), 1);
    assert_int_equal(sqlite3_exec(f.m->db->handle, "DROP TRIGGER stuck", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(manager_sweep(f.m, deadline_in(5000), &r, &err), 0);
    assert_int_equal(r.closed, 1);
    assert_true(none_left(&f));
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_idle_one_goes_at_once),
        T(test_another_owners_is_not_there),
        T(test_busy_one_is_deferred),
        T(test_waiters_are_refused_when_it_closes),
        T(test_two_holders_one_close),
        T(test_two_closes_at_once),
        T(test_killed_holder_leaves_the_close_to_the_reaper),
        T(test_gateway_down),
        T(test_close_while_it_opens),
        T(test_expired_one_is_gone_while_it_closes),
        T(test_a_close_that_cannot_be_finished_is_left_to_the_reaper),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
