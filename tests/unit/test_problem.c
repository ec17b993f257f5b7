/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/problem.h"

static void
t_every_row_is_complete_and_unique(void **state)
{
    (void)state;
    size_t n;
    const struct problem *t = problem_table(&n);
    assert_true(n > 40);
    for (size_t i = 0; i < n; i++) {
        assert_true(t[i].status >= 400 && t[i].status < 600);
        assert_true(strlen(t[i].title) > 0 && t[i].title[strlen(t[i].title) - 1] != '.');
        assert_true(strlen(t[i].help) > 0 && t[i].help[strlen(t[i].help) - 1] == '.');
        /* nginx's configuration and JSON hold them as they are. */
        assert_null(strpbrk(t[i].title, "\"\\$'"));
        assert_null(strpbrk(t[i].help, "\"\\$"));
        assert_int_equal(strspn(t[i].slug, "abcdefghijklmnopqrstuvwxyz_"), strlen(t[i].slug));
        assert_ptr_equal(problem_find(t[i].slug), &t[i]); /* the first of its name */
        if (i > 0)
            assert_true(t[i].status >= t[i - 1].status);
    }
    assert_null(problem_find("nonesuch"));
    assert_null(problem_find(""));
}

static void
t_a_slug_wins_over_the_code(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    err_slug(&err, ERR_CONFLICT, "session_busy", "busy");
    assert_int_equal(problem_of(&err)->status, 409);
    assert_string_equal(problem_of(&err)->slug, "session_busy");
    err_slug(&err, ERR_UNAVAILABLE, "start_failed", "x");
    assert_int_equal(problem_of(&err)->status, 502);
    /* One that the table does not know falls back to the code. */
    err_slug(&err, ERR_LIMIT, "nonesuch", "x");
    assert_string_equal(problem_of(&err)->slug, "limit_exceeded");
}

static void
t_every_code_has_a_default(void **state)
{
    (void)state;
    static const struct {
        enum err_code code;
        int status;
        const char *slug;
    } rows[] = {
        {ERR_NONE, 500, "internal"},           {ERR_INVALID, 400, "invalid_request"},
        {ERR_DENIED, 403, "forbidden"},        {ERR_NOT_FOUND, 404, "not_found"},
        {ERR_CONFLICT, 409, "conflict"},       {ERR_LIMIT, 413, "limit_exceeded"},
        {ERR_TIMEOUT, 504, "timeout"},         {ERR_ABORTED, 499, "client_closed"},
        {ERR_NOMEM, 500, "internal"},          {ERR_INTERNAL, 500, "internal"},
        {ERR_UNAVAILABLE, 503, "unavailable"}, {ERR_UNCERTAIN, 503, "unavailable"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_INIT;
        err_set(&err, rows[i].code, "x");
        assert_non_null(problem_of(&err));
        assert_int_equal(problem_of(&err)->status, rows[i].status);
        assert_string_equal(problem_of(&err)->slug, rows[i].slug);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_every_row_is_complete_and_unique),
        cmocka_unit_test(t_a_slug_wins_over_the_code),
        cmocka_unit_test(t_every_code_has_a_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
