/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/key_store.h"
#include "store/migrate.h"
#include "store/sql.h"
#include "support/tmpdir.h"
#include "unit/store_fixture.h"

static void
t_modes_and_pragmas(void **state)
{
    struct store_fixture *f = *state;
    char path[PATH_MAX];
    struct stat st;

    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    (void)snprintf(path, sizeof(path), "%.4000s-wal", f->path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_string_equal(store_fixture_ask(f, "PRAGMA journal_mode"), "wal");
}

static void
t_what_cannot_be_opened(void **state)
{
    struct store_fixture *f = *state;
    struct db *db = NULL;
    struct err err = ERR_INIT;
    char path[PATH_MAX], link_path[PATH_MAX];
    FILE *file;

    assert_int_equal(db_open(tmpdir_path(path, f->dir, "none"), 0, &db, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(db_open(tmpdir_path(path, f->dir, "no/such"), DB_CREATE, &db, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);

    file = fopen(tmpdir_path(path, f->dir, "text"), "w");
    for (int i = 0; i < 2000; i++)
        (void)fputs("not a database ", file);
    (void)fclose(file);
    assert_int_equal(db_open(path, 0, &db, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_string_equal(err.slug, "database_error");

    assert_int_equal(symlink(f->path, tmpdir_path(link_path, f->dir, "link")), 0);
    assert_int_equal(db_open(link_path, 0, &db, &err), -1);
    assert_null(db);

    /* A folder may well be reached by a link. */
    assert_int_equal(symlink(f->dir, tmpdir_path(link_path, f->dir, "folder")), 0);
    assert_int_equal(db_open(tmpdir_path(path, link_path, "husk.db"), 0, &db, &err), 0);
    assert_int_equal(db_ping(db, &err), 0);
    db_close(db);
    db_close(NULL);
}

static void
t_another_version_is_refused(void **state)
{
    struct store_fixture *f = *state;
    struct err err = ERR_INIT;
    sqlite3 *h;

    assert_int_equal(db_ping(f->db, &err), 0);
    assert_int_equal(sqlite3_open(f->path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "PRAGMA user_version = 1", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
    assert_int_equal(db_ping(f->db, &err), -1);
    assert_string_equal(err.slug, "database_version");
    assert_non_null(strstr(err.msg, "huskctl db migrate"));
}

/* A write lock that an operator forgot: an answer within the bound, not for ever. */
static void
t_busy_is_an_answer(void **state)
{
    struct store_fixture *f = *state;
    struct err err = ERR_INIT;
    struct key_row k = {.key_id = "k", .owner = "o"};
    struct deadline d = deadline_in(15000);
    int64_t began = clock_mono_ms();
    sqlite3 *h;

    assert_int_equal(sqlite3_open(f->path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(key_store_insert(f->db, &k, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_string_equal(err.slug, "database_busy");
    assert_int_equal(err.retry_after_s, 1);
    assert_true(clock_mono_ms() - began >= 4900);
    assert_false(deadline_passed(d));
    assert_int_equal(session_store_counts(f->db, &(struct session_counts){0}, &err), 0);
    assert_int_equal(sqlite3_exec(h, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
    assert_int_equal(key_store_insert(f->db, &k, &err), 0);
}

static void
t_checkpoint_check_and_backup(void **state)
{
    struct store_fixture *f = *state;
    struct err err = ERR_INIT;
    struct buf said = BUF_INIT(4096);
    int64_t size, wal;
    struct db_wal log = {.frames = -1};
    char path[PATH_MAX];
    struct db *copy;
    struct stat st;

    (void)store_fixture_ready(f, "o", "s");
    db_sizes(f->db, &size, &wal);
    assert_true(size > 0 && wal > 0);
    assert_int_equal(db_checkpoint(f->db, &log, &err), 0);
    assert_int_equal(log.frames, 0);
    db_sizes(f->db, &size, &wal);
    assert_int_equal(wal, 0);
    assert_int_equal(db_check(f->db, &said, &err), 0);
    assert_int_equal(said.len, 0);
    assert_int_equal(db_optimize(f->db, &err), 0);
    assert_int_equal(db_backup(f->db, tmpdir_path(path, f->dir, "copy.db"), DB_BACKUP_MODE, &err),
                     0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(db_backup(f->db, path, DB_BACKUP_MODE, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(db_open(path, 0, &copy, &err), 0);
    assert_int_equal(db_ping(copy, &err), 0);
    db_close(copy);

    sqlite3 *h;
    assert_int_equal(sqlite3_open(f->path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "DELETE FROM workspaces", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
    assert_int_equal(db_check(f->db, &said, &err), -1);
    assert_string_equal(err.slug, "database_error");
    assert_non_null(strstr(buf_str(&said), "sessions"));
    buf_done(&said);
}

static void
t_a_full_disk_is_an_answer(void **state)
{
    struct store_fixture *f = *state;
    struct err err = ERR_INIT;

    /* no lower than what is there already */
    assert_int_equal(sql_exec(f->db, "PRAGMA max_page_count = 1", &err), 0);
    assert_int_equal(sql_exec(f->db, "CREATE TABLE more AS SELECT zeroblob(1000000)", &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_string_equal(err.slug, "disk_full");
    assert_true(err.retry_after_s > 0);
    assert_int_equal(db_ping(f->db, &err), 0);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, store_fixture_setup, store_fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_modes_and_pragmas), T(t_what_cannot_be_opened),       T(t_another_version_is_refused),
        T(t_busy_is_an_answer), T(t_checkpoint_check_and_backup), T(t_a_full_disk_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
