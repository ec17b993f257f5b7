/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"

FIXTURE_DOWN(f)
static char blob[PATH_MAX + SHA256_HEX_SIZE + 2]; /* where the content TEXT is kept */

#define TEXT "what the run made"

static int
setup(void **state)
{
    char sha256[SHA256_HEX_SIZE];

    (void)state;
    fixture_init(&f);
    sha256_hex_of(TEXT, strlen(TEXT), sha256);
    (void)snprintf(blob, sizeof blob, "%s/%.2s/%s", f.artifacts, sha256, sha256 + 2);
    return 0;
}

static void
write_file(const char *id, const char *name, const char *text)
{
    char path[PATH_MAX + 64];
    struct session s = {0};
    struct err err = ERR_INIT;
    FILE *fp;

    assert_int_equal(manager_get(f.m, &f.ann, id, false, &s, &err), 0);
    (void)snprintf(path, sizeof path, "%s/%016" PRIx64 "/%s", f.workspaces, s.workspace_id, name);
    session_done(&s);
    fp = fopen(path, "w");
    assert_non_null(fp);
    assert_true(fputs(text, fp) >= 0);
    (void)fclose(fp);
}

static bool
content_is_there(struct fixture *x)
{
    (void)x;
    return access(blob, F_OK) == 0;
}

/* A process of the service whose run has left its content behind and waits for the writer's lock,
 * which is ours, to write the row. */
static struct child
stopped_before_the_row(sqlite3 **ret_db)
{
    struct child c;

    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    write_file("a", "f", TEXT);
    c = fixture_spawn(&f, "keep", "a", "sleep 200");
    assert_true(fixture_until(fixture_one_runs, &f));
    assert_int_equal(sqlite3_open(f.db, ret_db), SQLITE_OK);
    (void)sqlite3_busy_timeout(*ret_db, 5000);
    assert_int_equal(sqlite3_exec(*ret_db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_true(fixture_until(content_is_there, &f));
    return c;
}

static int
sweep(void)
{
    struct sweep_report r;
    struct err err = ERR_INIT;

    fixture_restart(&f); /* each looks at the contents at first, and then now and then */
    assert_int_equal(manager_sweep(f.m, deadline_in(10000), &r, &err), 0);
    return r.blobs_removed;
}

static void
age(void)
{
    const struct timespec two_hours_ago[2] = {{.tv_sec = clock_wall_ms() / 1000 - 7200},
                                              {.tv_sec = clock_wall_ms() / 1000 - 7200}};

    assert_int_equal(utimensat(AT_FDCWD, blob, two_hours_ago, 0), 0);
}

static void
test_killed_between_content_and_row(void **state)
{
    sqlite3 *db = NULL;
    struct child c = stopped_before_the_row(&db);
    struct exec_outcome o;

    (void)state;
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    (void)fixture_wait(&c, NULL, 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM artifact_versions"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM artifacts"), 0);
    assert_int_equal(sweep(), 0); /* somebody may be about to name it */
    age();
    assert_int_equal(sweep(), 1);
    assert_false(content_is_there(&f));
    assert_int_equal(fixture_sql(&f, "SELECT reason = 'aborted' FROM executions"), 1);
    /* and what comes next is as if nothing had been */
    assert_null(fixture_keep(&f, f.m, "a", "print 1", &o));
    assert_int_equal(o.result.artifacts.n_kept, 1);
    assert_int_equal(o.result.artifacts.kept[0].ref, 1);
    exec_outcome_done(&o);
    assert_true(content_is_there(&f));
}

/* What another process takes away before it is named is written again. */
static void
test_content_that_went_before_its_row(void **state)
{
    sqlite3 *db = NULL;
    struct child c = stopped_before_the_row(&db);
    char out[64];

    (void)state;
    assert_int_equal(unlink(blob), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(fixture_wait(&c, out, sizeof out), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM artifact_versions"), 1);
    assert_true(content_is_there(&f));
    age();
    assert_int_equal(sweep(), 0); /* it has a row, however old it is */
    assert_true(content_is_there(&f));
}

static void
test_kept_although_the_kernel_died(void **state)
{
    struct exec_outcome o;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    write_file("a", "f", TEXT);
    assert_null(fixture_keep(&f, f.m, "a", "die", &o));
    assert_int_equal(o.row.reason, REASON_KERNEL_DIED);
    assert_int_equal(o.result.artifacts.n_kept, 1);
    assert_string_equal(o.result.artifacts.kept[0].path, "f");
    exec_outcome_done(&o);
}

/* Removed by another while it is being fetched: it is not there, and no fault of ours. */
static void
test_removed_while_it_is_opened(void **state)
{
    struct exec_outcome o;
    struct artifact a;
    struct err err = ERR_INIT;
    int fd = -1;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    write_file("a", "f", TEXT);
    assert_null(fixture_keep(&f, f.m, "a", "print 1", &o));
    a = o.result.artifacts.kept[0];
    exec_outcome_done(&o);
    assert_int_equal(manager_artifact_open(f.m, &a, &fd, &err), 0);
    assert_int_equal(manager_artifact_remove(f.m, &f.ann, a.artifact_id, &err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), strlen(TEXT)); /* who has it open reads on */
    (void)close(fd);
    assert_int_equal(manager_artifact_open(f.m, &a, &fd, &err), -1);
    assert_string_equal(err.slug, "artifact_not_found");
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_killed_between_content_and_row),
        T(test_content_that_went_before_its_row),
        T(test_kept_although_the_kernel_died),
        T(test_removed_while_it_is_opened),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
