/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "workspace/workspace.h"

static const struct {
    const char *pattern, *path;
    bool matches;
} rows[] = {
    {"a", "a", true},
    {"a", "b", false},
    {"a", "ab", false},
    {"", "", true},
    {"", "a", false},
    {"*", "abc", true},
    {"*", "", true},
    {"*", ".hidden", true},
    {"*", "a/b", false},
    {"*.png", "x.png", true},
    {"*.png", "d/x.png", false},
    {"a*b*c", "aXbYbZc", true},
    {"a*b*c", "aXbYbZ", false},
    {"?", "x", true},
    {"?", "/", false},
    {"?", "", false},
    {"a/?", "a/b", true},
    {"a?b", "a/b", false},
    {"**", "a/b/c", true},
    {"**/*.png", "x.png", true},
    {"**/*.png", "a/b/x.png", true},
    {"**/b", "ab", false},
    {"a/**", "a/b/c", true},
    {"a/**", "a", false},
    {"a/**", "ab/c", false},
    {"a/**/z", "a/z", true},
    {"a/**/z", "a/b/c/z", true},
    {"a/**/z", "a/bz", false},
    {"a**z", "a/b/z", true},
    {"a**z", "az", true},
    {"***", "a/b", true},
    {"*/**/x", "a/b/x", true},
    {"*/**/x", "x", false},
    {"**/a/**/b", "a/a/x/b", true},
    {"**/a*b/**/c", "x/aab/ab/c", true},
    {"*a/**/b", "xa/ya/b", true},
    {"[abc]", "b", true},
    {"[abc]", "d", false},
    {"[a-c]x", "bx", true},
    {"[!a-c]", "d", true},
    {"[!a-c]", "b", false},
    {"[^a]", "b", true},
    {"[!a]", "/", false},
    {"[]]", "]", true},
    {"[]a]", "a", true},
    {"[!]]", "]", false},
    {"[a-]", "-", true},
    {"[\\]]", "]", true},
    {"[", "[", true},
    {"[a", "[a", true},
    {"x[", "x[", true},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"a\\", "a\\", true},
    {"[\x80-\xff]", "\xe4", true},
    {"\xc3\xa4*", "\xc3\xa4x", true},
};

static void
t_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (glob_match(rows[i].pattern, strlen(rows[i].pattern), rows[i].path,
                       strlen(rows[i].path)) != rows[i].matches)
            fail_msg("%s against %s", rows[i].pattern, rows[i].path);
}

static void
t_a_nul_is_a_byte(void **state)
{
    (void)state;
    assert_true(glob_match("a?c", 3, "a\0c", 3));
    assert_false(glob_match("abc", 3, "a\0c", 3));
}

static void
t_time_is_bounded(void **state)
{
    (void)state;
    char pattern[GLOB_MAX], path[4096];
    struct deadline d = deadline_in(2000);

    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = i % 3 == 2 ? 'a' : '*';
    pattern[sizeof(pattern) - 1] = 'b';
    memset(path, 'a', sizeof(path));
    assert_false(glob_match(pattern, sizeof(pattern), path, sizeof(path)));
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[0] = 'b';
    assert_false(glob_match(pattern, sizeof(pattern), path, sizeof(path)));
    assert_false(deadline_passed(d));
    assert_false(glob_match(path, GLOB_MAX + 1, path, GLOB_MAX + 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_rows),
        cmocka_unit_test(t_a_nul_is_a_byte),
        cmocka_unit_test(t_time_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
