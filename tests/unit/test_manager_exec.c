/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "manager/internal.h"
#include "spool/spool.h"
#include "store/sql.h"

FIXTURE_SESSION(f, "")

static int64_t
waiting(struct fixture *x)
{
    return fixture_sql(x, "SELECT count(*) FROM turns");
}

static bool
one_waits(struct fixture *x)
{
    return waiting(x) == 1;
}

static bool
two_wait(struct fixture *x)
{
    return waiting(x) == 2;
}

static void
test_runs_and_is_recorded(void **state)
{
    struct exec_outcome o;
    struct execution e;
    struct execution *list = NULL;
    struct err err = ERR_INIT;
    size_t n = 0;
    bool more = true;

    (void)state;
    assert_null(fixture_exec(&f, f.m, "s", "print 7", &o));
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    assert_true(o.row.ok);
    assert_false(o.replayed);
    assert_string_equal(o.result.out, "7");
    assert_int_equal(o.row.bytes_stdout, 1);
    assert_int_equal(o.session.state, SESSION_READY);
    assert_string_equal(o.session.busy_execution, "");
    assert_false(o.session.state_lost);
    assert_true(o.session.expires_at > 0);
    assert_int_equal(manager_execution_get(f.m, &f.ann, o.row.eid, &e, &err), 0);
    assert_int_equal(e.reason, REASON_COMPLETED);
    assert_string_equal(e.session_name, "s");
    assert_int_equal(strlen(e.code_sha256), 64);
    assert_true(e.ended_at >= e.started_at && e.started_at >= e.created_at);
    assert_int_equal(manager_execution_by_request(f.m, &f.ann, e.request_id, &e, &err), 0);
    assert_string_equal(e.eid, o.row.eid);
    assert_int_equal(manager_executions(f.m, &f.ann, "s", 0, NULL, 10, &list, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_false(more);
    free(list);
    f.ann = fixture_caller("bob");
    assert_int_equal(manager_execution_get(f.m, &f.ann, o.row.eid, &e, &err), -1);
    assert_string_equal(err.slug, "execution_not_found");
    assert_int_equal(manager_executions(f.m, &f.ann, "s", 0, NULL, 10, &list, &n, &more, &err), -1);
    exec_outcome_done(&o);
}

static void
test_spool_holds_events_and_result(void **state)
{
    const enum exec_event_type expected[] = {EVENT_EXECUTION, EVENT_STDOUT, EVENT_RESULT};
    struct exec_outcome o;
    struct spool_reader *r = NULL;
    struct exec_event ev;
    struct buf whole = BUF_INIT(4096);
    struct err err = ERR_INIT;
    int64_t seq = 0;

    (void)state;
    assert_null(fixture_exec(&f, f.m, "s", "print 7", &o));
    assert_int_equal(spool_open(f.spool, o.row.eid, 0, &r, &err), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(spool_next(r, &ev, &seq, &err), 1);
        assert_int_equal(ev.type, expected[i]);
        assert_int_equal(seq, i + 1);
    }
    assert_int_equal(spool_next(r, &ev, &seq, &err), 2);
    spool_reader_free(r);
    assert_int_equal(spool_get_result(f.spool, o.row.eid, &whole, &err), 0);
    assert_non_null(strstr(buf_str(&whole), "\"full\":1"));
    buf_done(&whole);
    exec_outcome_done(&o);
}

static void
test_exception(void **state)
{
    struct exec_outcome o;

    (void)state;
    assert_null(fixture_exec(&f, f.m, "s", "error", &o));
    assert_int_equal(o.row.reason, REASON_EXCEPTION);
    assert_string_equal(o.row.error_name, "ValueError");
    assert_false(o.row.ok);
    exec_outcome_done(&o);
}

static void
test_loss_is_told_once(void **state)
{
    struct session s = {0};
    struct exec_outcome o;
    struct err err = ERR_INIT;
    char before[HANDLE_MAX + 1];

    (void)state;
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &s, &err), 0);
    memcpy(before, s.handle, sizeof before);
    session_done(&s);
    fake_kill(f.kernels, before);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    assert_true(o.session.state_lost);
    assert_string_not_equal(o.session.handle, before);
    assert_int_equal(o.session.generation, 2);
    exec_outcome_done(&o);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 1);
    assert_int_equal(atomic_load(&f.world->execs), 2);
}

