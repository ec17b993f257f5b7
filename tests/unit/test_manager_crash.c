/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "manager/internal.h"
#include "spool/spool.h"

/* Processes killed at chosen lines, and runtimes that went without anybody's doing: what is left is
 * put in order, nothing acknowledged is lost, and the cap stays honest all the while. */

FIXTURE(f)
FIXTURE_SWEEP(f)

static void
dies(const char *verb, const char *a, const char *b)
{
    struct child c = fixture_spawn(&f, verb, a, b);

    assert_int_equal(fixture_wait(&c, NULL, 0), 1000 + SIGKILL);
}

/* Between the gateway's answer and the row. */
static void
test_a_start_that_was_not_noted_counts_until_it_is_ended(void **state)
{
    (void)state;
    fixture_restart_with(&f, "sessions=1 per_owner=1");
    atomic_store(&f.world->die_at, FAKE_DIES_STARTED);
    dies("open", "a", NULL);
    assert_int_equal(fake_count(f.kernels), 1);
    assert_int_equal(sweep().opening_undone, 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM orphans"), 1);
    /* There is one kernel at a cap of one, whoever knows it. */
    assert_string_equal(fixture_open(&f, f.m, "b", NULL, NULL), "owner_session_limit");
    (void)fixture_sql(&f, "UPDATE runtimes SET created_at = created_at - 40000");
    (void)sweep();
    assert_string_equal(fixture_open(&f, f.m, "b", NULL, NULL), "owner_session_limit");
    (void)fixture_sql(&f, "UPDATE orphans SET first_seen_boot_ms = first_seen_boot_ms - 40000");
    assert_int_equal(sweep().orphans, 1);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 0);
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    assert_int_equal(atomic_load(&f.world->most_living), 1);
}

static void
test_a_start_without_an_answer_counts_the_same(void **state)
{
    (void)state;
    fixture_restart_with(&f, "sessions=1 per_owner=1");
    atomic_store(&f.world->unanswered_opens, 1);
    assert_string_equal(fixture_open(&f, f.m, "a", NULL, NULL), "gateway_unavailable");
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
    assert_string_equal(fixture_open(&f, f.m, "a", NULL, NULL), "owner_session_limit");
    /* It turns out that none was started: the place is free again once that is plain. */
    (void)sweep();
    assert_string_equal(fixture_open(&f, f.m, "a", NULL, NULL), "owner_session_limit");
    fake_kill_all(f.kernels);
    (void)fixture_sql(&f, "UPDATE runtimes SET created_at = created_at - 40000");
    atomic_store(&f.world->fail_lists, 1);
    (void)sweep();
    assert_string_equal(fixture_open(&f, f.m, "a", NULL, NULL), "owner_session_limit");
    (void)sweep();
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
}

static void
test_a_new_runtime_that_was_not_noted(void **state)
{
    (void)state;
    fixture_restart_with(&f, "sessions=2 per_owner=2");
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_exec(&f, f.m, "a", "die", NULL));
    atomic_store(&f.world->die_at, FAKE_DIES_STARTED);
    dies("exec", "a", "print 1");
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE state = 'starting'"), 1);
    assert_int_equal(sweep().starts_undone, 1);
    assert_int_equal(sweep().starts_undone, 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state = 'cold'"), 1);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL));
    assert_int_equal(fake_count(f.kernels), 2);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 2);
}

static void
test_killed_in_mid_close(void **state)
{
    const enum fake_death at[] = {FAKE_DIES_CLOSING, FAKE_DIES_CLOSED};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct session s = {0};
        struct err err = ERR_INIT;

        assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
        atomic_store(&f.world->die_at, at[i]);
        dies("close", "a", NULL);
        assert_int_equal(fake_count(f.kernels), i == 0);
        assert_int_equal(manager_get(f.m, &f.ann, "a", false, &s, &err), 0);
        assert_int_equal(s.state, SESSION_CLOSING);
        session_done(&s);
        assert_int_equal(sweep().closed, 1);
        assert_int_equal(fake_count(f.kernels), 0);
        assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
        assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 0);
        assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM workspaces"), 0);
        assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM session_history"), i + 1);
    }
}

