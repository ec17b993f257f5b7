/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/sql.h"
#include "store/turn_store.h"
#include "unit/store_fixture.h"

static enum execution_begin_outcome
begin(struct store_fixture *f, const struct execution_begin_args *a, struct execution *seen)
{
    enum execution_begin_outcome how;

    assert_int_equal(execution_store_begin(f->db, a, &how, seen, NULL), 0);
    return how;
}

static void
end(struct store_fixture *f, struct execution *row, enum exec_reason reason)
{
    row->reason = reason;
    row->ended_at = f->now.wall_ms;
    assert_int_equal(execution_store_finish(f->db, row, FINISH_TELLS_LOST, &f->now, NULL, NULL), 1);
}

static void
t_one_at_a_time_and_once(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), ticket;
    struct execution row, other, seen;
    struct execution_begin_args a, b;
    struct session s;

    a = store_fixture_exec_args(f, sid, "r1", &row);
    assert_int_equal(turn_store_enter(f->db, sid, 1, 1, 2, &f->now, &ticket, NULL), 1);
    a.ticket = ticket;
    a.key_id = "key";
    a.code = "print(1)";
    a.code_len = 8;
    assert_int_equal(begin(f, &a, &seen), EXECUTION_BEGIN_OK);
    assert_string_equal(store_fixture_state(f, sid), "busy");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM turns"), "0");
    assert_string_equal(store_fixture_ask(f, "SELECT code || key_id FROM executions"),
                        "print(1)key");
    b = store_fixture_exec_args(f, sid, "r1", &other);
    assert_int_equal(begin(f, &b, &seen), EXECUTION_BEGIN_DUPLICATE);
    assert_string_equal(seen.eid, row.eid);
    b = store_fixture_exec_args(f, sid, "r2", &other);
    assert_int_equal(begin(f, &b, &seen), EXECUTION_BEGIN_BUSY);

    store_fixture_pass(f, 3000);
    row.reason = REASON_EXCEPTION;
    row.ended_at = f->now.wall_ms;
    row.duration_ms = 3000;
    row.bytes_stdout = INT64_C(5000000000);
    row.truncated = true;
    (void)snprintf(row.error_name, sizeof(row.error_name), "ValueError");
    assert_int_equal(execution_store_finish(f->db, &row, FINISH_TELLS_LOST, &f->now, &s, NULL), 1);
    assert_int_equal(s.state, SESSION_READY);
    assert_true(s.last_work_boot_ms == f->now.boot_ms && !s.busy_execution[0]);
    session_done(&s);
    assert_int_equal(execution_store_finish(f->db, &row, FINISH_TELLS_LOST, &f->now, &s, NULL), 0);
    assert_int_equal(execution_store_get(f->db, "o", row.eid, &seen, NULL), 1);
    assert_int_equal(seen.reason, REASON_EXCEPTION);
    assert_true(seen.bytes_stdout == INT64_C(5000000000) && seen.truncated && !seen.ok);
    assert_string_equal(seen.error_name, "ValueError");
    assert_int_equal(execution_store_get(f->db, "p", row.eid, &seen, NULL), 0);
    assert_int_equal(execution_store_by_request(f->db, "o", "r1", &seen, NULL), 1);
    assert_int_equal(begin(f, &b, &seen), EXECUTION_BEGIN_OK);
}

static void
t_stale(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s");
    struct session_close_args c = {.sid = sid, .now = f->now};
    struct execution row, seen;
    struct execution_begin_args a = store_fixture_exec_args(f, sid, "r1", &row);

    row.generation = 2;
    assert_int_equal(begin(f, &a, &seen), EXECUTION_BEGIN_STALE);
    row.generation = 1;
    row.sid = 1;
    assert_int_equal(begin(f, &a, &seen), EXECUTION_BEGIN_STALE);
    row.sid = sid;
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(begin(f, &a, &seen), EXECUTION_BEGIN_STALE);
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM executions"), "0");
}