static void
test_death_in_a_run_is_told_with_the_next(void **state)
{
    struct session s = {0};
    struct exec_outcome o;
    struct err err = ERR_INIT;

    (void)state;
    assert_null(fixture_exec(&f, f.m, "s", "die", &o));
    assert_int_equal(o.row.reason, REASON_KERNEL_DIED);
    assert_true(o.row.runtime_invalidated);
    assert_int_equal(o.session.state, SESSION_COLD);
    exec_outcome_done(&o);
    assert_int_equal(fake_count(f.kernels), 0);
    assert_int_equal(manager_get(f.m, &f.ann, "s", true, &s, &err), 0);
    assert_true(s.state_lost);
    session_done(&s);
    assert_int_equal(manager_get(f.m, &f.ann, "s", true, &s, &err), 0);
    assert_false(s.state_lost);
    session_done(&s);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_false(o.session.state_lost);
    assert_int_equal(o.session.state, SESSION_READY);
    exec_outcome_done(&o);
}

static void
test_gateway_lost_before_sending(void **state)
{
    struct exec_outcome o;

    (void)state;
    atomic_store(&f.world->fail_execs, 1);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_int_equal(o.row.reason, REASON_GATEWAY_LOST);
    assert_int_equal(o.result.exit_code, -1);
    exec_outcome_done(&o);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", NULL));
}

/* What an earlier run left there keeps all other code out: it is interrupted, and ended where it
 * does not heed that. */
static void
test_a_runtime_that_is_held_up(void **state)
{
    struct exec_outcome o;

    (void)state;
    assert_null(fixture_exec(&f, f.m, "s", "print 1", NULL));
    atomic_store(&f.world->silent_execs, 1);
    assert_null(fixture_exec(&f, f.m, "s", "print 2", &o));
    assert_int_equal(o.row.reason, REASON_TIMEOUT);
    assert_false(o.result.runtime_invalidated);
    exec_outcome_done(&o);
    assert_int_equal(atomic_load(&f.world->interrupts), 1);
    assert_int_equal(atomic_load(&f.world->closes), 0);

    atomic_store(&f.world->silent_execs, 1);
    atomic_store(&f.world->stubborn, 1);
    assert_null(fixture_exec(&f, f.m, "s", "print 3", &o));
    assert_int_equal(o.row.reason, REASON_TIMEOUT);
    assert_true(o.result.runtime_invalidated);
    exec_outcome_done(&o);
    assert_int_equal(atomic_load(&f.world->closes), 1);
    assert_null(fixture_exec(&f, f.m, "s", "print 4", &o));
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    assert_true(o.session.state_lost);
    exec_outcome_done(&o);
}

static void
test_cold_start_that_fails_runs_nothing(void **state)
{
    (void)state;
    assert_null(fixture_exec(&f, f.m, "s", "die", NULL));
    atomic_store(&f.world->fail_opens, 1);
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 1", NULL), "start_failed");
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions"), 1);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", NULL));
}

static int
exec_with(const char *code, const char *request_id, const char *key, struct exec_outcome *o,
          struct err *err)
{
    const struct exec_callbacks cb = {.ctx = NULL};
    const struct execution_request q = {.code = code,
                                        .code_len = strlen(code),
                                        .timeout_ms = 1000,
                                        .request_id = request_id,
                                        .idempotency_key = key};

    return manager_exec(f.m, &f.ann, "s", &q, &cb, o, err);
}

static void
test_same_request_is_refused(void **state)
{
    struct exec_outcome o;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(exec_with("print 1", "r1", NULL, &o, &err), 0);
    exec_outcome_done(&o);
    assert_int_equal(exec_with("print 1", "r1", NULL, &o, &err), -1);
    assert_string_equal(err.slug, "duplicate_request");
    assert_int_equal(atomic_load(&f.world->execs), 1);
}

static void
test_idempotency_key(void **state)
{
    struct exec_outcome o;
    struct err err = ERR_INIT;
    char eid[ID_UUID_SIZE];

    (void)state;
    assert_int_equal(exec_with("print 1", "r1", "key", &o, &err), 0);
    assert_false(o.replayed);
    memcpy(eid, o.row.eid, sizeof eid);
    exec_outcome_done(&o);
    assert_int_equal(exec_with("print 1", "r2", "key", &o, &err), 0);
    assert_true(o.replayed);
    assert_string_equal(o.row.eid, eid);
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    exec_outcome_done(&o);
    assert_int_equal(exec_with("print 2", "r3", "key", &o, &err), -1);
    assert_string_equal(err.slug, "idempotency_mismatch");
    assert_int_equal(atomic_load(&f.world->execs), 1);
    /* Also when the session is gone since. */
    assert_null(fixture_close(&f, f.m, "s", NULL));
    assert_int_equal(exec_with("print 1", "r4", "key", &o, &err), 0);
    assert_true(o.replayed);
    assert_string_equal(o.session.name, "s");
    exec_outcome_done(&o);
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 1", NULL), "session_not_found");
}

