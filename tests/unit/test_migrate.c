/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "store/migrate.h"
#include "support/tmpdir.h"
#include "unit/store_fixture.h"

static void
t_steps_are_applied_once(void **state)
{
    struct store_fixture *f = *state;
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    int version, applied = -1;
    struct db *db;

    assert_int_equal(db_open(tmpdir_path(path, f->dir, "fresh.db"), DB_CREATE, &db, &err), 0);
    assert_int_equal(migrate_version(db, &version, &err), 0);
    assert_int_equal(version, 0);
    assert_int_equal(db_ping(db, &err), -1);
    assert_string_equal(err.slug, "database_version");
    assert_int_equal(migrate_apply(db, &applied, &err), 0);
    assert_int_equal(applied, migrate_target());
    assert_int_equal(db_ping(db, &err), 0);
    assert_int_equal(migrate_apply(db, &applied, &err), 0);
    assert_int_equal(applied, 0);
    db_close(db);
}

static void
t_a_newer_file_is_refused(void **state)
{
    struct store_fixture *f = *state;
    struct err err = ERR_INIT;
    sqlite3 *h;

    assert_int_equal(sqlite3_open(f->path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "PRAGMA user_version = 1000", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
    assert_int_equal(migrate_apply(f->db, NULL, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_string_equal(err.slug, "database_version");
}

/* A step that fails leaves the file as it was. */
static void
t_a_failing_step_changes_nothing(void **state)
{
    struct store_fixture *f = *state;
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    int version;
    struct db *db;
    sqlite3 *h;

    assert_int_equal(db_open(tmpdir_path(path, f->dir, "odd.db"), DB_CREATE, &db, &err), 0);
    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "CREATE TABLE keys (x)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
    assert_int_equal(migrate_apply(db, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_int_equal(migrate_version(db, &version, &err), 0);
    assert_int_equal(version, 0);
    db_close(db);
    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    assert_int_not_equal(sqlite3_exec(h, "SELECT 1 FROM sessions", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
}

static const char *const refused[] = {
    "INSERT INTO clock VALUES (2, 0, 0, '', 0)",
    "INSERT INTO workspaces VALUES (1, 'o', 'n', 'lent', 0, NULL, NULL, 'b')",
    "UPDATE workspaces SET kept_bytes = 1", /* of a used one */
    "INSERT INTO workspaces VALUES (1, 'o', 'n', 'kept', 0, NULL, NULL, 'b')",
    "INSERT INTO workspaces VALUES (1, 'o', '', 'used', 0, NULL, NULL, 'b')",
    "INSERT INTO workspaces VALUES (1, 'o', printf('%0129d', 1), 'used', 0, NULL, NULL, 'b')",
    "INSERT INTO workspaces VALUES (1, 'o', 'n', 'used', 0, NULL, NULL, '')",
    "UPDATE sessions SET state = 'asleep'",
    "UPDATE sessions SET state = 'busy', busy_execution = NULL",
    "UPDATE sessions SET state = 'closing', close_reason = NULL",
    "UPDATE sessions SET close_reason = 'bored'",
    "UPDATE sessions SET labels = printf('%040001d', 1)",
    "UPDATE sessions SET ttl_ms = 'long'",
    "UPDATE sessions SET workspace_id = 99",
    "UPDATE runtimes SET state = 'gone'",
    "UPDATE runtimes SET state = 'quarantined'",
    "UPDATE runtimes SET sid = 99",
    "DELETE FROM workspaces",
    "INSERT INTO turns (sid, lock_id, pid, since) VALUES (99, 1, 1, 1)",
    "INSERT INTO keys (key_id, owner, digest, scopes, created_at) VALUES ('k', 'o', x'00', 1, 1)",
};

static void
t_closed_sets_are_closed(void **state)
{
    struct store_fixture *f = *state;
    sqlite3 *h;

    (void)store_fixture_ready(f, "o", "s");
    assert_int_equal(sqlite3_open(f->path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "PRAGMA foreign_keys = ON", NULL, NULL, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (sqlite3_exec(h, refused[i], NULL, NULL, NULL) != SQLITE_CONSTRAINT)
            fail_msg("%s: %s", refused[i], sqlite3_errmsg(h));
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
}

/* What a person with sqlite3 sees. */
static void
t_views(void **state)
{
    struct store_fixture *f = *state;
    struct execution row;
    struct execution_begin_args a;
    enum execution_begin_outcome how;

    f->now.wall_ms = clock_wall_ms() - 10000; /* the last sweep was 10 s ago */
    (void)store_fixture_ready(f, "o", "idle");
    int64_t sid = store_fixture_ready(f, "o", "busy");
    a = store_fixture_exec_args(f, sid, "r1", &row);
    assert_int_equal(execution_store_begin(f->db, &a, &how, NULL, NULL), 0);
    assert_string_equal(store_fixture_ask(f, "SELECT what FROM v_alarms"), "reaper");
    assert_int_equal(session_store_set_clock(f->db, &f->now, NULL), 0);
    assert_string_equal(store_fixture_ask(f, "SELECT owner || name || state || backend || "
                                             "(idle_s BETWEEN 9 AND 30) || "
                                             "(expires_in_s BETWEEN 30 AND 51) || handle || "
                                             "(busy_for_s IS NULL) FROM v_sessions"
                                             " WHERE name = 'idle'"),
                        "oidlereadyjupyter11k-idle1");
    assert_string_equal(store_fixture_ask(f, "SELECT state || (busy_for_s BETWEEN 9 AND 30) || "
                                             "busy_pid || (idle_s IS NULL) FROM v_sessions"
                                             " WHERE name = 'busy'"),
                        "busy111");
    assert_string_equal(store_fixture_ask(f, "SELECT execution FROM v_sessions WHERE busy_pid"),
                        row.eid);
    assert_string_equal(store_fixture_ask(f, "SELECT session || reason FROM v_executions"),
                        "busyrunning");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM v_history"), "0");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM v_keys"), "0");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM v_runtimes"), "2");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM v_alarms"), "0");
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_steps_are_applied_once),
        T(t_a_newer_file_is_refused),
        T(t_a_failing_step_changes_nothing),
        T(t_closed_sets_are_closed),
        T(t_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
