/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "manager/internal.h"

FIXTURE(f)
FIXTURE_SWEEP(f)

static void
test_one_at_a_time(void **state)
{
    struct manager *other = fixture_other(&f);

    (void)state;
    assert_int_equal(lock_try_exclusive(other->lock_fd, LOCK_SWEEP), 1);
    assert_false(sweep().ran);
    assert_int_equal(lock_release(other->lock_fd, LOCK_SWEEP), 0);
    assert_true(sweep().ran);
    manager_free(other);
}

static void
test_expired_ones_end(void **state)
{
    (void)state;
    fixture_restart_with(&f, "ttl=1000");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    assert_int_equal(sweep().expired, 0);
    (void)poll(NULL, 0, 1100);
    assert_int_equal(sweep().expired, 2);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM workspaces WHERE state='kept'"), 2);
    assert_int_equal(fixture_sql(&f, "SELECT swept_at > 0 FROM clock"), 1);
}

static void
test_dead_holders_are_found(void **state)
{
    struct child c;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    c = fixture_spawn(&f, "exec", "a", "sleep 20000");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_int_equal(sweep().aborted, 0);
    (void)kill(c.pid, SIGKILL);
    (void)fixture_wait(&c, NULL, 0);
    assert_int_equal(sweep().aborted, 1);
    assert_int_equal(atomic_load(&f.world->interrupts), 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state='ready'"), 1);
    assert_int_equal(sweep().aborted, 0);
}

static bool
opening(struct fixture *x)
{
    return fixture_sql(x, "SELECT count(*) FROM sessions WHERE state='opening'") == 1;
}

static void
test_dead_openers_are_undone(void **state)
{
    struct child c;

    (void)state;
    atomic_store(&f.world->open_ms, 8000);
    c = fixture_spawn(&f, "open", "k", NULL);
    assert_true(fixture_until(opening, &f));
    assert_int_equal(sweep().opening_undone, 0);
    (void)kill(c.pid, SIGKILL);
    (void)fixture_wait(&c, NULL, 0);
    assert_int_equal(sweep().opening_undone, 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE sid IS NOT NULL"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history"), 0);
}

static void
test_quarantined_ones_are_retried(void **state)
{
    struct sweep_report r;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    atomic_store(&f.world->fail_closes, -1);
    assert_null(fixture_close(&f, f.m, "a", NULL));
    (void)fixture_sql(&f, "UPDATE runtimes SET next_try_boot_ms=0");
    r = sweep();
    assert_int_equal(r.quarantine_tried, 1);
    assert_int_equal(r.quarantine_ended, 0);
    assert_int_equal(sweep().quarantine_tried, 0); /* not due again yet */
    atomic_store(&f.world->fail_closes, 0);
    (void)fixture_sql(&f, "UPDATE runtimes SET next_try_boot_ms=0");
    r = sweep();
    assert_int_equal(r.quarantine_ended, 1);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 0);
}

