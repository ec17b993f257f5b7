/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"

static void
deadlines(void **state)
{
    (void)state;
    struct deadline d = deadline_in(60000);

    assert_false(deadline_passed(d));
    assert_in_range(deadline_left_ms(d), 50000, 60000);
    assert_int_equal(deadline_poll_ms(d, 100), 100);
    assert_true(deadline_passed(deadline_in(0)));
    assert_true(deadline_passed(deadline_in(-5)));
    assert_int_equal(deadline_left_ms(deadline_in(-5)), 0);
    assert_false(deadline_passed(DEADLINE_NEVER));
    assert_true(deadline_left_ms(DEADLINE_NEVER) == INT64_MAX);
    assert_int_equal(deadline_poll_ms(DEADLINE_NEVER, INT_MAX), INT_MAX);
    assert_false(deadline_passed(deadline_in(INT64_MAX)));
    assert_true(deadline_min(d, DEADLINE_NEVER).at_ms == d.at_ms);
}

static void
printing(void **state)
{
    (void)state;
    char iso[CLOCK_RFC3339_SIZE], http[CLOCK_HTTP_SIZE];

    clock_rfc3339(INT64_C(1767323045678), iso);
    assert_string_equal(iso, "2026-01-02T03:04:05.678Z");
    clock_rfc3339(INT64_MAX, iso);
    assert_string_equal(iso, "9999-12-31T23:59:59.999Z");
    clock_rfc3339(INT64_MIN, iso);
    assert_string_equal(iso, "1970-01-01T00:00:00.000Z");
    clock_http(INT64_C(784111777000), http); /* RFC 9110 5.6.7 */
    assert_string_equal(http, "Sun, 06 Nov 1994 08:49:37 GMT");
}

static void
parsing(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         "Mon, 06 Nov 1994 08:49:37 GMT",
                         "Sun, 06 Nov 1994 08:49:37 UTC",
                         "Sun, 06 Nov 1994 24:00:00 GMT",
                         "Sun, 31 Nov 1994 08:49:37 GMT",
                         "Sun, 6 Nov 1994 08:49:37 GMT",
                         "Sunday, 06-Nov-94 08:49:37 GMT",
                         "Sun, 06 Nov 1994 08:49:37 GMT ",
                         "Sun, 06 nov 1994 08:49:37 GMT",
                         "Sun, 06 Nov 1994 08-49:37 GMT",
                         "Sun, -6 Nov 1994 08:49:37 GMT"};
    int64_t ms = -1;

    assert_int_equal(clock_parse_http("Sun, 06 Nov 1994 08:49:37 GMT", &ms), 1);
    assert_true(ms == INT64_C(784111777000));
    assert_int_equal(clock_parse_http("Thu, 29 Feb 2024 00:00:00 GMT", &ms), 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(clock_parse_http(bad[i], &ms), 0);
}

static void
clocks_run(void **state)
{
    (void)state;
    char id[CLOCK_BOOT_ID_SIZE];
    int64_t us = clock_mono_us();

    assert_true(clock_mono_us() >= us);
    assert_true(clock_boot_ms() > 0);
    assert_true(clock_wall_ms() > INT64_C(1700000000000));
    clock_boot_id(id);
    assert_true(strlen(id) == 36 || strcmp(id, "unknown") == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines),
        cmocka_unit_test(printing),
        cmocka_unit_test(parsing),
        cmocka_unit_test(clocks_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
