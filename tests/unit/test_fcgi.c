/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sig.h"
#include "fcgi/fcgi.h"
#include "support/fcgi_client.h"
#include "support/tmpdir.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/*
 * A server process with a few handlers, and clients in the tests.  What a handler cannot answer
 * (since its client is gone) it writes to the report pipe as one line.
 */

#define IO_TIMEOUT_MS 1500

static struct {
    char dir[PATH_MAX], path[PATH_MAX];
    pid_t pid;
    int report_fd;
} server;

/* ---- the server's side (no assertions here) ---- */

static int report_to;

__attribute__((format(printf, 1, 2))) static void
report(const char *fmt, ...)
{
    char line[200];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (fd_write_all(report_to, line, (size_t)n) < 0)
        _exit(3);
}

static long
peak_kib(void)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
    struct err err = ERR_INIT;

    if (fd_read_file("/proc/self/status", &b, &err) < 0)
        return -1;
    const char *at = strstr(buf_str(&b), "VmHWM:");
    return at ? strtol(at + 6, NULL, 10) : -1;
}

static void answer(struct http_exchange *x, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
answer(struct http_exchange *x, int status, const char *fmt, ...)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    va_list ap;

    va_start(ap, fmt);
    (void)buf_vprintf(&b, fmt, ap);
    va_end(ap);
    (void)http_send(x, status, "text/plain", b.data, b.len);
}

static const char *
or_none(const char *s)
{
    return s ? s : "none";
}

/* The whole body, its length and a sum of it. */
static void
serve_sum(struct http_exchange *x)
{
    char p[10000];
    int64_t n, total = 0;
    unsigned long sum = 0;

    while ((n = x->carrier->read(x->carrier_ctx, p, sizeof(p), deadline_in(IO_TIMEOUT_MS))) > 0) {
        for (int64_t i = 0; i < n; i++)
            sum = sum * 31 + (unsigned char)p[i];
        total += n;
    }
    report("body %ld %s\n", (long)total, n == 0 ? "whole" : "cut");
    answer(x, n == 0 ? 200 : 400, "%ld %lu %ld", (long)total, sum, (long)x->req.content_length);
}

static void
serve_big(struct http_exchange *x)
{
    static char p[100000];
    int64_t left = 64 << 20;

    memset(p, 'z', sizeof(p));
    (void)http_begin(x, 200, "a/b", left);
    while (left > 0 && !x->broken) {
        size_t n = left < (int64_t)sizeof(p) ? (size_t)left : sizeof(p);
        (void)http_write(x, p, n);
        left -= (int64_t)n;
    }
}

/* Writes without blocking to a client that does not read, then all the rest. */
static void
serve_some(struct http_exchange *x)
{
    static char p[3000000];
    size_t at = 0;
    int64_t slowest = 0, n = 1;
    struct pollfd pfd;

    for (size_t i = 0; i < sizeof(p); i++)
        p[i] = (char)(i * 7 / 5);
    (void)http_begin(x, 200, "a/b", sizeof(p));
    while (n > 0 && at < sizeof(p)) {
        int64_t before = clock_mono_ms();
        n = x->carrier->write_some(x->carrier_ctx, p + at, sizeof(p) - at);
        if (clock_mono_ms() - before > slowest)
            slowest = clock_mono_ms() - before;
        at += n > 0 ? (size_t)n : 0;
    }
    report("some %d slowest %s\n", at > 0 && at < sizeof(p), slowest < 100 ? "quick" : "slow");
    while (at < sizeof(p)) {
        if (x->carrier->pollfd(x->carrier_ctx, true, &pfd) != 1 || poll(&pfd, 1, 5000) <= 0)
            return;
        n = x->carrier->write_some(x->carrier_ctx, p + at, sizeof(p) - at);
        if (n < 0)
            return;
        at += (size_t)n;
    }
}

static void
serve_gone(struct http_exchange *x)
{
    struct deadline d = deadline_in(5000);
    struct pollfd pfd;

    (void)http_begin(x, 200, "a/b", -1);
    (void)http_write(x, "here", 4);
    (void)x->carrier->pollfd(x->carrier_ctx, false, &pfd);
    (void)poll(&pfd, 1, deadline_poll_ms(d, 5000));
    report("%s\n", x->carrier->gone(x->carrier_ctx) ? "gone" : "there");
    x->broken = true;
}

