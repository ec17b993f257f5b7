/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/tmpdir.h"
#include "unit/workspace_fixture.h"
#include "base/acl.h"

static void
t_create_is_idempotent(void **state)
{
    struct fixture *f = *state;
    bool existed = false;
    struct stat st;

    fixture_write(f, "kept", "x");
    assert_int_equal(workspace_create(f->base, FIXTURE_ID, &existed, NULL), 0);
    assert_true(existed);
    assert_string_equal(fixture_read(f, "kept"), "x");
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0770);
    assert_string_equal(strrchr(f->dir, '/'), "/000000001234abcd");
}

static void
t_what_is_not_there_is_gone(void **state)
{
    struct fixture *f = *state;
    struct workspace w = {.root_fd = -1};
    struct err err = ERR_INIT;
    char path[PATH_MAX], small[8];

    assert_int_equal(workspace_open(f->base, 77, &w, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.slug, "workspace_gone");
    assert_int_equal(workspace_dir(f->base, 77, path, sizeof(path)), 0);
    assert_int_equal(symlink(f->outside, path), 0);
    assert_int_equal(workspace_open(f->base, 77, &w, &err), -1);
    assert_string_equal(err.slug, "workspace_gone");
    assert_int_equal(workspace_create(f->base, 77, NULL, &err), -1);
    assert_int_equal(workspace_dir(f->base, 77, small, sizeof(small)), -1);
}

static void
t_remove_takes_everything_but_what_links_name(void **state)
{
    struct fixture *f = *state;
    char trash[PATH_MAX];
    struct stat st;

    assert_int_equal(fixture_put(f, "a/b/c", "x", NULL), 0);
    assert_int_equal(symlink(f->outside, fixture_path(f, "a/out")), 0);
    assert_int_equal(mkfifo(fixture_path(f, "a/fifo"), 0660), 0);
    assert_int_equal(mkdir(fixture_path(f, "locked"), 0770), 0);
    fixture_write(f, "locked/x", "x");
    assert_int_equal(chmod(fixture_path(f, "locked"), 0), 0);
    assert_int_equal(workspace_remove(f->base, FIXTURE_ID, NULL), 0);
    assert_int_equal(stat(f->dir, &st), -1);
    assert_int_equal(fixture_count(tmpdir_path(trash, f->base, ".trash")), 0);
    assert_int_equal(fixture_count(f->outside), 1);
    assert_int_equal(workspace_remove(f->base, FIXTURE_ID, NULL), 0);

    /* A root descriptor of a removed workspace gives errors and reaches nothing. */
    struct err err = ERR_INIT;
    assert_int_equal(fixture_put(f, "f", "x", &err), -1);
    assert_string_equal(err.slug, "workspace_gone");
    assert_int_equal(fixture_put(f, "d/f", "x", &err), -1);
}

static void
t_unlink(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;

    assert_int_equal(fixture_put(f, "d/e/f", "x", NULL), 0);
    assert_int_equal(symlink(f->outside, fixture_path(f, "l")), 0);
    assert_int_equal(workspace_unlink(&f->w, "l", 1, true, &err), 0);
    assert_int_equal(fixture_count(f->outside), 1);
    assert_int_equal(symlink(f->outside, fixture_path(f, "l")), 0);
    assert_int_equal(workspace_unlink(&f->w, "l/secret", 8, false, &err), -1);
    assert_string_equal(err.slug, "outside_workspace");
    assert_int_equal(workspace_unlink(&f->w, "none", 4, true, &err), -1);
    assert_string_equal(err.slug, "file_not_found");
    assert_int_equal(workspace_unlink(&f->w, "d", 1, false, &err), -1);
    assert_string_equal(err.slug, "folder_not_empty");
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(workspace_unlink(&f->w, "d/e/f", 5, false, &err), 0);
    assert_int_equal(workspace_unlink(&f->w, "d/e", 3, false, &err), 0);
    assert_int_equal(fixture_put(f, "d/e/f", "x", NULL), 0);
    assert_int_equal(workspace_unlink(&f->w, "d", 1, true, &err), 0);
    assert_int_equal(fixture_count(f->dir), 1);
}

static void
t_default_acl_is_inherited(void **state)
{
    struct fixture *f = *state;
    char raw[128];
    struct stat st;
    _cleanup_close_ int fd = open(f->dir, O_RDONLY | O_DIRECTORY);

    assert_int_equal(acl_set_default_group(fd, NULL), 0);
    if (fgetxattr(fd, "system.posix_acl_default", raw, sizeof(raw)) < 0)
        skip(); /* no ACLs here: nothing was to be set */
    mode_t saved = umask(077);
    int made = open(fixture_path(f, "kernels"), O_CREAT | O_WRONLY, 0666);
    assert_int_equal(mkdir(fixture_path(f, "d"), 0777), 0);
    (void)umask(saved);
    assert_true(made >= 0);
    assert_int_equal(fstat(made, &st), 0);
    (void)close(made);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_int_equal(stat(fixture_path(f, "d"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0770);
    assert_int_equal(fixture_put(f, "ours", "x", NULL), 0);
    assert_int_equal(stat(fixture_path(f, "ours"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_create_is_idempotent),
        T(t_what_is_not_there_is_gone),
        T(t_remove_takes_everything_but_what_links_name),
        T(t_unlink),
        T(t_default_acl_is_inherited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
