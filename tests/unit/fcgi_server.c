/* SPDX-License-Identifier: MIT */
#include "fcgi_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sig.h"
#include "fcgi/fcgi.h"
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

struct fcgi_server server;

/* The server's side: no assertions here. */

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

int
server_start(void **state)
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

int
server_stop(void **state)
{
    int status = -1;

    (void)state;
    (void)kill(server.pid, SIGTERM);
    (void)waitpid(server.pid, &status, 0);
    (void)close(server.report_fd);
    tmpdir_remove(server.dir);
    return status == 0 ? 0 : -1;
}

void
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
