/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit/workspace_fixture.h"

static struct upload *
begun(const struct fixture *f, const char *path, const char *text)
{
    struct upload *u;

    assert_int_equal(upload_begin(&f->w, path, strlen(path), &u, NULL), 0);
    assert_int_equal(upload_write(u, text, strlen(text), NULL), 0);
    return u;
}

static void
assert_refused(const struct fixture *f, const char *path, const char *slug)
{
    struct err err = ERR_INIT;

    assert_int_equal(fixture_put(f, path, "bad", &err), -1);
    assert_string_equal(err.slug, slug);
}

static void
t_nothing_is_seen_before_the_commit(void **state)
{
    struct fixture *f = *state;
    struct file_info info, again;
    struct stat st;
    bool created = true;

    fixture_write(f, "f", "old");
    struct upload *u = begun(f, "f", "new");
    assert_string_equal(fixture_read(f, "f"), "old");
    assert_int_equal(fixture_count(f->dir), 1);
    assert_int_equal(upload_commit(u, UPLOAD_REPLACE, NULL, &created, &info, NULL), 0);
    assert_false(created);
    assert_string_equal(fixture_read(f, "f"), "new");
    assert_int_equal(fixture_count(f->dir), 1);
    assert_int_equal(stat(fixture_path(f, "f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_int_equal(workspace_stat(&f->w, "f", 1, &again, NULL), 0);
    assert_true(info.inode == again.inode && info.size == again.size &&
                info.mtime_ns == again.mtime_ns && info.ctime_ns == again.ctime_ns);
}

static void
t_an_abort_leaves_nothing(void **state)
{
    struct fixture *f = *state;

    fixture_write(f, "f", "old");
    upload_abort(begun(f, "f", "half"));
    assert_string_equal(fixture_read(f, "f"), "old");
    upload_abort(begun(f, "a/b/c/g", "half"));
    assert_int_equal(fixture_count(f->dir), 1);

    assert_int_equal(mkdir(fixture_path(f, "a"), 0770), 0);
    upload_abort(begun(f, "a/b/c/g", "half"));
    assert_int_equal(fixture_count(fixture_path(f, "a")), 0);

    struct upload *u = begun(f, "a/b/c/g", "half");
    fixture_write(f, "a/b/mine", "x"); /* the session used a folder that we made */
    upload_abort(u);
    assert_int_equal(fixture_count(fixture_path(f, "a/b")), 1);
    upload_abort(NULL);
}

static void
t_parents_are_made_and_shared(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    mode_t saved = umask(077);

    assert_int_equal(fixture_put(f, "x/y/z", "deep", NULL), 0);
    (void)umask(saved);
    assert_string_equal(fixture_read(f, "x/y/z"), "deep");
    assert_int_equal(stat(fixture_path(f, "x/y"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0770);
    assert_int_equal(stat(fixture_path(f, "x/y/z"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_int_equal(fixture_put(f, "x/y/more", "there already", NULL), 0);
    assert_refused(f, "x/y/z/w", "not_a_folder");
    assert_refused(f, "x/y", "not_a_folder");
}

static void
t_writing_follows_no_links(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(symlink(f->outside, fixture_path(f, "up")), 0);
    assert_int_equal(symlink("../outside", fixture_path(f, "rel")), 0);
    assert_int_equal(mkdir(fixture_path(f, "d"), 0770), 0);
    assert_int_equal(symlink("d", fixture_path(f, "in")), 0);
    assert_refused(f, "up/new/dir/f", "outside_workspace");
    assert_refused(f, "up/f", "outside_workspace");
    assert_refused(f, "rel/f", "outside_workspace");
    assert_refused(f, "in/f", "outside_workspace");
    assert_int_equal(fixture_count(f->outside), 1);

    /* A link at the name itself is replaced, what it names is left alone. */
    assert_int_equal(symlink("../outside/secret", fixture_path(f, "s")), 0);
    assert_int_equal(fixture_put(f, "s", "mine", NULL), 0);
    assert_string_equal(fixture_read(f, "s"), "mine");
    assert_string_equal(fixture_read(f, "../outside/secret"), "secret");
}

static void
t_create_is_exclusive(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    bool created = false;
    struct upload *a = begun(f, "f", "a"), *b = begun(f, "f", "b");

    assert_int_equal(upload_commit(a, UPLOAD_CREATE, NULL, &created, NULL, &err), 0);
    assert_true(created);
    assert_int_equal(upload_commit(b, UPLOAD_CREATE, NULL, &created, NULL, &err), -1);
    assert_string_equal(err.slug, "precondition_failed");
    assert_string_equal(fixture_read(f, "f"), "a");
    assert_int_equal(fixture_count(f->dir), 1);
}

static void
t_expected_state(void **state)
{
    struct fixture *f = *state;
    struct file_info info;
    struct err err = ERR_INIT;
    bool created;

    assert_int_equal(fixture_put(f, "f", "1", NULL), 0);
    assert_int_equal(workspace_stat(&f->w, "f", 1, &info, NULL), 0);
    struct upload *a = begun(f, "f", "2"), *b = begun(f, "f", "3"), *c = begun(f, "gone", "4");
    assert_int_equal(upload_commit(a, UPLOAD_REPLACE, &info, &created, NULL, &err), 0);
    assert_int_equal(upload_commit(b, UPLOAD_REPLACE, &info, &created, NULL, &err), -1);
    assert_string_equal(err.slug, "precondition_failed");
    assert_int_equal(upload_commit(c, UPLOAD_REPLACE, &info, &created, NULL, &err), -1);
    assert_string_equal(err.slug, "precondition_failed");
    assert_string_equal(fixture_read(f, "f"), "2");
    assert_int_equal(fixture_count(f->dir), 1);
}

/* The session's own lock on its folder must not hold a worker for ever. */
static void
t_a_locked_folder_is_waited_for_but_not_long(void **state)
{
    struct fixture *f = *state;
    struct file_info info;
    struct err err = ERR_INIT;
    bool created;
    _cleanup_close_ int fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    struct deadline d = deadline_in(10000);

    assert_int_equal(fixture_put(f, "f", "1", NULL), 0);
    assert_int_equal(workspace_stat(&f->w, "f", 1, &info, NULL), 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(upload_commit(begun(f, "f", "2"), UPLOAD_REPLACE, &info, &created, NULL, &err),
                     -1);
    assert_string_equal(err.slug, "file_busy");
    assert_false(deadline_passed(d));
    assert_int_equal(fixture_put(f, "f", "3", NULL), 0); /* without a condition nobody waits */
}

static void
t_the_folder_goes_during_the_upload(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    struct upload *u = begun(f, "d/f", "x");

    assert_int_equal(rmdir(fixture_path(f, "d")), 0);
    assert_int_equal(upload_commit(u, UPLOAD_REPLACE, NULL, NULL, NULL, &err), -1);
    assert_string_equal(err.slug, "file_busy");
    assert_int_equal(fixture_count(f->dir), 0);
}

static void
t_a_file_over_the_limit_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    struct rlimit saved, small;
    struct upload *u;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &saved), 0);
    small = saved;
    small.rlim_cur = 4;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(upload_begin(&f->w, "f", 1, &u, &err), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int r = upload_write(u, "0123456789", 10, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
    upload_abort(u);
    assert_int_equal(r, -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(fixture_count(f->dir), 0);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_nothing_is_seen_before_the_commit),
        T(t_an_abort_leaves_nothing),
        T(t_parents_are_made_and_shared),
        T(t_writing_follows_no_links),
        T(t_create_is_exclusive),
        T(t_expected_state),
        T(t_a_locked_folder_is_waited_for_but_not_long),
        T(t_the_folder_goes_during_the_upload),
        T(t_a_file_over_the_limit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