static void
test_turns_come_first_served(void **state)
{
    struct child c[3];
    int left = 3;

    (void)state;
    c[0] = fixture_spawn(&f, "exec", "s", "sleep 600");
    assert_true(fixture_until(fixture_one_runs, &f));
    c[1] = fixture_spawn(&f, "exec", "s", "print 1");
    assert_true(fixture_until(one_waits, &f));
    c[2] = fixture_spawn(&f, "exec", "s", "print 2");
    assert_true(fixture_until(two_wait, &f));
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 3", NULL), "session_busy");
    while (left-- > 0)
        assert_int_equal(fixture_wait(&c[left], NULL, 0), 0);
    assert_int_equal(atomic_load(&f.world->order_n), 2);
    assert_int_equal(atomic_load(&f.world->order[0]), 1);
    assert_int_equal(atomic_load(&f.world->order[1]), 2);
    assert_int_equal(atomic_load(&f.world->most_running), 1);
    assert_int_equal(waiting(&f), 0);
}

static int
no_worker(void *ctx)
{
    (void)ctx;
    return 1;
}

static void
test_no_waiting_without_free_workers(void **state)
{
    struct child c;

    (void)state;
    f.o.free_exec_workers = no_worker;
    fixture_restart(&f);
    c = fixture_spawn(&f, "exec", "s", "sleep 500");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 1", NULL), "session_busy");
    assert_int_equal(fixture_wait(&c, NULL, 0), 0);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", NULL));
}

static void
test_a_dead_waiter_holds_nobody_up(void **state)
{
    struct child a, b;

    (void)state;
    a = fixture_spawn(&f, "exec", "s", "sleep 400");
    assert_true(fixture_until(fixture_one_runs, &f));
    b = fixture_spawn(&f, "exec", "s", "print 1");
    assert_true(fixture_until(one_waits, &f));
    (void)kill(b.pid, SIGKILL);
    (void)fixture_wait(&b, NULL, 0);
    assert_null(fixture_exec(&f, f.m, "s", "print 2", NULL));
    assert_int_equal(fixture_wait(&a, NULL, 0), 0);
    assert_int_equal(waiting(&f), 0);
    assert_int_equal(atomic_load(&f.world->order[0]), 2);
}

static void
test_a_turn_is_waited_for_so_long_only(void **state)
{
    struct child c;

    (void)state;
    fixture_restart_with(&f, "turn_wait=100");
    c = fixture_spawn(&f, "exec", "s", "sleep 1000");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 1", NULL), "session_busy");
    assert_int_equal(waiting(&f), 0);
    assert_int_equal(fixture_wait(&c, NULL, 0), 0);
}

static void
test_killed_executor_is_aborted(void **state)
{
    struct exec_outcome o;
    struct child c;
    struct session s = {0};
    struct execution e;
    struct err err = ERR_INIT;
    char eid[ID_UUID_SIZE];

    (void)state;
    c = fixture_spawn(&f, "exec", "s", "sleep 20000");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &s, &err), 0);
    assert_int_equal(s.state, SESSION_BUSY);
    assert_int_equal(s.expires_at, 0);
    memcpy(eid, s.busy_execution, sizeof eid);
    session_done(&s);
    (void)kill(c.pid, SIGKILL);
    (void)fixture_wait(&c, NULL, 0);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    exec_outcome_done(&o);
    assert_int_equal(atomic_load(&f.world->interrupts), 1);
    assert_int_equal(manager_execution_get(f.m, &f.ann, eid, &e, &err), 0);
    assert_int_equal(e.reason, REASON_ABORTED);
}

static void
test_settle(void **state)
{
    struct child c;
    struct session s = {0};
    struct execution e;
    struct err err = ERR_INIT;

    (void)state;
    c = fixture_spawn(&f, "exec", "s", "sleep 20000");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &s, &err), 0);
    assert_int_equal(manager_execution_get(f.m, &f.ann, s.busy_execution, &e, &err), 0);
    session_done(&s);
    assert_int_equal(manager_execution_settle(f.m, &e, &err), 0);
    assert_int_equal(e.reason, REASON_NONE);
    (void)kill(c.pid, SIGKILL);
    (void)fixture_wait(&c, NULL, 0);
    assert_int_equal(manager_execution_settle(f.m, &e, &err), 0);
    assert_int_equal(e.reason, REASON_ABORTED);
}

static void
test_interrupt(void **state)
{
    struct child c;
    char out[64];
    bool running = true;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(manager_interrupt(f.m, &f.ann, "s", deadline_in(1000), &running, &err), 0);
    assert_false(running);
    c = fixture_spawn(&f, "exec", "s", "sleep 20000");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_int_equal(manager_interrupt(f.m, &f.ann, "s", deadline_in(1000), &running, &err), 0);
    assert_true(running);
    assert_int_equal(fixture_wait(&c, out, sizeof out), 0);
    assert_string_equal(out, "interrupted 0 \n");
}

