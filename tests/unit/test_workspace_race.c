/* SPDX-License-Identifier: MIT */
/*
 * Another process, as a session's code may, swaps a folder with a link that leads out, as fast as
 * it can, while files are put, opened, listed and removed by that name.  Nothing may ever be
 * reached outside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/tmpdir.h"
#include "unit/workspace_fixture.h"

#define TRIES 20000

struct swapper {
    const struct fixture *f;
    atomic_bool stop;
    atomic_long swaps;
};

static void *
swap(void *arg)
{
    struct swapper *s = arg;
    char a[PATH_MAX], b[PATH_MAX];

    (void)tmpdir_path(a, s->f->dir, "a");
    (void)tmpdir_path(b, s->f->dir, "b");
    while (!atomic_load(&s->stop))
        if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0)
            atomic_fetch_add(&s->swaps, 1);
    return NULL;
}

static void
try_open(const struct fixture *f, int *ret_inside)
{
    char text[16] = "";
    _cleanup_close_ int fd = -1;

    if (workspace_open_file(&f->w, "a/secret", 8, &fd, NULL, NULL) < 0)
        return;
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    assert_string_equal(text, "inside");
    (*ret_inside)++;
}

static void
t_nothing_gets_out(void **state)
{
    struct fixture *f = *state;
    struct swapper s = {.f = f};
    pthread_t thread;
    struct stat st;
    struct deadline d = deadline_in(60000);
    int written = 0, opened = 0, listed = 0, tries = 0;

    assert_int_equal(mkdir(fixture_path(f, "a"), 0770), 0);
    fixture_write(f, "a/secret", "inside");
    assert_int_equal(symlink(f->outside, fixture_path(f, "b")), 0);
    assert_int_equal(pthread_create(&thread, NULL, swap, &s), 0);
    /* On a busy machine one side may stand still for long: until both had their turns. */
    while (tries < TRIES || ((written <= 100 || opened <= 100 || tries - written <= 100 ||
                              atomic_load(&s.swaps) <= 1000) &&
                             !deadline_passed(d))) {
        struct file_list l;
        int i = tries++;

        written += fixture_put(f, i % 2 ? "a/new" : "a/x/y/new", "n", NULL) == 0;
        try_open(f, &opened);
        (void)workspace_unlink(&f->w, "a/x", 3, true, NULL);
        (void)workspace_stat(&f->w, "a/secret", 8, &(struct file_info){0}, NULL);
        if (i % 16 == 0 && workspace_list(&f->w, "a", 1, NULL, true, NULL, 0, 100, DEADLINE_NEVER,
                                          &l, NULL) == 0) {
            listed++;
            file_list_done(&l);
        }
    }
    atomic_store(&s.stop, true);
    (void)pthread_join(thread, NULL);
    assert_int_equal(fixture_count(f->outside), 1);
    assert_string_equal(fixture_read(f, "../outside/secret"), "secret");
    assert_int_equal(stat(f->outside, &st), 0);
    assert_true(atomic_load(&s.swaps) > 1000);
    assert_true(written > 100 && tries - written > 100);
    assert_true(opened > 100 && opened < tries);
    assert_true(listed > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(t_nothing_gets_out, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