static void
read_file(const char *name, char *out, size_t size, size_t *ret_entries)
{
    struct file_lease l;
    struct file_list list;
    struct file_info info;
    struct err err = ERR_INIT;
    const struct file_query all = {.recursive = true, .max_entries = 100};
    ssize_t n;
    int fd = -1;

    assert_int_equal(manager_files_begin(f.m, &f.ann, "a", &l, &err), 0);
    assert_int_equal(manager_file_open(f.m, &l, name, strlen(name), &fd, &info, &err), 0);
    n = read(fd, out, size - 1);
    assert_true(n >= 0);
    out[n] = '\0';
    (void)close(fd);
    assert_int_equal(manager_file_list(f.m, &l, &all, deadline_in(5000), &list, &err), 0);
    *ret_entries = list.n;
    file_list_done(&list);
    manager_files_end(f.m, &l, false);
}

static void
test_killed_in_mid_upload(void **state)
{
    struct session s = {0};
    struct child c;
    char path[PATH_MAX + 64], left[PATH_MAX + 128], text[32];
    size_t entries = 0;
    FILE *fp;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", &s, NULL));
    (void)snprintf(path, sizeof path, "%s/%016llx/f", f.workspaces,
                   (unsigned long long)s.workspace_id);
    session_done(&s);
    fp = fopen(path, "w");
    assert_non_null(fp);
    (void)fputs("old", fp);
    (void)fclose(fp);
    /* As if it had been killed while the file had its hidden name. */
    (void)snprintf(left, sizeof left, "%.*s.husk-0123456789abcdef", (int)strlen(path) - 1, path);
    fp = fopen(left, "w");
    assert_non_null(fp);
    (void)fclose(fp);
    c = fixture_spawn(&f, "put", "a", "f");
    assert_int_equal(read(c.out, text, 5), 5);
    assert_memory_equal(text, "half\n", 5);
    assert_int_equal(sweep().traces_followed, 0); /* it is at work */
    assert_int_equal(access(left, F_OK), 0);
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(fixture_wait(&c, NULL, 0), 1000 + SIGKILL);
    read_file("f", text, sizeof text, &entries);
    assert_string_equal(text, "old");
    assert_int_equal(entries, 1);
    assert_int_equal(sweep().traces_followed, 1);
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(sweep().traces_followed, 0);
    /* Nor does the hold of the dead process stay. */
    assert_null(fixture_close(&f, f.m, "a", NULL));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
}

static bool
is_rendering(struct fixture *x)
{
    return atomic_load(&x->world->hold_render) == 2;
}

