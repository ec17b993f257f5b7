/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <string.h>

#include "base/utf8.h"

static const char *const valid[] = {
    "",
    "abc",
    "\xc2\x80",
    "\xdf\xbf",
    "\xe0\xa0\x80",
    "\xed\x9f\xbf",
    "\xee\x80\x80",
    "\xef\xbf\xbf",
    "\xf0\x90\x80\x80",
    "\xf4\x8f\xbf\xbf",
};

static const char *const invalid[] = {
    "\x80",
    "\xc0\x80",
    "\xc1\xbf",
    "\xe0\x9f\xbf",
    "\xed\xa0\x80",
    "\xf0\x8f\xbf\xbf",
    "\xf4\x90\x80\x80",
    "\xf5\x80\x80\x80",
    "\xff",
    "\xe2\x82",
    "\xc3(",
    "a\xc3",
};

static void
validity(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        assert_true(utf8_valid(valid[i], strlen(valid[i])));
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        assert_false(utf8_valid(invalid[i], strlen(invalid[i])));
    assert_true(utf8_valid("a\0b", 3));
}

static void
cut_and_next(void **state)
{
    (void)state;
    const char *s = "a\xe2\x82\xac\xf0\x9f\x98\x80z"; /* a, euro, smiley, z: 1 3 4 1 bytes */
    const size_t cut[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9};
    const size_t next[] = {0, 1, 4, 4, 4, 8, 8, 8, 8, 9};

    for (size_t n = 0; n <= 9; n++) {
        assert_int_equal(utf8_cut(s, n), cut[n]);
        assert_int_equal(utf8_next(s, 9, n), next[n]);
    }
    assert_int_equal(utf8_cut("a\xff", 2), 2); /* not the beginning of anything */
    assert_int_equal(utf8_cut("\x80\x80\x80\x80", 4), 4);
    assert_int_equal(utf8_next("\x80\x80\x80\x80\x80", 5, 0), 0);
}

static void
scrubbing(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(20);

    assert_int_equal(utf8_scrub(&b, "a\xff\xc3\xa9\xe2\x82z", 7), 0);
    assert_string_equal(buf_str(&b), "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbdz");
    buf_clear(&b);
    assert_int_equal(utf8_scrub(&b, "\xff\xff\xff\xff\xff\xff\xff", 7), -1);
    buf_done(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validity),
        cmocka_unit_test(cut_and_next),
        cmocka_unit_test(scrubbing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
