/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/turn_store.h"
#include "store/workspace_store.h"
#include "unit/store_fixture.h"

static void
t_open_is_idempotent_by_owner_and_name(void **state)
{
    struct store_fixture *f = *state;
    int64_t a, b, c;

    assert_int_equal(store_fixture_open(f, "o", "s", &a), SESSION_OPEN_NEW);
    assert_int_equal(store_fixture_open(f, "o", "s", &b), SESSION_OPEN_EXISTING);
    assert_true(a == b);
    assert_int_equal(store_fixture_open(f, "p", "s", &c), SESSION_OPEN_NEW);
    assert_true(a != c);
    assert_string_equal(store_fixture_state(f, a), "opening");
    assert_int_equal(session_store_opened(f->db, a, 2, "k", "", &f->now, NULL), 0);
    assert_int_equal(session_store_opened(f->db, a, 1, "k", "ks", &f->now, NULL), 1);
    assert_int_equal(session_store_opened(f->db, a, 1, "k", "ks", &f->now, NULL), 0);
    assert_string_equal(store_fixture_state(f, a), "ready");

    struct session s;
    assert_int_equal(session_store_find(f->db, "o", "s", &s, NULL), 1);
    assert_string_equal(s.handle, "k");
    assert_string_equal(s.kernel_session, "ks");
    assert_string_equal(s.labels, "{}");
    assert_int_equal(s.binding, BIND_SESSION);
    assert_string_equal(s.binding_value, "s");
    assert_int_equal(s.generation, 1);
    session_done(&s);
    assert_int_equal(session_store_find(f->db, "o", "none", &s, NULL), 0);
    assert_int_equal(session_store_find_any_owner(f->db, "s", &s, NULL), 0);
    (void)store_fixture_ready(f, "o", "only");
    assert_int_equal(session_store_find_any_owner(f->db, "only", &s, NULL), 1);
    session_done(&s);
}

static void
t_reuse_extends_and_never_shrinks(void **state)
{
    struct store_fixture *f = *state;
    struct session_open_args a;
    enum session_open_outcome how;
    struct session s;

    (void)store_fixture_ready(f, "o", "s");
    store_fixture_pass(f, 50000);
    a = store_fixture_open_args(f, "o", "s");
    a.has_ttl = true;
    a.ttl_ms = 10;
    a.labels = "{\"a\":\"b\"}";
    assert_int_equal(session_store_open(f->db, &a, &how, &s, NULL), 0);
    assert_int_equal(how, SESSION_OPEN_EXISTING);
    assert_int_equal(s.ttl_ms, 60000);
    assert_string_equal(s.labels, "{\"a\":\"b\"}");
    assert_true(s.last_work_boot_ms == f->now.boot_ms);
    session_done(&s);
    a.ttl_ms = 90000;
    a.labels = NULL;
    assert_int_equal(session_store_open(f->db, &a, &how, &s, NULL), 0);
    assert_int_equal(s.ttl_ms, 90000);
    assert_string_equal(s.labels, "{\"a\":\"b\"}");
    assert_int_equal(session_store_patch(f->db, s.sid, 5, "{}", NULL, NULL), 1);
    session_done(&s);
    assert_int_equal(session_store_find(f->db, "o", "s", &s, NULL), 1);
    assert_int_equal(s.ttl_ms, 5);
    assert_string_equal(s.labels, "{}");
    session_done(&s);
    assert_int_equal(session_store_patch(f->db, 1, 5, NULL, NULL, NULL), 0);
}

static void
t_expiry_is_by_the_boot_clock(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), found[4];
    struct session_close_args c = {.sid = sid, .why = SESSION_END_EXPIRED, .only_if_expired = true};

    f->now.wall_ms += 10000000; /* a step of the wall clock expires nothing */
    assert_int_equal(session_store_expired(f->db, &f->now, found, 4, NULL), 0);
    f->now.boot_ms += 59999;
    c.now = f->now;
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 0);
    f->now.boot_ms += 1;
    assert_int_equal(session_store_expired(f->db, &f->now, found, 4, NULL), 1);
    assert_true(found[0] == sid);
    assert_int_equal(store_fixture_open(f, "o", "s", NULL), SESSION_OPEN_EXPIRED);
    c.now = f->now;
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(store_fixture_open(f, "o", "s", NULL), SESSION_OPEN_CLOSING);
    assert_int_equal(session_store_expired(f->db, &f->now, found, 4, NULL), 0);
    assert_int_equal(session_store_in_state(f->db, SESSION_CLOSING, 0, found, 4, NULL), 1);
    assert_int_equal(session_store_in_state(f->db, SESSION_CLOSING, sid, found, 4, NULL), 0);
}

