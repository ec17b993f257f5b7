/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/lock.h"

static char dir[PATH_MAX], path[PATH_MAX];

static int
set_up(void **state)
{
    (void)state;
    tmpdir_make(dir);
    (void)tmpdir_path(path, dir, "lock");
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    tmpdir_remove(dir);
    return 0;
}

/* A child that holds an exclusive lock at 5 and a shared one at 7 until it is killed. */
static pid_t
start_holder(void)
{
    int ready[2];
    char c = 0;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = lock_open(path, NULL);

        if (lock_try_exclusive(fd, 5) == 1 && lock_try_shared(fd, 7) == 1)
            (void)fd_write_all(ready[1], "r", 1);
        (void)close(ready[1]);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(fd_read_all(ready[0], &c, 1), 0);
    (void)close(ready[0]);
    return pid;
}

static void
another_process_holds_and_dies(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    int fd = lock_open(path, &err);
    pid_t child = start_holder();

    assert_true(fd >= 0);
    assert_int_equal(lock_is_held(fd, 5), 1);
    assert_int_equal(lock_is_held(fd, 6), 0);
    assert_int_equal(lock_try_exclusive(fd, 5), 0);
    assert_int_equal(lock_try_shared(fd, 5), 0);
    assert_int_equal(lock_try_shared(fd, 7), 1);
    assert_int_equal(lock_try_exclusive(fd, 7), 0);
    assert_int_equal(lock_is_held(fd, 7), 1);
    assert_int_equal(lock_try_exclusive(fd, 5), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(lock_try_exclusive(fd, 5), 1);
    assert_int_equal(lock_try_exclusive(fd, 7), 1);
    (void)close(fd);
}

static void
descriptions_exclude_each_other(void **state)
{
    (void)state;
    int a = lock_open(path, NULL), b = lock_open(path, NULL), c = lock_open(path, NULL);

    assert_int_equal(lock_try_exclusive(a, INT64_C(1) << 61), 1);
    assert_int_equal(lock_is_held(a, INT64_C(1) << 61), 0); /* by itself: not "anybody else" */
    assert_int_equal(lock_is_held(b, INT64_C(1) << 61), 1);
    (void)close(c); /* POSIX locks would be lost here */
    assert_int_equal(lock_try_exclusive(b, INT64_C(1) << 61), 0);
    assert_int_equal(lock_release(a, INT64_C(1) << 61), 0);
    assert_int_equal(lock_try_exclusive(b, INT64_C(1) << 61), 1);
    (void)close(a);
    (void)close(b);
}

static void
errors(void **state)
{
    (void)state;
    struct err err = ERR_INIT;

    assert_int_equal(lock_open("/nonexistent/lock", &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(lock_try_exclusive(-1, 0), -1);
    assert_int_equal(lock_is_held(-1, 0), -1);
    assert_int_equal(lock_release(-1, 0), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process_holds_and_dies),
        cmocka_unit_test(descriptions_exclude_each_other),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