static void
eid_of_running(char out[64])
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;

    assert_int_equal(sqlite3_open_v2(f.db, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT eid FROM executions WHERE reason IS NULL", -1, &st, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    (void)snprintf(out, 64, "%s", (const char *)sqlite3_column_text(st, 0));
    (void)sqlite3_finalize(st);
    (void)sqlite3_close(db);
}

/* How often a follower has been given the result. */
static int
results_seen(const char *eid)
{
    struct spool_reader *r = NULL;
    struct exec_event ev;
    struct err err = ERR_INIT;
    int64_t seq;
    int n = 0;

    assert_int_equal(spool_open(f.spool, eid, 0, &r, &err), 0);
    while (spool_next(r, &ev, &seq, &err) == 1)
        n += ev.type == EVENT_RESULT;
    spool_reader_free(r);
    return n;
}

/* Before the spool has its end: nobody has seen a result, and the run is called aborted. */
static void
test_killed_before_the_result(void **state)
{
    struct child c;
    char eid[64];

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    atomic_store(&f.world->hold_render, 1);
    c = fixture_spawn(&f, "exec", "a", "print 1");
    assert_true(fixture_until(is_rendering, &f));
    eid_of_running(eid);
    assert_int_equal(results_seen(eid), 0);
    (void)kill(c.pid, SIGKILL);
    (void)fixture_wait(&c, NULL, 0);
    assert_int_equal(sweep().aborted, 1);
    assert_int_equal(results_seen(eid), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason = 'aborted'"),
                     1);
}

/* Between the result in the spool and the execution's row, which a writer of the database is kept
 * from writing meanwhile. */
static void
kill_between_result_and_row(const char *code, char eid[64])
{
    sqlite3 *db = NULL;
    struct deadline d = deadline_in(5000);
    struct child c;

    atomic_store(&f.world->hold_render, 1);
    c = fixture_spawn(&f, "exec", "a", code);
    assert_true(fixture_until(is_rendering, &f));
    eid_of_running(eid);
    assert_int_equal(sqlite3_open_v2(f.db, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    atomic_store(&f.world->hold_render, 0);
    while (results_seen(eid) == 0 && !deadline_passed(d))
        (void)poll(NULL, 0, 2);
    assert_int_equal(results_seen(eid), 1);
    (void)kill(c.pid, SIGKILL);
    (void)fixture_wait(&c, NULL, 0);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason IS NULL"), 1);
}

static void
test_killed_between_result_and_row(void **state)
{
    struct execution e;
    struct err err = ERR_INIT;
    char eid[64];

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    (void)fixture_sql(&f, "UPDATE sessions SET state_lost = 1");
    kill_between_result_and_row("print 1", eid);
    assert_int_equal(sweep().aborted, 1);
    assert_int_equal(manager_execution_get(f.m, &f.ann, eid, &e, &err), 0);
    assert_int_equal(e.reason, REASON_COMPLETED);
    assert_true(e.ok);
    assert_int_equal(e.bytes_stdout, 1);
    assert_true(e.ended_at >= e.started_at);
    /* The run was over: nothing is interrupted. That state was lost stood in the result. */
    assert_int_equal(atomic_load(&f.world->interrupts), 0);
    assert_int_equal(fixture_sql(&f, "SELECT state_lost FROM sessions"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state = 'ready'"), 1);
}

static void
test_whoever_settles_takes_the_result(void **state)
{
    struct execution e;
    struct err err = ERR_INIT;
    char eid[64];

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    kill_between_result_and_row("error", eid); /* whoever asks for it */
    assert_int_equal(manager_execution_get(f.m, &f.ann, eid, &e, &err), 0);
    assert_int_equal(manager_execution_settle(f.m, &e, &err), 0);
    assert_int_equal(e.reason, REASON_EXCEPTION);
    assert_string_equal(e.error_name, "ValueError");
    kill_between_result_and_row("error", eid); /* whoever runs something next */
    assert_null(fixture_exec(&f, f.m, "a", "print 2", NULL));
    kill_between_result_and_row("error", eid); /* whoever closes the session */
    assert_null(fixture_close(&f, f.m, "a", NULL));
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason = 'exception'"),
                     3);
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    kill_between_result_and_row("error", eid); /* whoever starts after the machine */
    (void)fixture_sql(&f, "UPDATE sessions SET boot_id = 'before'");
    (void)fixture_sql(&f, "UPDATE clock SET boot_id = 'before'");
    fixture_restart(&f);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason = 'exception'"),
                     4);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state = 'cold'"), 1);
}

/* The gateway was restarted, and nobody uses the session. */
static void
test_sessions_without_runtime_turn_cold(void **state)
{
    struct exec_outcome o;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    assert_int_equal(sweep().lost, 0);
    fake_kill_all(f.kernels);
    assert_int_equal(sweep().lost, 2);
    assert_int_equal(sweep().lost, 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state = 'cold'"), 2);
    for (int i = 0; i < 2; i++) {
        assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
        assert_int_equal(o.session.state_lost, i == 0);
        assert_int_equal(o.session.generation, 2);
        exec_outcome_done(&o);
    }
    assert_int_equal(sweep().lost, 0);
}

static void
test_nothing_is_concluded_from_a_wrong_list(void **state)
{
    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    atomic_store(&f.world->cut_lists, 1); /* empty although it lives */
    assert_int_equal(sweep().lost, 0);
    fake_kill_all(f.kernels);
    atomic_store(&f.world->fail_lists, 1);
    assert_int_equal(sweep().lost, 0);
    atomic_store(&f.world->fail_alives, 1);
    assert_int_equal(sweep().lost, 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE state = 'live'"), 1);
    assert_int_equal(sweep().lost, 1);
}

static void
test_the_loss_in_a_used_session_is_left_to_its_user(void **state)
{
    struct manager *other = fixture_other(&f);
    struct session s = {0};

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", &s, NULL));
    assert_int_equal(lock_try_shared(other->lock_fd, s.sid), 1);
    fake_kill_all(f.kernels);
    assert_int_equal(sweep().lost, 0);
    assert_int_equal(lock_release(other->lock_fd, s.sid), 0);
    assert_int_equal(sweep().lost, 1);
    session_done(&s);
    manager_free(other);
}

/* An outage puts off the next try; when the gateway answers again, what went with it is gone. */
static void
test_quarantined_ones_end_with_the_outage(void **state)
{
    (void)state;
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
    atomic_store(&f.world->fail_closes, -1);
    assert_null(fixture_close(&f, f.m, "b", NULL));
    /* However often somebody asks for the name meanwhile, the sweep's next try stays where it is.
     */
    for (int i = 0; i < 5; i++)
        assert_string_equal(fixture_open(&f, f.m, "b", NULL, NULL), "runtime_quarantined");
    assert_int_equal(fixture_sql(&f, "SELECT tries FROM runtimes"), 0);
    assert_int_equal(sweep().quarantine_ended, 0); /* it lives: its next try is not due */
    (void)fixture_sql(&f, "UPDATE runtimes SET next_try_boot_ms = next_try_boot_ms + 300000");
    fake_kill_all(f.kernels);
    atomic_store(&f.world->fail_lists, 1);
    assert_int_equal(sweep().quarantine_ended, 0);
    assert_int_equal(sweep().quarantine_ended, 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 0);
    assert_null(fixture_open(&f, f.m, "b", NULL, NULL));
}

static bool
asked(void *ctx)
{
    return ++*(int *)ctx > 3;
}

static void
test_a_sweep_ends_when_it_is_asked_to(void **state)
{
    char name[] = "a";
    int looks = 0;

    (void)state;
    for (; name[0] < 'i'; name[0]++)
        assert_null(fixture_open(&f, f.m, name, NULL, NULL));
    fake_kill_all(f.kernels);
    (void)fixture_sql(&f, "UPDATE sessions SET last_work_boot_ms = 0, ttl_ms = 1");
    f.o.stopping = asked;
    f.o.ctx = &looks;
    fixture_restart(&f);
    assert_in_range(sweep().expired, 1, 4);
    f.o.stopping = NULL;
    fixture_restart(&f);
    assert_true(sweep().expired >= 4);
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_start_that_was_not_noted_counts_until_it_is_ended),
        T(test_a_start_without_an_answer_counts_the_same),
        T(test_a_new_runtime_that_was_not_noted),
        T(test_killed_in_mid_close),
        T(test_killed_in_mid_upload),
        T(test_killed_before_the_result),
        T(test_killed_between_result_and_row),
        T(test_whoever_settles_takes_the_result),
        T(test_sessions_without_runtime_turn_cold),
        T(test_nothing_is_concluded_from_a_wrong_list),
        T(test_the_loss_in_a_used_session_is_left_to_its_user),
        T(test_quarantined_ones_end_with_the_outage),
        T(test_a_sweep_ends_when_it_is_asked_to),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