static void
t_a_held_one_is_live_whatever_the_clock_says(void **state)
{
    struct store_fixture *f = *state;
    struct session_open_args a;
    enum session_open_outcome how;
    struct session s;

    (void)store_fixture_ready(f, "o", "s");
    store_fixture_pass(f, 70000);
    a = store_fixture_open_args(f, "o", "s");
    a.ignore_expiry = true;
    assert_int_equal(session_store_open(f->db, &a, &how, &s, NULL), 0);
    assert_int_equal(how, SESSION_OPEN_EXISTING);
    session_done(&s);
    assert_int_equal(store_fixture_open(f, "o", "s", NULL), SESSION_OPEN_EXISTING);
}

static void
t_caps_count_runtimes(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid, lru[4];

    sid = store_fixture_ready(f, "o", "s1");
    store_fixture_pass(f, 10);
    (void)store_fixture_ready(f, "o", "s2");
    (void)store_fixture_open(f, "o", "s3", NULL); /* opening ones count */
    assert_int_equal(store_fixture_open(f, "o", "s4", NULL), SESSION_OPEN_OWNER_FULL);
    assert_int_equal(store_fixture_open(f, "o", "s1", NULL), SESSION_OPEN_EXISTING);
    assert_int_equal(store_fixture_open(f, "p", "s1", NULL), SESSION_OPEN_NEW);
    assert_int_equal(store_fixture_open(f, "p", "s2", NULL), SESSION_OPEN_NEW);
    assert_int_equal(store_fixture_open(f, "q", "s", NULL), SESSION_OPEN_FULL);
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM sessions WHERE owner = 'q'"),
                        "0");
    assert_int_equal(session_store_touch(f->db, sid, &f->now, NULL, NULL), 1);
    assert_int_equal(session_store_idle_lru(f->db, "o", NULL, 0, lru, 4, NULL), 2);
    assert_int_equal(session_store_idle_lru(f->db, "o", NULL, sid, lru, 4, NULL), 1);
    assert_true(lru[0] != sid);
    assert_int_equal(session_store_idle_lru(f->db, "p", NULL, 0, lru, 4, NULL), 0);
}

static void
t_undo_leaves_nothing(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid;

    (void)store_fixture_open(f, "o", "s", &sid);
    assert_int_equal(session_store_undo_open(f->db, sid, 2, NULL, true, &f->now, NULL), 0);
    assert_int_equal(session_store_undo_open(f->db, sid, 1, NULL, true, &f->now, NULL), 1);
    assert_int_equal(session_store_undo_open(f->db, sid, 1, NULL, true, &f->now, NULL), 0);
    assert_string_equal(
        store_fixture_ask(f, "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM"
                             " runtimes) + (SELECT count(*) FROM workspaces)"
                             " + (SELECT count(*) FROM session_history)"),
        "0");

    /* Its kernel may live: quarantined, and the name fails closed until its end is confirmed. */
    (void)store_fixture_open(f, "o", "s", &sid);
    assert_int_equal(session_store_undo_open(f->db, sid, 1, "k1", false, &f->now, NULL), 1);
    assert_string_equal(store_fixture_ask(f, "SELECT state FROM workspaces"), "doomed");
    assert_int_equal(store_fixture_open(f, "o", "s", NULL), SESSION_OPEN_QUARANTINED);
    assert_int_equal(store_fixture_open(f, "p", "s", NULL), SESSION_OPEN_NEW);

    /* Deleted while it opened. */
    struct session_close_args c = {.why = SESSION_END_CLOSED, .now = f->now};
    (void)store_fixture_open(f, "p", "t", &sid);
    c.sid = sid;
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(session_store_opened(f->db, sid, 1, "k", "", &f->now, NULL), 0);
    assert_int_equal(session_store_undo_open(f->db, sid, 1, NULL, true, &f->now, NULL), 1);
    assert_string_equal(store_fixture_state(f, sid), "gone");

    /* One that was ready is not undone. */
    sid = store_fixture_ready(f, "p", "u");
    c.sid = sid;
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(session_store_undo_open(f->db, sid, 1, NULL, true, &f->now, NULL), 0);
}

