/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "base/buf.h"
#include "http/multipart.h"

#include <string.h>

#define TYPE "multipart/form-data; boundary=b"
#define HEAD "Content-Disposition: form-data; name=\"a\""
#define ONE(head, content) "--b\r\n" head "\r\n\r\n" content "\r\n--b--\r\n"

static struct multipart m;
static struct multipart_part part;

static int
begin(const char *type, const char *body, size_t n)
{
    struct err err = ERR_INIT;
    int rc = multipart_begin(&m, type, body, n, &err);

    if (rc < 0)
        assert_string_equal(err.slug, "bad_multipart");
    return rc;
}

static int
next(void)
{
    struct err err = ERR_INIT;
    int rc = multipart_next(&m, &part, &err);

    if (rc < 0)
        assert_string_equal(err.slug, "bad_multipart");
    return rc;
}

static void
expect(const char *name, const char *filename, const char *p, size_t n)
{
    assert_int_equal(next(), 1);
    assert_string_equal(part.name, name);
    assert_int_equal(part.has_filename, filename != NULL);
    assert_string_equal(part.filename, filename != NULL ? filename : "");
    assert_int_equal(part.n, n);
    assert_memory_equal(part.p, p, n);
}

static void
test_parts(void **state)
{
    static const char body[] =
        "preamble\r\n--b  \r\n" HEAD "; filename=\"C:\\x\\\"y.csv\"\r\n"
        "Content-Type: text/csv\r\n\r\n\0\r\n--\r\n--a\r\n--b\r\n"
        "content-disposition:form-data;name=c\r\n\r\n\r\n--b\r\n" HEAD "\r\n\r\n--b-- epilogue";

    (void)state;
    assert_int_equal(begin(TYPE, body, sizeof(body) - 1), 0);
    expect("a", "C:\\x\"y.csv", "\0\r\n--\r\n--a", 10);
    expect("c", NULL, "", 0);
    expect("a", NULL, "", 0);
    assert_int_equal(next(), 0);
    assert_int_equal(next(), 0);
}

static void
test_names(void **state)
{
    static const char both[] = ONE(HEAD "; filename=\"x.pdf\"; filename*=UTF-8'de'%C3%A4.pdf", "1");
    static const char *const bad[] = {
        ONE("Content-Disposition: form-data", "1"),
        ONE("Content-Disposition: attachment; name=a", "1"),
        ONE("Content-Disposition: form-data; name=\"a", "1"),
        ONE(HEAD "; name=b", "1"),
        ONE(HEAD "; filename*=latin1''%E4.pdf", "1"),
        ONE(HEAD "; filename*=UTF-8''%zz", "1"),
        ONE(HEAD "\r\nContent-Transfer-Encoding: base64", "1"),
        ONE(HEAD "\r\nno header", "1"),
        ONE("Content-Type: text/plain", "1"),
    };

    (void)state;
    assert_int_equal(begin(TYPE, both, sizeof(both) - 1), 0);
    expect("a", "\xc3\xa4.pdf", "1", 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(begin(TYPE, bad[i], strlen(bad[i])), 0);
        assert_int_equal(next(), -1);
    }
}

static void
test_boundaries(void **state)
{
    static const char body[] = "--x y\r\n" HEAD "\r\n\r\n1\r\n--x y--";
    static const char *const bad[] = {
        "text/plain; boundary=b",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"b \"",
        "multipart/form-data; boundary=b", /* is not in the body */
        "multipart/form-data; boundary=\"b",
        "multipart/form-data; boundary=a@b",
        ("multipart/form-data; "
         "boundary=01234567890123456789012345678901234567890123456789012345678901234567890"),
    };

    (void)state;
    assert_int_equal(
        begin("Multipart/Form-Data; charset=utf-8; boundary=\"x y\"", body, sizeof(body) - 1), 0);
    expect("a", NULL, "1", 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(begin(bad[i], body, sizeof(body) - 1), -1);
    assert_false(multipart_is_form(NULL));
    assert_false(multipart_is_form("multipart/form-datax"));
    assert_int_equal(begin(TYPE, "", 0), -1);
}

/* Cut anywhere it is refused, never read beyond. */
static void
test_cut(void **state)
{
    static const char body[] = ONE(HEAD, "content");
    size_t whole = sizeof(body) - 1 - 2; /* the last line's end need not be there */

    (void)state;
    for (size_t n = 0; n < whole; n++) {
        char *copy = n > 0 ? xstrndup(body, n) : NULL;
        int rc = begin(TYPE, copy, n);

        while (rc >= 0 && (rc = next()) > 0)
            ;
        assert_int_equal(rc, -1);
        free(copy);
    }
}

static void
test_limits(void **state)
{
    _cleanup_buf_ struct buf body = BUF_INIT(100000);
    int n = 0;

    (void)state;
    for (int i = 0; i <= MULTIPART_PARTS_MAX; i++)
        (void)buf_puts(&body, "--b\r\n" HEAD "\r\n\r\n1\r\n");
    (void)buf_puts(&body, "--b--");
    assert_int_equal(begin(TYPE, body.data, body.len), 0);
    while (next() > 0)
        n++;
    assert_int_equal(n, MULTIPART_PARTS_MAX);
    buf_clear(&body);
    (void)buf_puts(&body, "--b\r\n" HEAD "\r\nX-Long: ");
    for (int i = 0; i < MULTIPART_HEADERS_MAX; i++)
        (void)buf_putc(&body, 'x');
    (void)buf_puts(&body, "\r\n\r\n1\r\n--b--");
    assert_int_equal(begin(TYPE, body.data, body.len), 0);
    assert_int_equal(next(), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_names),
        cmocka_unit_test(test_boundaries), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
