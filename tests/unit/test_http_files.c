/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "http/disposition.h"
#include "http/range.h"

/* "0-4 9-9" of what http_ranges gives, or its number. */
static const char *
ranges(const char *header, int64_t size)
{
    static char out[512];
    struct http_range r[HTTP_RANGES_MAX];
    int n = http_ranges(header, size, r);
    size_t at = 0;

    if (n <= 0) {
        (void)snprintf(out, sizeof(out), "%d", n);
        return out;
    }
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, sizeof(out) - at, "%s%ld-%ld", i ? " " : "",
                               (long)r[i].first, (long)r[i].last);
    return out;
}

static void
t_ranges(void **state)
{
    static const struct {
        const char *header;
        int64_t size;
        const char *want;
    } rows[] = {
        {"bytes=0-4", 10, "0-4"},
        {"Bytes=0-4", 10, "0-4"},
        {"bytes=5-", 10, "5-9"},
        {"bytes=-3", 10, "7-9"},
        {"bytes=-30", 10, "0-9"},
        {"bytes=0-99", 10, "0-9"},
        {"bytes=9-9", 10, "9-9"},
        {"bytes=10-", 10, "-1"},
        {"bytes=-0", 10, "-1"},
        {"bytes=0-", 0, "-1"},
        {"bytes=-5", 0, "-1"},
        {"bytes=10-,0-0", 10, "0-0"},
        {"bytes=0-1,3-4", 10, "0-1 3-4"},
        {"bytes=3-4, 0-1", 10, "0-1 3-4"},
        {"bytes=0-1,2-4", 10, "0-4"},
        {"bytes=0-5,2-3,8-8", 10, "0-5 8-8"},
        {"bytes=,,0-1 , ,", 10, "0-1"},
        {"bytes=0-18446744073709551615", 10, "0-9"},
        {"bytes=99999999999999999999-", 10, "-1"},
        {"bytes=5-4", 10, "0"},
        {"bytes=", 10, "0"},
        {"bytes=a", 10, "0"},
        {"bytes=1", 10, "0"},
        {"bytes=-", 10, "0"},
        {"bytes=1-2-3", 10, "0"},
        {"bytes=1-2 3-4", 10, "0"},
        {"bytes = 1-2", 10, "0"},
        {"items=0-4", 10, "0"},
        {"", 10, "0"},
        {"bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,"
         "30-30",
         100,
         "0-0 2-2 4-4 6-6 8-8 10-10 12-12 14-14 16-16 18-18 20-20 22-22 24-24 26-26 28-28 30-30"},
        {"bytes=0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-", 10, "0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = ranges(rows[i].header, rows[i].size);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s of %ld: %s", rows[i].header, (long)rows[i].size, got);
    }
    assert_string_equal(ranges("bytes=0-", INT64_MAX), "0-9223372036854775806");
}

static void
t_media_types(void **state)
{
    static const char *const unsafe[] = {"a.html",  "a.HTM", "a.svg", "a.xml", "a.js",
                                         "a.xhtml", ".png",  "noext", "png",   "a."};

    (void)state;
    for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
        assert_string_equal(http_media_type(unsafe[i], strlen(unsafe[i])),
                            "application/octet-stream");
    assert_string_equal(http_media_type("plot.PNG", 8), "image/png");
    assert_string_equal(http_media_type("a.tar.gz", 8), "application/gzip");
}

static void
disposition(const char *name, size_t n, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);

    assert_int_equal(http_disposition(&b, name, n), 0);
    assert_string_equal(buf_str(&b), want);
}

static void
t_disposition(void **state)
{
    char longest[1001];
    _cleanup_buf_ struct buf small = BUF_INIT(12);

    (void)state;
    disposition("a.csv", 5, "attachment; filename=\"a.csv\"");
    disposition("x/y/p.png", 9, "inline; filename=\"p.png\"");
    disposition("a.svg", 5, "attachment; filename=\"a.svg\"");
    disposition("a\"b\\c%\n", 7,
                "attachment; filename=\"a_b_c__\"; filename*=UTF-8''a%22b%5Cc%25%0A");
    disposition("\xc3\xa9.txt", 6, "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%A9.txt");
    disposition("\xff", 1, "attachment; filename=\"_\"; filename*=UTF-8''%EF%BF%BD");
    disposition("a\0b", 3, "attachment; filename=\"a_b\"; filename*=UTF-8''a%00b");
    disposition("dir/", 4, "attachment");
    memset(longest, 'a', 1000);
    longest[1000] = '\0';
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    assert_int_equal(http_disposition(&b, longest, 1000), 0);
    assert_true(b.len < 300);
    assert_int_equal(http_disposition(&small, "a.csv", 5), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_ranges),
        cmocka_unit_test(t_media_types),
        cmocka_unit_test(t_disposition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
