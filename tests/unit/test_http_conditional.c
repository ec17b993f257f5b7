/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "http/conditional.h"
#include "unit/http_fake.h"

/* Tue, 01 Dec 2020 00:00:00 GMT, and a bit: the fraction is cut before dates are compared. */
#define MTIME (INT64_C(1606780800) * 1000 + 250)
#define SAME "Tue, 01 Dec 2020 00:00:00 GMT"
#define BEFORE "Mon, 30 Nov 2020 23:59:59 GMT"
#define AFTER "Tue, 01 Dec 2020 00:00:01 GMT"

static int
check(enum http_method m, bool exists, const char *etag, const char *name, const char *value,
      const char *name2, const char *value2)
{
    const char *headers[] = {name, value, name2, value2, NULL};
    struct fake f;
    struct http_exchange x;

    fake_init(&f, &x, m, headers);
    int rc = http_precondition(&x, exists, etag, MTIME);
    fake_done(&f, &x);
    return rc;
}

static void
t_rows(void **state)
{
    static const struct {
        enum http_method m;
        bool exists;
        const char *etag, *name, *value;
        int want;
    } rows[] = {
        {HTTP_PUT, true, "\"a\"", "if-match", "\"a\"", 0},
        {HTTP_PUT, true, "\"a\"", "if-match", "\"b\", ,\"a\" , \"c\"", 0},
        {HTTP_PUT, true, "\"a\"", "if-match", "\"b\"", 412},
        {HTTP_PUT, true, "W/\"a\"", "if-match", "W/\"a\"", 412}, /* strong comparison */
        {HTTP_PUT, true, "\"a\"", "if-match", "W/\"a\"", 412},
        {HTTP_PUT, true, "\"a\"", "if-match", "*", 0},
        {HTTP_PUT, false, NULL, "if-match", "*", 412},
        {HTTP_PUT, false, NULL, "if-match", "\"a\"", 412},
        {HTTP_PUT, true, "\"a\"", "if-match", "a", 400},
        {HTTP_PUT, true, "\"a\"", "if-match", "\"a", 400},
        {HTTP_PUT, true, "\"a\"", "if-match", "\"a\" \"b\"", 400},
        {HTTP_PUT, true, "\"a\"", "if-match", "*, \"a\"", 400},
        {HTTP_PUT, true, "\"a\"", "if-match", "", 400},
        {HTTP_PUT, true, "\"a\"", "if-match", " , ", 400},
        {HTTP_PUT, true, "\"a\"", "if-match", "w/\"a\"", 400},
        {HTTP_GET, true, "\"a\"", "if-none-match", "\"a\"", 304},
        {HTTP_HEAD, true, "W/\"a\"", "if-none-match", "\"a\"", 304}, /* weak comparison */
        {HTTP_GET, true, "\"a\"", "if-none-match", "W/\"a\"", 304},
        {HTTP_GET, true, "\"a\"", "if-none-match", "\"b\"", 0},
        {HTTP_PUT, true, "\"a\"", "if-none-match", "*", 412},
        {HTTP_PUT, false, NULL, "if-none-match", "*", 0},
        {HTTP_GET, true, NULL, "if-none-match", "\"a\"", 0},
        {HTTP_GET, true, "\"a\"", "if-none-match", "x", 400},
        {HTTP_GET, true, "\"a\"", "if-modified-since", SAME, 304},
        {HTTP_GET, true, "\"a\"", "if-modified-since", AFTER, 304},
        {HTTP_GET, true, "\"a\"", "if-modified-since", BEFORE, 0},
        {HTTP_PUT, true, "\"a\"", "if-modified-since", SAME, 0}, /* for reading only */
        {HTTP_GET, true, "\"a\"", "if-modified-since", "yesterday", 0},
        {HTTP_PUT, true, "\"a\"", "if-unmodified-since", SAME, 0},
        {HTTP_PUT, true, "\"a\"", "if-unmodified-since", BEFORE, 412},
        {HTTP_PUT, true, "\"a\"", "if-unmodified-since", "x", 0},
        {HTTP_PUT, false, NULL, "if-unmodified-since", BEFORE, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int rc =
            check(rows[i].m, rows[i].exists, rows[i].etag, rows[i].name, rows[i].value, NULL, NULL);
        if (rc != rows[i].want)
            fail_msg("row %zu, %s: %s gives %d", i, rows[i].name, rows[i].value, rc);
    }
}

static void
t_precedence(void **state)
{
    (void)state;
    /* a tag silences the date of its kind */
    assert_int_equal(
        check(HTTP_PUT, true, "\"a\"", "if-match", "\"a\"", "if-unmodified-since", BEFORE), 0);
    assert_int_equal(
        check(HTTP_GET, true, "\"a\"", "if-none-match", "\"b\"", "if-modified-since", SAME), 0);
    /* If-Match comes first, If-None-Match after it */
    assert_int_equal(check(HTTP_GET, true, "\"a\"", "if-match", "\"b\"", "if-none-match", "\"a\""),
                     412);
    assert_int_equal(check(HTTP_GET, true, "\"a\"", "if-match", "\"a\"", "if-none-match", "\"a\""),
                     304);
}

static bool
ranged(const char *value, const char *etag, int64_t mtime)
{
    const char *headers[] = {value ? "if-range" : NULL, value, NULL};
    struct fake f;
    struct http_exchange x;

    fake_init(&f, &x, HTTP_GET, headers);
    bool rc = http_if_range(&x, etag, mtime);
    fake_done(&f, &x);
    return rc;
}

static void
t_if_range(void **state)
{
    int64_t now = clock_wall_ms();
    char date[CLOCK_HTTP_SIZE];

    (void)state;
    assert_true(ranged(NULL, "\"a\"", MTIME));
    assert_true(ranged("\"a\"", "\"a\"", MTIME));
    assert_false(ranged("\"b\"", "\"a\"", MTIME));
    assert_false(ranged("W/\"a\"", "W/\"a\"", MTIME));
    assert_false(ranged("\"a\"", "W/\"a\"", MTIME));
    assert_false(ranged("\"a\" x", "\"a\"", MTIME));
    assert_false(ranged("\"a\"", NULL, MTIME));
    assert_true(ranged(SAME, "\"a\"", MTIME));
    assert_false(ranged(AFTER, "\"a\"", MTIME));
    assert_false(ranged("", "\"a\"", MTIME));
    clock_http(now, date); /* a file still being written has no strong date */
    assert_false(ranged(date, "\"a\"", now));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_rows),
        cmocka_unit_test(t_precedence),
        cmocka_unit_test(t_if_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
