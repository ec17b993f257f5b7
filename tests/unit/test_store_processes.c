/* SPDX-License-Identifier: MIT */
/* Many processes on one database, each exec'd: a connection is never carried over a fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/db.h"
#include "store/migrate.h"
#include "support/tmpdir.h"
#include "unit/store_fixture.h"

#define PROCESSES 16

extern char **environ;

/* Runs that many at once and returns how many failed. */
static int
hammer(const char *path, const char *cap, const char *transactions)
{
    char *argv[] = {(char *)"store_hammer", (char *)path, (char *)cap, (char *)transactions, NULL};
    pid_t pids[PROCESSES];
    int bad = 0;

    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(posix_spawn(&pids[i], "./store_hammer", NULL, NULL, argv, environ), 0);
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return bad;
}

static void
t_work_of_many_at_once(void **state)
{
    struct store_fixture *f = *state;
    struct buf said = BUF_INIT(4096);
    struct err err = ERR_INIT;
    char path[PATH_MAX];

    assert_int_equal(hammer(tmpdir_path(path, f->dir, "many.db"), "10", "200"), 0);
    memcpy(f->path, path, sizeof(path));
    db_close(f->db);
    assert_int_equal(db_open(path, 0, &f->db, &err), 0);
    assert_int_equal(db_check(f->db, &said, &err), 0);
    buf_done(&said);
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM sessions"), "0");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM runtimes"), "0");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) > 100 FROM session_history"), "1");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) = count(DISTINCT request_id)"
                                             " AND count(*) > 20 AND min(reason = 'completed')"
                                             " FROM executions"),
                        "1");
}

/* All of them find no database, no WAL mode and no schema. */
static void
t_cold_starts(void **state)
{
    struct store_fixture *f = *state;

    for (int i = 0; i < 10; i++) {
        char name[32], path[PATH_MAX];

        (void)snprintf(name, sizeof(name), "cold%d.db", i);
        assert_int_equal(hammer(tmpdir_path(path, f->dir, name), "10", "4"), 0);
    }
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {T(t_work_of_many_at_once), T(t_cold_starts)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
