/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static void
set_slug_and_sys(void **state)
{
    (void)state;
    struct err e = ERR_INIT;

    assert_int_equal(err_slug(&e, ERR_CONFLICT, "some_code", "no %d", 5), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_string_equal(e.slug, "some_code");
    assert_string_equal(e.msg, "no 5");
    e.retry_after_s = 3;
    assert_int_equal(err_sys(&e, ERR_UNAVAILABLE, ENOENT, "cannot open %s", "x"), -1);
    assert_int_equal(e.sys_errno, ENOENT);
    assert_null(e.slug);
    assert_int_equal(e.retry_after_s, 0);
    assert_string_equal(e.msg, "cannot open x: No such file or directory");
}

static void
wrap_keeps_the_code(void **state)
{
    (void)state;
    struct err e = ERR_INIT;

    err_slug(&e, ERR_LIMIT, "too_large", "at most %d", 3);
    assert_int_equal(err_wrap(&e, "file %s", "a"), -1);
    assert_string_equal(e.msg, "file a: at most 3");
    assert_string_equal(e.slug, "too_large");
    assert_int_equal(e.code, ERR_LIMIT);
}

static void
null_and_long_and_itself(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char big[1000];

    memset(big, 'm', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(err_set(NULL, ERR_INVALID, "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
    assert_int_equal(err_sys(NULL, ERR_INVALID, EIO, "x"), -1);
    err_sys(&e, ERR_INTERNAL, EIO, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    err_wrap(&e, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    err_set(&e, ERR_INVALID, "short");
    err_set(&e, ERR_INVALID, "(%s)", e.msg);
    assert_string_equal(e.msg, "(short)");
}

static void
every_code_has_a_name(void **state)
{
    (void)state;
    for (int c = ERR_NONE; c <= ERR_INTERNAL; c++)
        assert_non_null(err_name((enum err_code)c));
    assert_string_equal(err_name((enum err_code)99), "unknown");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_slug_and_sys),
        cmocka_unit_test(wrap_keeps_the_code),
        cmocka_unit_test(null_and_long_and_itself),
        cmocka_unit_test(every_code_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
