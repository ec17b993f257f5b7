/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <string.h>

#include "base/buf.h"

static void
empty_is_a_string(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(10);
    size_t len = 7;

    assert_string_equal(buf_str(&b), "");
    char *s = buf_steal(&b, &len);
    assert_string_equal(s, "");
    assert_int_equal(len, 0);
    free(s);
    buf_done(&b);
}

static void
maximum_is_exact_and_failure_sticks(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(5);
    struct err err = ERR_INIT;

    assert_int_equal(buf_puts(&b, "abcde"), 0);
    assert_int_equal(buf_check(&b, "name", &err), 0);
    assert_int_equal(buf_putc(&b, 'f'), -1);
    assert_string_equal(buf_str(&b), "abcde");
    assert_int_equal(buf_append(&b, "", 0), -1);
    assert_int_equal(buf_check(&b, "name", &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.msg, "name is longer than 5 bytes");
    buf_clear(&b);
    assert_int_equal(buf_puts(&b, "x"), 0);
    assert_string_equal(buf_str(&b), "x");
    buf_done(&b);
}

static void
huge_sizes_do_not_wrap(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(SIZE_MAX);

    assert_int_equal(buf_puts(&b, "a"), 0);
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed);
    buf_clear(&b);
    assert_null(buf_reserve(&b, SIZE_MAX / 2));
    buf_done(&b);
}

static void
printf_short_and_long(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(2000);
    char big[1001];

    memset(big, 'x', 1000);
    big[1000] = '\0';
    assert_int_equal(buf_printf(&b, "%d-%s", 7, "y"), 0);
    assert_int_equal(buf_printf(&b, "%s!", big), 0);
    assert_int_equal(b.len, 3 + 1001);
    assert_int_equal(buf_str(&b)[b.len - 1], '!');
    assert_int_equal(buf_printf(&b, "%s", big), -1);
    assert_int_equal(b.len, 3 + 1001);
    assert_int_equal(strlen(b.data), b.len);
    buf_done(&b);
}

static void
reserve_consume_steal(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(100);
    size_t len;

    memcpy(buf_reserve(&b, 50), "0123456789", 10);
    buf_added(&b, 10);
    buf_consume(&b, 3);
    assert_string_equal(buf_str(&b), "3456789");
    buf_consume(&b, 100);
    assert_string_equal(buf_str(&b), "");
    assert_int_equal(buf_append(&b, "a\0b", 3), 0);
    char *s = buf_steal(&b, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(s, "a\0b", 4);
    free(s);
    assert_int_equal(b.max, 100);
    assert_int_equal(buf_puts(&b, "again"), 0);
    buf_done(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_a_string),
        cmocka_unit_test(maximum_is_exact_and_failure_sticks),
        cmocka_unit_test(huge_sizes_do_not_wrap),
        cmocka_unit_test(printf_short_and_long),
        cmocka_unit_test(reserve_consume_steal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
