/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/tmpdir.h"
#include "base/post.h"

static void
test_a_descriptor_arrives(void **state)
{
    char dir[PATH_MAX], a[PATH_MAX], b[PATH_MAX], byte;
    struct err err = ERR_INIT;
    struct stat st;
    int ends[2];
    uint64_t note = 0;
    (void)state;
    tmpdir_make(dir);
    (void)tmpdir_path(a, dir, "a");
    (void)tmpdir_path(b, dir, "b");
    int from = post_open(a, &err), to = post_open(b, &err);
    assert_true(from >= 0 && to >= 0);
    assert_int_equal(stat(b, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(post_receive(to, &note), -1);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(post_send(from, b, ends[1], 77), 0);
    (void)close(ends[1]);
    int got = post_receive(to, &note);
    assert_true(note == 77);
    assert_true(got >= 0);
    assert_true((fcntl(got, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(write(got, "x", 1), 1);
    (void)close(got);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    (void)close(ends[0]);
    (void)close(to);
    assert_int_equal(post_send(from, b, 0, 1), -1);
    int again = post_open(b, &err);
    assert_true(again >= 0);
    (void)close(again);
    (void)close(from);
    tmpdir_remove(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_descriptor_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
