/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "base/clock.h"
#include "base/sig.h"
#include "fcgi_server.h"
#include "support/fcgi_client.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int
call(const char *uri, const char *extra, const char *body, char *out, size_t size)
{
    const char *params[] = {"REQUEST_METHOD=POST", uri, extra, NULL};

    return fcgi_client_call(server.path, params, body, out, size);
}

/* Begins a request and leaves it open. */
static void
begin(struct fcgi_client *c, const char *uri, const char *extra)
{
    const char *params[] = {"REQUEST_METHOD=POST", uri, extra, NULL};

    assert_int_equal(fcgi_client_connect(c, server.path), 0);
    assert_int_equal(fcgi_client_begin(c, params), 0);
}

static void
still_serving(void)
{
    char out[100];

    assert_int_equal(call("REQUEST_URI=/nowhere", NULL, "", out, sizeof(out)), 404);
}

static void
t_body_in_all_sizes(void **state)
{
    static const size_t records[] = {1, 7, 1000, 8192, 65535};
    char body[70000], length[40], want[100], out[100];
    unsigned long sum = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(body); i++) {
        body[i] = (char)(i * 31 / 7);
        sum = sum * 31 + (unsigned char)body[i];
    }
    (void)snprintf(length, sizeof(length), "CONTENT_LENGTH=%zu", sizeof(body));
    (void)snprintf(want, sizeof(want), "%zu %lu %zu", sizeof(body), sum, sizeof(body));
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        struct fcgi_client c;
        begin(&c, "REQUEST_URI=/sum", length);
        assert_int_equal(fcgi_client_body(&c, body, sizeof(body), records[i]), 0);
        assert_int_equal(fcgi_client_end_body(&c), 0);
        assert_int_equal(fcgi_client_read_all(&c, NULL, NULL), 0);
        assert_int_equal(fcgi_client_status(&c), 200);
        assert_int_equal(c.body_len, strlen(want));
        fcgi_client_close(&c);
        expect_report("body 70000 whole");
    }
    assert_int_equal(call("REQUEST_URI=/sum", "CONTENT_LENGTH=0", "", out, sizeof(out)), 200);
    assert_string_equal(out, "0 0 0");
    expect_report("body 0 whole");
}

static void
t_length_is_the_truth(void **state)
{
    char out[100];

    (void)state;
    /* more than announced: the rest is left alone */
    assert_int_equal(call("REQUEST_URI=/sum", "CONTENT_LENGTH=3", "abcdef", out, sizeof(out)), 200);
    assert_memory_equal(out, "3 ", 2);
    expect_report("body 3 whole");
    /* less than announced is no body */
    assert_int_equal(call("REQUEST_URI=/sum", "CONTENT_LENGTH=7", "abcdef", out, sizeof(out)), 400);
    expect_report("body 6 cut");
    /* none announced: to the end */
    assert_int_equal(call("REQUEST_URI=/sum", "CONTENT_LENGTH=", "abcdef", out, sizeof(out)), 200);
    expect_report("body 6 whole");
}

static void
t_bad_requests(void **state)
{
    static const char *const lengths[] = {"CONTENT_LENGTH=-1", "CONTENT_LENGTH=1x",
                                          "CONTENT_LENGTH= 1", "CONTENT_LENGTH=+1",
                                          "CONTENT_LENGTH=99999999999999999999"};
    char out[100];

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        assert_int_equal(call("REQUEST_URI=/sum", lengths[i], "", out, sizeof(out)), 400);
        assert_string_equal(out, "bad_header");
    }
    assert_int_equal(call("REQUEST_URI=/%zz", NULL, "", out, sizeof(out)), 400);
    assert_string_equal(out, "bad_request_target");
    assert_int_equal(call("SOMETHING=else", NULL, "", out, sizeof(out)), 400);
    assert_string_equal(out, "bad_request_target");
}