static void
t_idempotency(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), other = store_fixture_ready(f, "o", "t");
    struct execution row, again, seen;
    struct execution_begin_args a, b;
    enum execution_begin_outcome how;
    char body[65];

    a = store_fixture_exec_args(f, sid, "r1", &row);
    a.idempotency_key = "key";
    assert_int_equal(begin(f, &a, &seen), EXECUTION_BEGIN_OK);
    b = store_fixture_exec_args(f, sid, "r2", &again);
    b.idempotency_key = "key";
    assert_int_equal(begin(f, &b, &seen), EXECUTION_BEGIN_REPLAY);
    assert_string_equal(seen.eid, row.eid);
    memset(body, 'b', 64);
    body[64] = '\0';
    b.body_sha256 = body;
    assert_int_equal(begin(f, &b, &seen), EXECUTION_BEGIN_MISMATCH);
    assert_int_equal(execution_store_seen(f->db, "r9", "o", "s", "key", row.code_sha256, 3600000,
                                          &f->now, &how, &seen, NULL),
                     1);
    assert_int_equal(how, EXECUTION_BEGIN_REPLAY);
    assert_int_equal(execution_store_seen(f->db, "r1", "o", "s", NULL, NULL, 3600000, &f->now, &how,
                                          &seen, NULL),
                     1);
    assert_int_equal(how, EXECUTION_BEGIN_DUPLICATE);
    assert_int_equal(execution_store_seen(f->db, "r9", "o", "t", "key", NULL, 3600000, &f->now,
                                          &how, &seen, NULL),
                     0);

    b = store_fixture_exec_args(f, other, "r3", &again); /* another session's key */
    b.idempotency_key = "key";
    assert_int_equal(begin(f, &b, &seen), EXECUTION_BEGIN_OK);

    end(f, &row, REASON_COMPLETED);
    store_fixture_pass(f, 3600001); /* forgotten */
    b = store_fixture_exec_args(f, sid, "r4", &again);
    b.idempotency_key = "key";
    assert_int_equal(execution_store_seen(f->db, "r4", "o", "s", "key", row.code_sha256, 3600000,
                                          &f->now, &how, &seen, NULL),
                     0);
    assert_int_equal(begin(f, &b, &seen), EXECUTION_BEGIN_OK);
}

static void
t_ends_in_other_states(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s");
    struct runtime_drop_args d = {sid, 1, true, NULL, 1, f->now};
    struct session_close_args c = {.sid = sid, .now = f->now};
    struct execution row;
    struct execution_begin_args a = store_fixture_exec_args(f, sid, "r1", &row);
    struct session s;

    /* The kernel went: busy -> cold, and the loss is told once. */
    assert_int_equal(begin(f, &a, NULL), EXECUTION_BEGIN_OK);
    assert_int_equal(runtime_store_drop(f->db, &d, NULL), 1);
    assert_string_equal(store_fixture_state(f, sid), "busy");
    row.reason = REASON_KERNEL_DIED;
    row.ended_at = f->now.wall_ms;
    assert_int_equal(execution_store_finish(f->db, &row, FINISH_TELLS_LOST, &f->now, &s, NULL), 1);
    assert_true(s.state == SESSION_COLD && s.state_lost);
    session_done(&s);
    assert_int_equal(session_store_take_state_lost(f->db, sid, NULL), 0);

    /* Closing stays closing. */
    a = store_fixture_exec_args(f, sid, "r2", &row);
    assert_int_equal(begin(f, &a, NULL), EXECUTION_BEGIN_OK);
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(execution_store_abort(f->db, row.eid, &f->now, NULL), 1);
    assert_int_equal(execution_store_abort(f->db, row.eid, &f->now, NULL), 0);
    assert_string_equal(store_fixture_state(f, sid), "closing");
    assert_int_equal(session_store_by_sid(f->db, sid, &s, NULL), 1);
    assert_string_equal(s.busy_execution, "");
    session_done(&s);

    /* Whoever comes late changes nothing. */
    row.reason = REASON_COMPLETED;
    row.ended_at = f->now.wall_ms;
    assert_int_equal(execution_store_finish(f->db, &row, FINISH_TELLS_LOST, &f->now, NULL, NULL),
                     0);
}

static void
t_interrupts(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s");
    struct execution row;
    struct execution_begin_args a = store_fixture_exec_args(f, sid, "r1", &row);

    assert_int_equal(begin(f, &a, NULL), EXECUTION_BEGIN_OK);
    assert_int_equal(execution_store_interrupt_asked(f->db, row.eid, NULL), 0);
    assert_int_equal(execution_store_ask_interrupt(f->db, row.eid, NULL), 1);
    assert_int_equal(execution_store_interrupt_asked(f->db, row.eid, NULL), 1);
    end(f, &row, REASON_INTERRUPTED);
    assert_int_equal(execution_store_ask_interrupt(f->db, row.eid, NULL), 0);
}