static void
test_orphans_end_when_they_are_old(void **state)
{
    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    fake_stray(f.kernels, "stray");
    assert_int_equal(sweep().orphans, 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM orphans"), 1);
    (void)fixture_sql(&f, "UPDATE orphans SET first_seen_boot_ms=first_seen_boot_ms-3600000");
    assert_int_equal(sweep().orphans, 1);
    assert_int_equal(fake_count(f.kernels), 1); /* that of the session */
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM orphans"), 0);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL));
}

static void
test_kept_workspaces_end(void **state)
{
    (void)state;
    fixture_restart_with(&f, "ttl=1000");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    (void)poll(NULL, 0, 1100);
    assert_int_equal(sweep().expired, 1);
    assert_int_equal(sweep().workspaces_removed, 0);
    (void)fixture_sql(&f, "UPDATE workspaces SET kept_since=1");
    assert_int_equal(sweep().workspaces_removed, 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM workspaces"), 0);
}

/* Opens, writes a file of so many KiB, and lets the session expire. */
static void
leave_files(const char *name, int kib)
{
    char path[PATH_MAX + 64];
    struct session s = {0};
    FILE *fp;

    assert_null(fixture_open(&f, f.m, name, &s, NULL));
    (void)snprintf(path, sizeof path, "%s/%016llx/big", f.workspaces,
                   (unsigned long long)s.workspace_id);
    session_done(&s);
    fp = fopen(path, "w");
    assert_non_null(fp);
    for (int i = 0; i < kib; i++)
        (void)fprintf(fp, "%01024d", i);
    (void)fclose(fp);
    (void)fixture_sql(&f, "UPDATE sessions SET last_work_boot_ms = 0, ttl_ms = 0");
}

static void
test_kept_workspaces_are_bounded(void **state)
{
    struct manager_stats st;
    struct err err = ERR_INIT;
    struct session s = {0};

    (void)state;
    leave_files("a", 64);
    assert_int_equal(sweep().expired, 1);
    leave_files("b", 32);
    assert_int_equal(sweep().expired, 1);
    assert_int_equal(manager_stats(f.m, &st, &err), 0);
    assert_true(st.workspaces_kept == 2 && st.workspaces_kept_bytes >= 96 * 1024);
    assert_null(fixture_open(&f, f.m, "live", NULL, NULL));
    f.o.workspaces_max_bytes = 64 * 1024;
    fixture_restart(&f);
    assert_int_equal(sweep().workspaces_removed, 1); /* the one kept longest */
    assert_int_equal(sweep().workspaces_removed, 0);
    assert_int_equal(manager_stats(f.m, &st, &err), 0);
    assert_true(st.workspaces_kept == 1 && st.workspaces_dropped == 1 && st.workspaces == 2);
    assert_null(fixture_open(&f, f.m, "a", &s, NULL));
    assert_false(s.files_kept);
    session_done(&s);
    assert_null(fixture_open(&f, f.m, "b", &s, NULL));
    assert_true(s.files_kept);
    session_done(&s);
}

static void
test_retention(void **state)
{
    struct exec_outcome o;
    struct sweep_report r;
    char path[PATH_MAX + 64];

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
    (void)snprintf(path, sizeof path, "%s/%s.events", f.spool, o.row.eid);
    exec_outcome_done(&o);
    assert_null(fixture_close(&f, f.m, "a", NULL));
    r = sweep();
    assert_int_equal(r.spools_removed + r.history_removed, 0);
    assert_int_equal(access(path, F_OK), 0);
    f.o.events_retention_ms = f.o.idempotency_retention_ms = -1000;
    fixture_restart(&f);
    assert_int_equal(sweep().spools_removed, 1);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions"), 1);
    f.o.history_retention_ms = -1000;
    fixture_restart(&f);
    assert_int_equal(sweep().history_removed, 2);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history"), 0);
}

static void
test_stats(void **state)
{
    struct manager_stats st;
    struct err err = ERR_INIT;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL));
    (void)sweep();
    assert_int_equal(manager_stats(f.m, &st, &err), 0);
    assert_int_equal(st.sessions[SESSION_READY], 1);
    assert_int_equal(st.runtimes_live, 1);
    assert_int_equal(st.executions_by_reason[REASON_COMPLETED], 1);
    assert_int_equal(st.workspaces, 1);
    assert_true(st.db_bytes > 0);
    assert_true(st.last_sweep_at > 0);
    assert_int_equal(manager_ready(f.m, deadline_in(1000), &err), 0);
}

#define REAPERS 3

/* Calls at the very end of the TTL, with reapers at it: each runs normally or was never begun. */
static void
test_reaper_against_callers(void **state)
{
    (void)state;
    fixture_restart_with(&f, "ttl=1000");
    for (int i = 0; i < 4; i++) {
        struct child reapers[REAPERS], c[4];
        char out[64];

        assert_null(fixture_open(&f, f.m, "edge", NULL, NULL));
        (void)poll(NULL, 0, 985);
        for (int j = 0; j < 4; j++)
            c[j] = fixture_spawn(&f, "exec", "edge", "print 1");
        for (int j = 0; j < REAPERS; j++)
            reapers[j] = fixture_spawn(&f, "sweep", NULL, NULL);
        for (int j = 0; j < 4; j++) {
            int rc = fixture_wait(&c[j], out, sizeof out);

            if (rc == 0)
                assert_string_equal(out, "completed 0 1\n");
            else
                assert_true(strstr(out, "session_not_found") || strstr(out, "session_closing") ||
                            strstr(out, "session_busy"));
        }
        for (int j = 0; j < REAPERS; j++)
            assert_int_equal(fixture_wait(&reapers[j], NULL, 0), 0);
    }
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason IS NULL"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), fake_count(f.kernels));
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_one_at_a_time),
        T(test_expired_ones_end),
        T(test_dead_holders_are_found),
        T(test_dead_openers_are_undone),
        T(test_quarantined_ones_are_retried),
        T(test_orphans_end_when_they_are_old),
        T(test_kept_workspaces_end),
        T(test_kept_workspaces_are_bounded),
        T(test_retention),
        T(test_stats),
        T(test_reaper_against_callers),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