static void
t_close_moves_to_the_history(void **state)
{
    struct store_fixture *f = *state;
    int64_t sid = store_fixture_ready(f, "o", "s"), ticket;
    struct session_close_args c = {.sid = sid, .why = SESSION_END_CLOSED, .now = f->now};
    struct session s = {0};
    struct execution row;
    struct execution_begin_args a = store_fixture_exec_args(f, sid, "r", &row);
    enum execution_begin_outcome how;
    enum session_end why;
    enum session_state now_state;

    assert_int_equal(execution_store_begin(f->db, &a, &how, NULL, NULL), 0);
    assert_int_equal(turn_store_enter(f->db, sid, 1, 1, 2, &f->now, &ticket, NULL), 1);
    assert_int_equal(session_store_finish_close(f->db, sid, true, WORKSPACE_KEPT, &f->now, NULL),
                     0);
    c.only_if_idle = true;
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 0);
    c.only_if_idle = false;
    assert_int_equal(session_store_begin_close(f->db, &c, &s, NULL), 1);
    assert_string_equal(s.busy_execution, row.eid);
    session_done(&s);
    c.why = SESSION_END_EVICTED; /* the first reason stays */
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(session_store_close_reason(f->db, sid, &why, NULL), 1);
    assert_int_equal(why, SESSION_END_CLOSED);
    assert_int_equal(session_store_touch(f->db, sid, &f->now, &now_state, NULL), 1);
    assert_int_equal(now_state, SESSION_CLOSING);
    assert_int_equal(session_store_patch(f->db, sid, 1, NULL, NULL, NULL), 0);
    assert_int_equal(session_store_finish_close(f->db, sid, false, WORKSPACE_KEPT, &f->now, NULL),
                     1);
    assert_string_equal(store_fixture_ask(f, "SELECT reason || executions FROM session_history"),
                        "closed1");
    assert_string_equal(store_fixture_ask(f, "SELECT reason FROM executions"), "aborted");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM turns"), "0");
    assert_string_equal(store_fixture_ask(f, "SELECT state || (sid IS NULL) FROM runtimes"),
                        "quarantined1");
    assert_string_equal(store_fixture_ask(f, "SELECT state FROM workspaces"), "kept");
    c.sid = 1;
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 0);
    assert_int_equal(session_store_prune_history(f->db, f->now.wall_ms, 10, NULL), 0);
    assert_int_equal(session_store_prune_history(f->db, f->now.wall_ms + 1, 10, NULL), 1);
    assert_int_equal(execution_store_session_known(f->db, "o", "s", NULL), 1);
    assert_int_equal(execution_store_session_known(f->db, "p", "s", NULL), 0);
}

static void
close_now(struct store_fixture *f, int64_t sid, enum workspace_fate fate)
{
    struct session_close_args c = {.sid = sid, .why = SESSION_END_EXPIRED, .now = f->now};

    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(session_store_finish_close(f->db, sid, true, fate, &f->now, NULL), 1);
}

static void
t_kept_files_are_found_again(void **state)
{
    struct store_fixture *f = *state;
    struct workspace_row rows[4];
    struct session s;
    int64_t workspace;

    close_now(f, store_fixture_ready(f, "o", "s"), WORKSPACE_KEPT);
    assert_int_equal(workspace_store_unmeasured(f->db, rows, 4, NULL), 1);
    workspace = rows[0].workspace_id;
    (void)store_fixture_open(f, "p", "s", NULL); /* not another owner */
    assert_int_equal(workspace_store_unmeasured(f->db, rows, 4, NULL), 1);
    (void)store_fixture_open(f, "o", "s", NULL);
    assert_int_equal(session_store_find(f->db, "o", "s", &s, NULL), 1);
    assert_true(s.workspace_id == workspace && s.files_kept);
    assert_int_equal(workspace_store_measured(f->db, &rows[0], 1, NULL), 0); /* used again */
    assert_int_equal(session_store_undo_open(f->db, s.sid, 1, NULL, true, &f->now, NULL), 1);
    session_done(&s);
    assert_int_equal(workspace_store_unmeasured(f->db, rows, 4, NULL), 1);

    store_fixture_pass(f, 3600001); /* beyond the retention: a new one, the old one to be removed */
    (void)store_fixture_ready(f, "o", "s");
    assert_int_equal(session_store_find(f->db, "o", "s", &s, NULL), 1);
    assert_true(s.workspace_id != workspace && !s.files_kept);
    close_now(f, s.sid, WORKSPACE_KEPT);
    session_done(&s);
    assert_int_equal(workspace_store_doomed(f->db, 0, 0, rows, 4, NULL), 1);
    assert_int_equal(workspace_store_doomed(f->db, 0, workspace, rows, 4, NULL), 0);
    assert_true(rows[0].workspace_id == workspace);
    assert_int_equal(workspace_store_removed(f->db, workspace, NULL), 1);
    assert_int_equal(workspace_store_doomed(f->db, f->now.wall_ms + 1, 0, rows, 4, NULL), 1);
}

