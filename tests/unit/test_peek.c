/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "base/buf.h"
#include "fcgi/peek.h"

static void
add_record(struct buf *b, int type, const void *p, size_t n, size_t padding)
{
    unsigned char head[8] = {1,
                             (unsigned char)type,
                             0,
                             1,
                             (unsigned char)(n >> 8),
                             (unsigned char)n,
                             (unsigned char)padding,
                             0};
    assert_int_equal(buf_append(b, head, 8), 0);
    assert_int_equal(buf_append(b, p, n), 0);
    assert_int_equal(buf_append(b, "\0\0\0\0\0\0\0", padding), 0);
}

static void
begin(struct buf *b)
{
    add_record(b, 1, "\0\1\0\0\0\0\0\0", 8, 0);
}

static void
test_found(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    const char *v;
    (void)state;
    begin(&b);
    add_record(&b, 4, "\1\3Axyz\13\6REQUEST_URI/v1/ab", 6 + 2 + 17, 3);
    assert_int_equal(fcgi_find_param(b.data, b.len, "REQUEST_URI", &v), 6);
    assert_memory_equal(v, "/v1/ab", 6);
    assert_int_equal(fcgi_find_param(b.data, b.len, "A", &v), 3);
    assert_int_equal(fcgi_find_param(b.data, b.len, "REQUEST", &v), -1);
}

static void
test_long_lengths_and_further_records(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    char pair[5 + 1 + 300] = {1, (char)0x80, 0, 1, 44, 'A'};
    const char *v;
    (void)state;
    memset(pair + 6, 'v', 300);
    begin(&b);
    add_record(&b, 4, pair, sizeof(pair), 0);
    add_record(&b, 4, "\1\1Bb", 4, 0);
    assert_int_equal(fcgi_find_param(b.data, b.len, "A", &v), 300);
    assert_int_equal(fcgi_find_param(b.data, b.len, "B", &v), 1);
}

static void
test_every_cut_is_safe(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    const char *v;
    (void)state;
    begin(&b);
    add_record(&b, 4, "\1\3Axyz\1\2Bpq", 11, 5);
    for (size_t n = 0; n <= b.len; n++) {
        long found = fcgi_find_param(b.data, n, "B", &v);
        assert_true(found == -1 || (found == 2 && v + 2 <= b.data + n));
    }
}

static void
test_other_bytes(void **state)
{
    const char *v;
    (void)state;
    assert_int_equal(fcgi_find_param("GET / HTTP/1.1\r\n\r\n", 18, "GET", &v), -1);
    assert_int_equal(fcgi_find_param("", 0, "A", &v), -1);
    assert_int_equal(fcgi_find_param("\1\4\0\1\0\2\0\0\xff\xff", 10, "A", &v), -1);
}

static void
test_peek_takes_nothing(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    int pair[2];
    char value[16], seen[64];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(fcgi_peek_param(pair[0], "A", value, sizeof(value), 1), -1);
    begin(&b);
    add_record(&b, 4, "\1\3Axyz", 6, 0);
    assert_int_equal(write(pair[1], b.data, b.len), (ssize_t)b.len);
    assert_int_equal(fcgi_peek_param(pair[0], "A", value, sizeof(value), 100), 3);
    assert_string_equal(value, "xyz");
    assert_int_equal(fcgi_peek_param(pair[0], "A", value, 3, 100), -1);
    assert_int_equal(read(pair[0], seen, sizeof(seen)), (ssize_t)b.len);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_long_lengths_and_further_records),
        cmocka_unit_test(test_every_cut_is_safe),
        cmocka_unit_test(test_other_bytes),
        cmocka_unit_test(test_peek_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