static void
serve_break(struct http_exchange *x)
{
    (void)http_begin(x, 200, "a/b", 1000);
    (void)http_write(x, "0123456789", 10);
    x->carrier->break_off(x->carrier_ctx);
}

static void
serve_ids(struct http_exchange *x)
{
    const struct http_request *r = &x->req;
    struct pollfd pfd;

    (void)x->carrier->pollfd(x->carrier_ctx, false, &pfd);
    answer(x, 200, "%s|%s|%s|%s|%s|%d", r->request_id, or_none(r->client_request_id),
           or_none(http_header(x, "if-match")), or_none(http_header(x, "content-type")),
           or_none(x->carrier->param(x->carrier_ctx, "REMOTE_ADDR")),
           fcntl(pfd.fd, F_GETFD) == FD_CLOEXEC);
}

static void
serve_peak(struct http_exchange *x)
{
    answer(x, 200, "%ld", peak_kib());
}

static void
serve_silent(struct http_exchange *x)
{
    (void)x;
}

static void
serve_one(struct http_exchange *x, const struct err *err)
{
    static const struct {
        const char *path;
        void (*serve)(struct http_exchange *x);
    } handlers[] = {
        {"/sum", serve_sum},   {"/big", serve_big},       {"/some", serve_some},
        {"/gone", serve_gone}, {"/break", serve_break},   {"/ids", serve_ids},
        {"/peak", serve_peak}, {"/silent", serve_silent},
    };

    if (!x->req.path) {
        answer(x, 400, "%s", err->slug);
        return;
    }
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        if (strcmp(handlers[i].path, x->req.path) == 0) {
            handlers[i].serve(x);
            return;
        }
    }
    answer(x, 404, "%s", "no such path");
}

/* Returns only when told to end; 0 in good order. */
static int
serve_all(int listen_fd)
{
    static const int ending[] = {SIGTERM, 0};
    int signal_fd = sig_pipe(ending);
    struct err err = ERR_INIT;
    struct fcgi *f;

    if (fcgi_new(listen_fd, &f, &err) < 0)
        return 2;
    sig_ignore_pipe();
    for (;;) {
        struct pollfd fds[2] = {{listen_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
        struct http_exchange x;
        (void)poll(fds, 2, 10000);
        if (sig_next(signal_fd) == SIGTERM)
            break;
        int conn = -1, rc = fcgi_take(f, &conn, &err);
        if (rc < 0)
            return 2;
        if (rc == 0 || fcgi_read(f, conn, IO_TIMEOUT_MS, &x, &err) == 0)
            continue;
        serve_one(&x, &err);
        fcgi_finish(f, &x);
        http_exchange_done(&x);
    }
    fcgi_free(f);
    (void)close(signal_fd);
    return 0;
}

/* ---- the tests' side ---- */

static int
start(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int report_pipe[2];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    tmpdir_make(server.dir);
    (void)tmpdir_path(server.path, server.dir, "s");
    assert_true(strlen(server.path) < sizeof(a.sun_path));
    memcpy(a.sun_path, server.path, strlen(server.path) + 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(pipe2(report_pipe, O_CLOEXEC), 0);
    (void)fflush(NULL);
    server.pid = fork();
    assert_true(server.pid >= 0);
    if (server.pid == 0) {
        (void)close(report_pipe[0]);
        report_to = report_pipe[1];
        exit(serve_all(fd));
    }
    (void)close(report_pipe[1]);
    server.report_fd = report_pipe[0];
    return close(fd);
}

static int
stop(void **state)
{
    int status = -1;

    (void)state;
    (void)kill(server.pid, SIGTERM);
    (void)waitpid(server.pid, &status, 0);
    (void)close(server.report_fd);
    tmpdir_remove(server.dir);
    return status == 0 ? 0 : -1;
}

static void
expect_report(const char *want)
{
    char line[200];
    size_t n = 0;

    for (;;) {
        assert_int_equal(fd_wait(server.report_fd, POLLIN, deadline_in(5000)), 1);
        assert_int_equal(read(server.report_fd, line + n, 1), 1);
        if (line[n] == '\n')
            break;
        assert_true(++n < sizeof(line));
    }
    line[n] = '\0';
    assert_string_equal(line, want);
}

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
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
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