static void
keep_one(struct store_fixture *f, const char *name, int64_t bytes)
{
    struct workspace_row rows[4];

    store_fixture_pass(f, 10);
    close_now(f, store_fixture_ready(f, "o", name), WORKSPACE_KEPT);
    if (bytes < 0)
        return;
    assert_int_equal(workspace_store_unmeasured(f->db, rows, 4, NULL), 1);
    assert_string_equal(rows[0].name, name);
    rows[0].kept_since--; /* of another time: it may have changed since */
    assert_int_equal(workspace_store_measured(f->db, &rows[0], bytes, NULL), 0);
    rows[0].kept_since++;
    assert_int_equal(workspace_store_measured(f->db, &rows[0], bytes, NULL), 1);
}

static void
t_kept_files_are_bounded(void **state)
{
    struct store_fixture *f = *state;
    struct session_counts c;
    int64_t before, after;

    keep_one(f, "oldest", 100);
    keep_one(f, "old", 30);
    keep_one(f, "new", 20);
    (void)store_fixture_ready(f, "o", "live");
    assert_int_equal(workspace_store_bound(f->db, 150, &before, &after, NULL), 0);
    assert_true(before == 150 && after == 150);
    assert_int_equal(workspace_store_bound(f->db, 149, &before, &after, NULL), 1);
    assert_true(before == 150 && after == 50);
    assert_string_equal(store_fixture_ask(f, "SELECT group_concat(name) FROM (SELECT name FROM"
                                             " workspaces WHERE state = 'kept'"
                                             " ORDER BY kept_since)"),
                        "old,new");
    keep_one(f, "newest", -1); /* of unknown size: it is measured first */
    assert_int_equal(workspace_store_bound(f->db, 20, &before, &after, NULL), 1);
    assert_int_equal(session_store_counts(f->db, &c, NULL), 0);
    assert_true(c.workspaces_kept == 2 && c.workspaces_kept_bytes == 20 &&
                c.workspaces_dropped == 2);
    assert_string_equal(store_fixture_ask(f, "SELECT bytes FROM workspaces_dropped"), "130");
    /* one alone that is too large goes as well */
    assert_int_equal(workspace_store_bound(f->db, 10, &before, &after, NULL), 1);
    assert_string_equal(store_fixture_ask(f, "SELECT name FROM v_workspaces WHERE state = 'kept'"),
                        "newest");
}

static void
t_kept_sandboxes_are_bounded_in_number(void **state)
{
    struct store_fixture *f = *state;
    struct session_counts c;

    keep_one(f, "oldest", 0);
    keep_one(f, "old", 0);
    keep_one(f, "new", -1);
    assert_int_equal(workspace_store_bound_of(f->db, "daytona", 0, NULL), 0); /* another's */
    assert_int_equal(workspace_store_bound_of(f->db, "jupyter", 3, NULL), 0);
    assert_int_equal(workspace_store_bound_of(f->db, "jupyter", 1, NULL), 2);
    assert_string_equal(store_fixture_ask(f, "SELECT name FROM v_workspaces WHERE state = 'kept'"),
                        "new");
    assert_int_equal(workspace_store_bound_of(f->db, "jupyter", 0, NULL), 1);
    assert_int_equal(session_store_counts(f->db, &c, NULL), 0);
    assert_true(c.workspaces_kept == 0 && c.workspaces_dropped == 3);
}