static void
t_lists_and_pruning(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s");
    struct execution_query q = {.owner = "o", .session_name = "s", .limit = 3};
    struct execution *list;
    struct execution_id ids[8];
    char request[16];
    size_t n, total = 0;
    bool more = true;

    for (int i = 0; i < 7; i++) {
        struct execution row;
        struct execution_begin_args a;

        (void)snprintf(request, sizeof(request), "r%d", i);
        a = store_fixture_exec_args(f, sid, request, &row);
        assert_int_equal(begin(f, &a, NULL), EXECUTION_BEGIN_OK);
        end(f, &row, REASON_COMPLETED);
        if (i % 3 == 2)
            store_fixture_pass(f, 1000);
    }
    for (int page = 0; more; page++) {
        assert_int_equal(execution_store_list(f->db, &q, &list, &n, &more, NULL), 0);
        total += n;
        if (page == 0)
            assert_string_equal(list[0].request_id, "r6");
        if (n) {
            static char after[ID_UUID_SIZE];

            q.after_created = list[n - 1].created_at;
            memcpy(after, list[n - 1].eid, sizeof(after));
            q.after_eid = after;
        }
        free(list);
        assert_true(page < 4);
    }
    assert_int_equal(total, 7);
    assert_int_equal(execution_store_old_spools(f->db, f->now.wall_ms - 1000, ids, 2, NULL), 2);
    assert_int_equal(execution_store_old_spools(f->db, f->now.wall_ms - 1000, ids, 2, NULL), 2);
    assert_int_equal(execution_store_prune(f->db, f->now.wall_ms + 1, 8, NULL), 0); /* lead to it */
    assert_int_equal(execution_store_spools_removed(f->db, ids, 2, NULL), 0);
    assert_int_equal(execution_store_old_spools(f->db, f->now.wall_ms + 1, ids, 8, NULL), 5);
    assert_int_equal(execution_store_spools_removed(f->db, ids, 5, NULL), 0);
    assert_int_equal(execution_store_old_spools(f->db, f->now.wall_ms + 1, ids, 8, NULL), 0);
    assert_int_equal(execution_store_prune(f->db, f->now.wall_ms + 1, 5, NULL), 5);
    assert_int_equal(execution_store_prune(f->db, f->now.wall_ms + 1, 5, NULL), 2);
}

static void
t_strays_are_found(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s");
    struct execution row, seen;
    struct execution_begin_args a = store_fixture_exec_args(f, sid, "r1", &row);
    struct execution_id ids[2];

    assert_int_equal(execution_store_unfinished(f->db, false, ids, 2, NULL), 0);
    assert_int_equal(begin(f, &a, NULL), EXECUTION_BEGIN_OK);
    assert_int_equal(execution_store_unfinished(f->db, true, ids, 2, NULL), 0);
    assert_int_equal(execution_store_unfinished(f->db, false, ids, 2, NULL), 1);
    assert_string_equal(ids[0].eid, row.eid);
    end(f, &row, REASON_COMPLETED);
    a = store_fixture_exec_args(f, sid, "r2", &row);
    assert_int_equal(begin(f, &a, NULL), EXECUTION_BEGIN_OK);
    assert_int_equal(
        sql_run(f->db, NULL, "UPDATE sessions SET state = 'ready', busy_execution = NULL", ""), 1);
    assert_int_equal(execution_store_unfinished(f->db, true, ids, 2, NULL), 1);
    assert_int_equal(execution_store_abort(f->db, ids[0].eid, &f->now, NULL), 1);
    assert_int_equal(execution_store_get(f->db, NULL, row.eid, &seen, NULL), 1);
    assert_int_equal(seen.reason, REASON_ABORTED);
    assert_int_equal(execution_store_unfinished(f->db, false, ids, 2, NULL), 0);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_one_at_a_time_and_once), T(t_stale),      T(t_idempotency),
        T(t_ends_in_other_states),   T(t_interrupts), T(t_lists_and_pruning),
        T(t_strays_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