static void
t_aborted_upload(void **state)
{
    struct fcgi_client c;

    (void)state;
    begin(&c, "REQUEST_URI=/sum", "CONTENT_LENGTH=100");
    assert_int_equal(fcgi_client_body(&c, "0123456789", 10, 0), 0);
    fcgi_client_close(&c);
    expect_report("body 10 cut");
    /* in the middle of a record */
    begin(&c, "REQUEST_URI=/sum", "CONTENT_LENGTH=100");
    assert_int_equal(fcgi_client_raw(&c, "\1\5\0\1\0\144\0\0abc", 11), 0);
    fcgi_client_close(&c);
    expect_report("body 3 cut");
    /* an abort record */
    begin(&c, "REQUEST_URI=/sum", "CONTENT_LENGTH=100");
    assert_int_equal(fcgi_client_record(&c, 2, NULL, 0), 0);
    expect_report("body 0 cut");
    fcgi_client_close(&c);
    /* a silent client: the time-out of the read ends it */
    int64_t before = clock_mono_ms();
    begin(&c, "REQUEST_URI=/sum", "CONTENT_LENGTH=100");
    expect_report("body 0 cut");
    assert_true(clock_mono_ms() - before >= IO_TIMEOUT_MS - 100);
    fcgi_client_close(&c);
    still_serving();
}

static void
t_signal_does_not_cut_a_body(void **state)
{
    struct fcgi_client c;

    (void)state;
    begin(&c, "REQUEST_URI=/sum", "CONTENT_LENGTH=6");
    assert_int_equal(fcgi_client_body(&c, "abc", 3, 0), 0);
    (void)poll(NULL, 0, 100);
    assert_int_equal(kill(server.pid, SIGWINCH), 0);
    assert_int_equal(kill(server.pid, SIGUSR1), 0); /* libfcgi's own handler */
    (void)poll(NULL, 0, 100);
    assert_int_equal(fcgi_client_body(&c, "def", 3, 0), 0);
    expect_report("body 6 whole");
    fcgi_client_close(&c);
}

