/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>

#include "unit/http_fake.h"

static void
t_send(void **state)
{
    struct fake f;
    struct http_exchange x;

    (void)state;
    fake_init(&f, &x, HTTP_GET, NULL);
    http_add_header(&x, "ETag", "\"%d\"", 7);
    assert_int_equal(http_send(&x, 200, "text/plain", "hi", 2), 0);
    assert_string_equal(buf_str(&f.out), "Status: 200 OK\r\nContent-Type: text/plain\r\n"
                                         "Content-Length: 2\r\nX-Request-Id: rid\r\n"
                                         "ETag: \"7\"\r\n\r\nhi");
    assert_int_equal(f.writes, 1);
    assert_int_equal(x.sent, 2);
    assert_int_equal(x.status, 200);
    /* only one head */
    assert_int_equal(http_send_empty(&x, 500), -1);
    assert_int_equal(f.writes, 1);
    fake_done(&f, &x);
}

static void
t_head_sends_no_body(void **state)
{
    struct fake f;
    struct http_exchange x;

    (void)state;
    fake_init(&f, &x, HTTP_HEAD, NULL);
    assert_int_equal(http_begin(&x, 206, "image/png", 1000), 0);
    assert_int_equal(http_write(&x, "data", 4), 0);
    assert_non_null(strstr(buf_str(&f.out), "Content-Length: 1000\r\n"));
    assert_null(strstr(buf_str(&f.out), "data"));
    assert_int_equal(x.sent, 0);
    fake_done(&f, &x);
}

static void
t_no_length_where_none_belongs(void **state)
{
    static const int none[] = {204, 304};
    struct fake f;
    struct http_exchange x;

    (void)state;
    for (int i = 0; i < 2; i++) {
        fake_init(&f, &x, HTTP_DELETE, NULL);
        assert_int_equal(http_send_empty(&x, none[i]), 0);
        assert_null(strstr(buf_str(&f.out), "Content-"));
        fake_done(&f, &x);
    }
    fake_init(&f, &x, HTTP_GET, NULL);
    assert_int_equal(http_send_empty(&x, 202), 0);
    assert_non_null(strstr(buf_str(&f.out), "Content-Length: 0\r\n"));
    fake_done(&f, &x);
    fake_init(&f, &x, HTTP_GET, NULL);
    assert_int_equal(http_begin(&x, 200, "text/event-stream", -1), 0);
    assert_null(strstr(buf_str(&f.out), "Content-Length"));
    fake_done(&f, &x);
}

static void
t_given_headers_win(void **state)
{
    struct fake f;
    struct http_exchange x;

    (void)state;
    fake_init(&f, &x, HTTP_GET, NULL);
    http_add_header(&x, "x-request-id", "mine");
    http_add_header(&x, "Content-Type", "a/b");
    assert_int_equal(http_send(&x, 200, "text/plain", "", 0), 0);
    assert_null(strstr(buf_str(&f.out), "rid"));
    assert_null(strstr(buf_str(&f.out), "text/plain"));
    fake_done(&f, &x);
}

static void
t_header_injection(void **state)
{
    struct fake f;
    struct http_exchange x;
    char *big = calloc(1, HTTP_HEAD_MAX);

    (void)state;
    fake_init(&f, &x, HTTP_GET, NULL);
    http_add_header(&x, "A", "a\r\nSet-Cookie: b");
    http_add_header(&x, "B", "a\nb");
    http_add_header(&x, "C", "a%cb", '\0');
    memset(big, 'x', HTTP_HEAD_MAX - 1);
    http_add_header(&x, "D", "%s", big);
    assert_int_equal(x.headers.len, 0);
    for (int i = 0; i < 170; i++)
        http_add_header(&x, "E", "%0100d", i);
    assert_true(x.headers.len <= HTTP_HEAD_MAX);
    assert_int_equal(http_send_empty(&x, 200), 0);
    free(big);
    fake_done(&f, &x);
}