static void
t_counts_by_backend(void **state)
{
    struct store_fixture *f = *state;
    struct session_open_args a = store_fixture_open_args(f, "o", "two");
    struct backend_counts c[2];
    enum session_open_outcome how;
    struct session s;

    a.backend = "daytona";
    assert_int_equal(session_store_backend_counts(f->db, c, 2, NULL), 0);
    keep_one(f, "kept", 0);
    (void)store_fixture_ready(f, "o", "one");
    assert_int_equal(session_store_open(f->db, &a, &how, &s, NULL), 0);
    session_done(&s);
    assert_int_equal(session_store_backend_counts(f->db, c, 2, NULL), 2);
    assert_string_equal(c[0].backend, "daytona");
    assert_true(c[0].sessions == 1 && c[0].runtimes == 1 && c[0].workspaces_kept == 0);
    assert_string_equal(c[1].backend, "jupyter");
    assert_true(c[1].sessions == 1 && c[1].runtimes == 1 && c[1].workspaces_kept == 1);
    assert_int_equal(session_store_backend_counts(f->db, c, 1, NULL), 1);
}

static void
t_list_pages_and_filters(void **state)
{
    struct store_fixture *f = *state;
    struct session_query q = {.owner = "o", .state = -1, .limit = 2};
    struct session *list;
    size_t n;
    bool more;

    for (int i = 0; i < 3; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "s%d", i);
        int64_t sid = store_fixture_ready(f, "o", name);
        if (i == 1)
            assert_int_equal(session_store_patch(f->db, sid, -1, "{\"team\":\"a\"}", NULL, NULL),
                             1);
        store_fixture_pass(f, i); /* two of the same time */
    }
    (void)store_fixture_ready(f, "p", "other");
    assert_int_equal(session_store_list(f->db, &q, &list, &n, &more, NULL), 0);
    assert_int_equal(n, 2);
    assert_true(more);
    assert_string_equal(list[0].name, "s2");
    q.after_created = list[1].created_at;
    q.after_sid = list[1].sid;
    char second[SESSION_NAME_MAX + 1];
    (void)snprintf(second, sizeof(second), "%s", list[1].name);
    session_done(&list[0]);
    session_done(&list[1]);
    free(list);
    assert_int_equal(session_store_list(f->db, &q, &list, &n, &more, NULL), 0);
    assert_int_equal(n, 1);
    assert_false(more);
    assert_string_not_equal(list[0].name, second);
    session_done(&list[0]);
    free(list);

    static const struct {
        const char *owner, *key, *value;
        int state;
        size_t n;
    } rows[] = {
        {NULL, NULL, NULL, -1, 4},          {"o", "team", NULL, -1, 1},
        {"o", "team", "a", -1, 1},          {"o", "team", "b", -1, 0},
        {"p", "team", "a", -1, 0},          {"o", NULL, NULL, SESSION_READY, 3},
        {"o", NULL, NULL, SESSION_COLD, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct session_query r = {.owner = rows[i].owner,
                                  .label_key = rows[i].key,
                                  .label_value = rows[i].value,
                                  .state = rows[i].state,
                                  .limit = 10};

        assert_int_equal(session_store_list(f->db, &r, &list, &n, &more, NULL), 0);
        assert_int_equal(n, rows[i].n);
        for (size_t j = 0; j < n; j++)
            session_done(&list[j]);
        free(list);
    }
}

static void
t_reboot(void **state)
{
    struct store_fixture *f = *state;
    int64_t ready = store_fixture_ready(f, "o", "ready"),
            busy = store_fixture_ready(f, "o", "busy");
    int64_t opening, ticket;
    struct execution row, seen;
    struct execution_begin_args a = store_fixture_exec_args(f, busy, "r", &row);
    enum execution_begin_outcome how;
    struct runtime_row due[4];
    struct session s;
    struct db_now after = {f->now.wall_ms + 5000, 17, "boot-2"};

    (void)store_fixture_open(f, "o", "opening", &opening);
    assert_int_equal(execution_store_begin(f->db, &a, &how, NULL, NULL), 0);
    assert_int_equal(turn_store_enter(f->db, busy, 1, 1, 2, &f->now, &ticket, NULL), 1);
    assert_int_equal(session_store_reboot(f->db, &f->now, NULL), 0);
    assert_string_equal(store_fixture_state(f, busy), "busy");

    /* The reaper of the new boot must not hide it. */
    assert_int_equal(session_store_set_clock(f->db, &after, NULL), 0);
    assert_int_equal(session_store_reboot(f->db, &after, NULL), 1);
    assert_int_equal(session_store_reboot(f->db, &after, NULL), 0);
    assert_string_equal(store_fixture_state(f, ready), "cold");
    assert_string_equal(store_fixture_state(f, busy), "cold");
    assert_string_equal(store_fixture_state(f, opening), "opening");
    assert_int_equal(execution_store_get(f->db, NULL, row.eid, &seen, NULL), 1);
    assert_int_equal(seen.reason, REASON_ABORTED);
    assert_int_equal(session_store_by_sid(f->db, busy, &s, NULL), 1);
    assert_true(s.state_lost && !s.busy_execution[0] && !s.handle[0]);
    assert_string_equal(s.boot_id, "boot-2");
    assert_int_equal(s.last_work_boot_ms, 17);
    session_done(&s);
    assert_int_equal(runtime_store_quarantined(f->db, NULL, NULL, &after, due, 4, NULL), 2);
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM turns"), "0");
    assert_int_equal(session_store_take_state_lost(f->db, busy, NULL), 1);
    assert_int_equal(session_store_take_state_lost(f->db, busy, NULL), 0);
}