static void
t_garbage(void **state)
{
    static const struct {
        const char *p;
        size_t n;
    } rows[] = {
        {"GET / HTTP/1.0\r\n\r\n", 18},
        {"\1\1\0\1\0\10\0\0\0\11\0\0\0\0\0\0", 16}, /* an unknown role */
        {"\1\1\0\0\0\10\0\0\0\1\0\0\0\0\0\0", 16},  /* request id 0 */
        {"\1\4\0\1\0\4\0\0abcd", 12},               /* parameters before the beginning */
        {"\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0\1\4\0\1\0\4\0\0\377\377\377\377", 28},
        {"\1", 1},
        {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fcgi_client c;
        assert_int_equal(fcgi_client_connect(&c, server.path), 0);
        (void)fcgi_client_raw(&c, rows[i].p, rows[i].n);
        (void)shutdown(c.fd, SHUT_WR);
        still_serving();
        fcgi_client_close(&c);
    }
}

static void
t_gone_peer(void **state)
{
    struct fcgi_client c;

    (void)state;
    begin(&c, "REQUEST_URI=/gone", NULL);
    assert_int_equal(fcgi_client_end_body(&c), 0);
    while (c.body_len < 4)
        assert_int_equal(fcgi_client_read(&c, NULL, NULL, 5000), 1);
    int64_t before = clock_mono_ms();
    fcgi_client_close(&c);
    expect_report("gone");
    assert_true(clock_mono_ms() - before < 2000);
    still_serving();
}

static void
check_pattern(void *ctx, const void *p, size_t n)
{
    size_t *at = ctx;
    const char *c = p;

    for (size_t i = 0; i < n; i++, (*at)++) {
        if (c[i] != (char)(*at * 7 / 5))
            fail_msg("byte %zu differs", *at);
    }
}

static void
t_client_that_does_not_read(void **state)
{
    struct fcgi_client c;
    size_t at = 0;

    (void)state;
    begin(&c, "REQUEST_URI=/some", NULL);
    assert_int_equal(fcgi_client_end_body(&c), 0);
    expect_report("some 1 slowest quick");
    assert_int_equal(fcgi_client_read_all(&c, check_pattern, &at), 0);
    assert_true(c.ended);
    assert_int_equal(at, 3000000);
    fcgi_client_close(&c);
    /* one that never reads is given up */
    begin(&c, "REQUEST_URI=/big", NULL);
    int64_t before = clock_mono_ms();
    still_serving();
    assert_true(clock_mono_ms() - before < 10000);
    fcgi_client_close(&c);
}

static void
t_break_off(void **state)
{
    struct fcgi_client c;

    (void)state;
    begin(&c, "REQUEST_URI=/break", NULL);
    assert_int_equal(fcgi_client_end_body(&c), 0);
    assert_int_equal(fcgi_client_read_all(&c, NULL, NULL), 0);
    assert_true(c.bad_record);
    assert_false(c.ended);
    assert_int_equal(c.body_len, 10);
    fcgi_client_close(&c);
    /* no answer at all: closed, not ended */
    begin(&c, "REQUEST_URI=/silent", NULL);
    assert_int_equal(fcgi_client_read_all(&c, NULL, NULL), 0);
    assert_false(c.ended || c.bad_record);
    fcgi_client_close(&c);
    still_serving();
}

static void
t_ids_and_headers(void **state)
{
    const char *params[] = {"REQUEST_METHOD=GET",
                            "REQUEST_URI=/ids",
                            "HUSK_REQUEST_ID=0a1b_c-D",
                            "HTTP_X_REQUEST_ID=mine:1",
                            "HTTP_IF_MATCH=\"x\"",
                            "CONTENT_TYPE=a/b",
                            "REMOTE_ADDR=",
                            NULL};
    char out[400];

    (void)state;
    assert_int_equal(fcgi_client_call(server.path, params, "", out, sizeof(out)), 200);
    assert_string_equal(out, "0a1b_c-D|mine:1|\"x\"|a/b|none|1");
    params[2] = "HUSK_REQUEST_ID=with space";
    params[3] = "HTTP_X_REQUEST_ID=a b";
    assert_int_equal(fcgi_client_call(server.path, params, "", out, sizeof(out)), 200);
    assert_int_equal(strcspn(out, "|"), 32);
    assert_memory_equal(out + 32, "|none|", 6);
    /* the longest one that an execution's row holds, and one that is longer */
    char longest[] = "HTTP_X_REQUEST_ID="
                     "0123456789012345678901234567890123456789012345678901234567890123";
    char longer[] = "HTTP_X_REQUEST_ID="
                    "01234567890123456789012345678901234567890123456789012345678901234";
    params[3] = longest;
    assert_int_equal(fcgi_client_call(server.path, params, "", out, sizeof(out)), 200);
    assert_non_null(
        strstr(out, "|0123456789012345678901234567890123456789012345678901234567890123|"));
    params[3] = longer;
    assert_int_equal(fcgi_client_call(server.path, params, "", out, sizeof(out)), 200);
    assert_memory_equal(out + 32, "|none|", 6);
}

static long
server_peak(void)
{
    char out[100];

    assert_int_equal(call("REQUEST_URI=/peak", NULL, "", out, sizeof(out)), 200);
    return strtol(out, NULL, 10);
}

static void
t_constant_memory(void **state)
{
    static char piece[1 << 20];
    struct fcgi_client c;
    long before;

    (void)state;
    still_serving();
    before = server_peak();
    begin(&c, "REQUEST_URI=/sum", "CONTENT_LENGTH=67108864");
    for (int i = 0; i < 64; i++)
        assert_int_equal(fcgi_client_body(&c, piece, sizeof(piece), 65535), 0);
    assert_int_equal(fcgi_client_read_all(&c, NULL, NULL), 0);
    assert_int_equal(fcgi_client_status(&c), 200);
    fcgi_client_close(&c);
    expect_report("body 67108864 whole");
    begin(&c, "REQUEST_URI=/big", NULL);
    assert_int_equal(fcgi_client_read_all(&c, NULL, NULL), 0);
    assert_int_equal(c.body_len, 67108864);
    assert_true(c.ended);
    fcgi_client_close(&c);
    assert_true(server_peak() - before < 4096);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, server_start, server_stop)
    const struct CMUnitTest tests[] = {
        T(t_body_in_all_sizes),
        T(t_length_is_the_truth),
        T(t_bad_requests),
        T(t_aborted_upload),
        T(t_signal_does_not_cut_a_body),
        T(t_garbage),
        T(t_gone_peer),
        T(t_client_that_does_not_read),
        T(t_break_off),
        T(t_ids_and_headers),
        T(t_constant_memory),
    };
    sig_ignore_pipe();
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