static void
on_renewed(void *ctx, struct deadline budget)
{
    if (deadline_left_ms(budget) > HTTP_STALL_MS / 2)
        ++*(int *)ctx;
}

static void
t_large_body_and_gone_peer(void **state)
{
    struct fake f;
    struct http_exchange x;
    size_t n = HTTP_SMALL_BODY + 1;
    char *body = calloc(1, n);
    int renewed = 0;

    (void)state;
    fake_init(&f, &x, HTTP_GET, NULL);
    x.renewed = on_renewed;
    x.watch_ctx = &renewed;
    x.budget = deadline_in(1000);
    assert_int_equal(http_send(&x, 200, "a/b", body, n), 0);
    assert_int_equal(f.writes, 3); /* the head, then two steps, each of which renews the budget */
    assert_int_equal(renewed, 3);
    assert_memory_equal(f.out.data + f.out.len - n, body, n);
    f.gone = true;
    assert_int_equal(http_write(&x, "x", 1), -1);
    assert_true(x.broken);
    assert_int_equal(http_write(&x, "x", 1), -1);
    assert_int_equal(f.writes, 4); /* not tried again */
    free(body);
    fake_done(&f, &x);
}

static int
read_with(const char *body, int64_t length, size_t max, struct buf *ret, struct err *err)
{
    struct fake f;
    struct http_exchange x;

    fake_init(&f, &x, HTTP_POST, NULL);
    f.body = body;
    f.body_len = strlen(body);
    f.piece = 3;
    x.req.content_length = length;
    int rc = http_read_body(&x, max, ret, err);
    fake_done(&f, &x);
    return rc;
}

static void
t_read_body(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(100);
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(read_with("0123456789rest", 10, 10, &b, &err), 0);
    assert_string_equal(buf_str(&b), "0123456789");
    buf_clear(&b);
    assert_int_equal(read_with("", 0, 0, &b, &err), 0);
    assert_int_equal(read_with("0123456789", 11, 10, &b, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.slug, "body_too_large");
    assert_int_equal(read_with("x", -1, 10, &b, &err), -1);
    assert_string_equal(err.slug, "length_required");
    assert_int_equal(read_with("01234", 10, 10, &b, &err), -1);
    assert_int_equal(err.code, ERR_ABORTED);
    assert_string_equal(err.slug, "body_incomplete");
    buf_clear(&b);
    assert_int_equal(read_with("x", INT64_MAX, SIZE_MAX, &b, &err), -1);
}

static void
t_drain(void **state)
{
    struct fake f;
    struct http_exchange x;

    (void)state;
    fake_init(&f, &x, HTTP_POST, NULL);
    f.body = "0123456789";
    f.body_len = 10;
    http_drain(&x, 4);
    assert_int_equal(f.body_at, 4);
    http_drain(&x, 100);
    assert_int_equal(f.body_at, 10);
    fake_done(&f, &x);
}

static void
t_query_lookup(void **state)
{
    struct fake f;
    struct http_exchange x;
    struct err err = ERR_INIT;
    size_t n;

    (void)state;
    fake_init(&f, &x, HTTP_GET, NULL);
    assert_int_equal(http_parse_target(&x.req, "/?a=bc", &err), 0);
    assert_string_equal(http_query(&x, "a", &n), "bc");
    assert_int_equal(n, 2);
    assert_null(http_query(&x, "b", NULL));
    fake_done(&f, &x);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_send),
        cmocka_unit_test(t_head_sends_no_body),
        cmocka_unit_test(t_no_length_where_none_belongs),
        cmocka_unit_test(t_given_headers_win),
        cmocka_unit_test(t_header_injection),
        cmocka_unit_test(t_large_body_and_gone_peer),
        cmocka_unit_test(t_read_body),
        cmocka_unit_test(t_drain),
        cmocka_unit_test(t_query_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