static enum hook_verdict
leave(void *ctx)
{
    int *n = ctx;

    return ++*n > 3 ? HOOK_CLIENT_GONE : HOOK_GO_ON;
}

static void
test_a_caller_that_leaves(void **state)
{
    int n = 0;
    const struct exec_callbacks cb = {.ctx = &n, .tick = leave};
    struct execution_request q = {
        .code = "sleep 300", .code_len = 9, .timeout_ms = 1000, .request_id = "a"};
    struct exec_outcome o;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(manager_exec(f.m, &f.ann, "s", &q, &cb, &o, &err), 0);
    assert_int_equal(o.row.reason, REASON_CLIENT_GONE);
    exec_outcome_done(&o);
    n = 0;
    q.request_id = "b";
    q.on_disconnect = DISCONNECT_CONTINUE;
    assert_int_equal(manager_exec(f.m, &f.ann, "s", &q, &cb, &o, &err), 0);
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    exec_outcome_done(&o);
}

static void
test_restart(void **state)
{
    struct session a = {0}, b = {0};
    struct exec_outcome o;
    struct child c;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &a, &err), 0);
    assert_int_equal(manager_restart(f.m, &f.ann, "s", NULL, deadline_in(5000), &b, &err), 0);
    assert_string_not_equal(a.handle, b.handle);
    assert_int_equal(b.generation, 2);
    assert_false(b.state_lost);
    session_done(&a);
    session_done(&b);
    assert_int_equal(fake_count(f.kernels), 1);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    c = fixture_spawn(&f, "exec", "s", "sleep 500");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_int_equal(manager_restart(f.m, &f.ann, "s", NULL, deadline_in(5000), &b, &err), -1);
    assert_string_equal(err.slug, "session_busy");
    assert_non_null(strstr(err.msg, "runs since"));
    assert_int_equal(fixture_wait(&c, NULL, 0), 0);
}

static void
test_idle_clock_from_the_end_of_work(void **state)
{
    int64_t began;

    (void)state;
    assert_null(fixture_open(&f, f.m, "idle", NULL, NULL));
    began = clock_boot_ms();
    assert_null(fixture_exec(&f, f.m, "idle", "mute 300", NULL));
    assert_true(fixture_sql(&f, "SELECT last_work_boot_ms FROM sessions WHERE name = 'idle'") >=
                began + 300);
}

/* An SQL function that says for so many calls that the disk is full. */
static void
fail_full(sqlite3_context *c, int n, sqlite3_value **values)
{
    int *left = sqlite3_user_data(c);

    (void)n;
    (void)values;
    if (*left == 0)
        return;
    --*left;
    sqlite3_result_error_code(c, SQLITE_FULL);
}

static void
test_the_end_is_recorded_when_the_disk_has_room_again(void **state)
{
    int left = 3;
    struct exec_outcome o;

    (void)state;
    assert_int_equal(sqlite3_create_function(f.m->db->handle, "fail_full", 0,
                                             SQLITE_UTF8 | SQLITE_INNOCUOUS, &left, fail_full, NULL,
                                             NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(f.m->db->handle,
                                  "CREATE TEMP TRIGGER full BEFORE UPDATE OF reason ON executions"
                                  " BEGIN SELECT fail_full(); END",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_null(fixture_exec(&f, f.m, "s", "print 7", &o));
    assert_int_equal(left, 0);
    assert_int_equal(o.row.reason, REASON_COMPLETED);
    assert_int_equal(o.session.state, SESSION_READY);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason = 'completed'"),
                     1);
    exec_outcome_done(&o);
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_runs_and_is_recorded),
        T(test_spool_holds_events_and_result),
        T(test_exception),
        T(test_loss_is_told_once),
        T(test_death_in_a_run_is_told_with_the_next),
        T(test_gateway_lost_before_sending),
        T(test_a_runtime_that_is_held_up),
        T(test_cold_start_that_fails_runs_nothing),
        T(test_same_request_is_refused),
        T(test_idempotency_key),
        T(test_turns_come_first_served),
        T(test_no_waiting_without_free_workers),
        T(test_a_dead_waiter_holds_nobody_up),
        T(test_a_turn_is_waited_for_so_long_only),
        T(test_killed_executor_is_aborted),
        T(test_settle),
        T(test_interrupt),
        T(test_a_caller_that_leaves),
        T(test_restart),
        T(test_idle_clock_from_the_end_of_work),
        T(test_the_end_is_recorded_when_the_disk_has_room_again),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