static void
t_counts(void **state)
{
    struct store_fixture *f = *state;
    struct session_counts c;
    struct execution_id spool;
    struct execution row;
    int64_t busy = store_fixture_ready(f, "o", "b");
    struct execution_begin_args a = store_fixture_exec_args(f, busy, "r", &row);
    enum execution_begin_outcome how;

    (void)store_fixture_ready(f, "o", "r");
    (void)store_fixture_open(f, "o", "s", NULL);
    assert_int_equal(execution_store_begin(f->db, &a, &how, NULL, NULL), 0);
    assert_int_equal(session_store_set_clock(f->db, &f->now, NULL), 0);
    assert_int_equal(session_store_counts(f->db, &c, NULL), 0);
    assert_int_equal(c.by_state[SESSION_BUSY], 1);
    assert_int_equal(c.by_state[SESSION_READY], 1);
    assert_int_equal(c.by_state[SESSION_OPENING], 1);
    assert_int_equal(c.by_state[SESSION_COLD], 0);
    assert_int_equal(c.live, 2);
    assert_int_equal(c.starting, 1);
    assert_int_equal(c.workspaces_used, 3);
    assert_true(c.swept_at == f->now.wall_ms);
    assert_int_equal(c.executions_by_reason[REASON_NONE], 1);
    row.reason = REASON_OOM;
    row.ended_at = f->now.wall_ms;
    assert_int_equal(execution_store_finish(f->db, &row, FINISH_TELLS_LOST, &f->now, NULL, NULL),
                     1);
    memcpy(spool.eid, row.eid, sizeof(spool.eid));
    assert_int_equal(execution_store_spools_removed(f->db, &spool, 1, NULL), 0);
    assert_int_equal(execution_store_prune(f->db, f->now.wall_ms + 1, 10, NULL), 1);
    assert_int_equal(session_store_counts(f->db, &c, NULL), 0);
    assert_int_equal(c.executions_by_reason[REASON_NONE], 0);
    assert_int_equal(c.executions_by_reason[REASON_OOM], 1);
}

static void
t_too_long_is_a_limit(void **state)
{
    struct store_fixture *f = *state;
    struct session_open_args a;
    enum session_open_outcome how;
    struct session s;
    struct err err = ERR_INIT;
    char value[SESSION_BINDING_MAX + 2];

    memset(value, 'x', sizeof(value));
    a = store_fixture_open_args(f, "o", "s");
    a.value = value;
    a.value_len = SESSION_BINDING_MAX + 1;
    assert_int_equal(session_store_open(f->db, &a, &how, &s, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM workspaces"), "0");
    a.value_len = SESSION_BINDING_MAX;
    assert_int_equal(session_store_open(f->db, &a, &how, &s, &err), 0);
    assert_int_equal(strlen(s.binding_value), SESSION_BINDING_MAX);
    session_done(&s);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_open_is_idempotent_by_owner_and_name),
        T(t_reuse_extends_and_never_shrinks),
        T(t_expiry_is_by_the_boot_clock),
        T(t_a_held_one_is_live_whatever_the_clock_says),
        T(t_caps_count_runtimes),
        T(t_undo_leaves_nothing),
        T(t_close_moves_to_the_history),
        T(t_kept_files_are_found_again),
        T(t_kept_files_are_bounded),
        T(t_kept_sandboxes_are_bounded_in_number),
        T(t_counts_by_backend),
        T(t_list_pages_and_filters),
        T(t_reboot),
        T(t_counts),
        T(t_too_long_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
