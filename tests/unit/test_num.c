/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <string.h>

#include "base/num.h"

static void
u64(void **state)
{
    (void)state;
    const char *bad[] = {"", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616", "1a"};
    uint64_t v = 0;

    assert_true(num_u64("18446744073709551615", 20, UINT64_MAX, &v));
    assert_true(v == UINT64_MAX);
    assert_true(num_u64("007", 3, 7, &v));
    assert_int_equal(v, 7);
    assert_false(num_u64("8", 1, 7, &v));
    assert_true(num_u64("12x", 2, 99, &v)); /* n, not the NUL, ends it */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(num_u64(bad[i], strlen(bad[i]), UINT64_MAX, &v));
    assert_int_equal(v, 12);
}

static void
i64(void **state)
{
    (void)state;
    int64_t v = 0;

    assert_true(num_i64("-9223372036854775808", 20, INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MIN);
    assert_true(num_i64("9223372036854775807", 19, INT64_MIN, INT64_MAX, &v));
    assert_true(v == INT64_MAX);
    assert_false(num_i64("9223372036854775808", 19, INT64_MIN, INT64_MAX, &v));
    assert_false(num_i64("-9223372036854775809", 20, INT64_MIN, INT64_MAX, &v));
    assert_true(num_i64("-0", 2, INT64_MIN, INT64_MAX, &v));
    assert_int_equal(v, 0);
    assert_false(num_i64("-", 1, INT64_MIN, INT64_MAX, &v));
    assert_false(num_i64("--1", 3, INT64_MIN, INT64_MAX, &v));
    assert_false(num_i64("-5", 2, 0, INT64_MAX, &v));
}

static void
doubles(void **state)
{
    (void)state;
    const char *bad[] = {"", "nan", "inf", "0x10", "1e999", "1 ", "1.2.3", "e", "--1"};
    double v = 0;

    assert_true(num_double("1.5e3", 5, &v) && v == 1500.0);
    assert_true(num_double("-.5", 3, &v) && v == -0.5);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(num_double(bad[i], strlen(bad[i]), &v));
}

struct sample {
    const char *text;
    int64_t value; /* -1: refused */
};

static void
bytes(void **state)
{
    (void)state;
    const struct sample samples[] = {
        {"4096", 4096},
        {"25MiB", 25 << 20},
        {"1g", 1 << 30},
        {"512k", 512 << 10},
        {"1.5 GiB", 3 << 29},
        {"9223372036854775807", INT64_MAX},
        {"0", 0},
        {"", -1},
        {"k", -1},
        {"-1", -1},
        {"1 x", -1},
        {"9000000000g", -1},
        {"1e3", -1},
        {"1k ", -1},
        {"9223372036854775808", -1},
    };

    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        int64_t v = -1;

        (void)num_bytes(samples[i].text, strlen(samples[i].text), &v);
        assert_int_equal(v, samples[i].value);
    }
}

static void
durations(void **state)
{
    (void)state;
    const struct sample samples[] = {
        {"60", 60000},
        {"1.5", 1500},
        {"500ms", 500},
        {"30s", 30000},
        {"15min", 900000},
        {"24h", 86400000},
        {"0", 0},
        {"1 fortnight", -1},
        {"30 days", INT64_C(2592000000)},
        {"-5s", -1},
        {"", -1},
        {"99999999999999999999", -1},
        {"0.0005", 0},
        {"ms", -1},
        {"9223372036854775807 weeks", -1},
    };

    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        int64_t v = -1;

        (void)num_duration_ms(samples[i].text, strlen(samples[i].text), &v);
        assert_int_equal(v, samples[i].value);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u64),       cmocka_unit_test(i64),   cmocka_unit_test(doubles),
        cmocka_unit_test(durations), cmocka_unit_test(bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
