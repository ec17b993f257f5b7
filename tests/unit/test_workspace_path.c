/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workspace/workspace.h"

static int
check(const char *path, size_t n)
{
    struct err err = ERR_INIT;
    int r = workspace_path_check(path, n, &err);

    if (r < 0) {
        assert_int_equal(err.code, ERR_INVALID);
        assert_string_equal(err.slug, "bad_path");
    }
    return r;
}

static void
t_good_paths(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a",        "a b",       "a+b.txt", "100%.txt", "%2e%2e/x", "..a",
        "a..",      "...",       ".hidden", "a/b/c",    "\xff\xfe", "\xc0\xae\xc0\xae/x",
        "a?b#c",    ".husk",     "husk-x",  "-rf",      "a\\b",     "\xc3\xa4/\xe2\x82\xac",
        ".huskies", "x/.husk.x",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(check(good[i], strlen(good[i])), 0);
}

static void
t_bad_paths(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",     "/",    "/a",     "a/",     "a//b",    ".",           "..",
        "./a",  "a/.",  "a/./b",  "a/..",   "../x",    "a/../../b",   "a\nb",
        "\x7f", "\x01", "a/b/..", ".husk-", ".husk-x", "a/.husk-1/b", "a/.husk-1",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(check(bad[i], strlen(bad[i])), -1);
    assert_int_equal(check("a\0b", 3), -1);
}

static void
t_lengths(void **state)
{
    (void)state;
    char p[1100];

    memset(p, 'x', sizeof(p));
    assert_int_equal(check(p, 255), 0);
    assert_int_equal(check(p, 256), -1);
    for (size_t i = 100; i < sizeof(p); i += 100)
        p[i] = '/';
    assert_int_equal(check(p, 1024), 0);
    assert_int_equal(check(p, 1025), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_good_paths),
        cmocka_unit_test(t_bad_paths),
        cmocka_unit_test(t_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
