/* SPDX-License-Identifier: MIT */
#include "support/fcgi_client.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define STEP_MS 10000

enum { BEGIN = 1, END = 3, PARAMS = 4, STDIN = 5, STDOUT = 6, STDERR = 7 };

int
fcgi_client_connect(struct fcgi_client *c, const char *socket_path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    memset(c, 0, sizeof(*c));
    c->fd = -1;
    if (strlen(socket_path) >= sizeof(a.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(a.sun_path, socket_path, strlen(socket_path) + 1);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return -1;
    return connect(c->fd, (const struct sockaddr *)&a, sizeof(a));
}

int
fcgi_client_raw(struct fcgi_client *c, const void *p, size_t n)
{
    struct deadline d = deadline_in(STEP_MS);
    const char *at = p;

    while (n > 0) {
        ssize_t sent = send(c->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            at += sent;
            n -= (size_t)sent;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return -1;
        if (fd_wait(c->fd, POLLOUT, d) <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return 0;
}

int
fcgi_client_record(struct fcgi_client *c, int type, const void *p, size_t n)
{
    unsigned char h[8] = {1, (unsigned char)type, 0, 1, (unsigned char)(n >> 8), (unsigned char)n};

    if (fcgi_client_raw(c, h, sizeof(h)) < 0)
        return -1;
    return n > 0 ? fcgi_client_raw(c, p, n) : 0;
}

static size_t
put_length(unsigned char *out, size_t n)
{
    if (n < 128) {
        out[0] = (unsigned char)n;
        return 1;
    }
    out[0] = (unsigned char)(n >> 24 | 0x80);
    out[1] = (unsigned char)(n >> 16);
    out[2] = (unsigned char)(n >> 8);
    out[3] = (unsigned char)n;
    return 4;
}

static int
send_param(struct fcgi_client *c, const char *param)
{
    const char *eq = strchr(param, '=');
    unsigned char record[20000];
    size_t name_n = (size_t)(eq - param), value_n = strlen(eq + 1), n;

    if (name_n + value_n + 8 > sizeof(record)) {
        errno = EMSGSIZE;
        return -1;
    }
    n = put_length(record, name_n);
    n += put_length(record + n, value_n);
    memcpy(record + n, param, name_n);
    memcpy(record + n + name_n, eq + 1, value_n);
    return fcgi_client_record(c, PARAMS, record, n + name_n + value_n);
}

int
fcgi_client_begin(struct fcgi_client *c, const char *const *params)
{
    static const unsigned char responder[8] = {0, 1};

    if (fcgi_client_record(c, BEGIN, responder, sizeof(responder)) < 0)
        return -1;
    for (; *params; params++) {
        if (send_param(c, *params) < 0)
            return -1;
    }
    return fcgi_client_record(c, PARAMS, NULL, 0);
}

int
fcgi_client_body(struct fcgi_client *c, const void *p, size_t n, size_t record)
{
    const char *at = p;

    if (record == 0)
        record = 32768;
    while (n > 0) {
        size_t step = n < record ? n : record;
        if (fcgi_client_record(c, STDIN, at, step) < 0)
            return -1;
        at += step;
        n -= step;
    }
    return 0;
}

int
fcgi_client_end_body(struct fcgi_client *c)
{
    return fcgi_client_record(c, STDIN, NULL, 0);
}

/* Exactly n bytes: 1, 0 the connection ended before the first, -1. */
static int
receive(struct fcgi_client *c, void *p, size_t n, int timeout_ms)
{
    size_t got = 0;

    while (got < n) {
        struct pollfd pfd = {c->fd, POLLIN, 0};
        int rc = poll(&pfd, 1, timeout_ms);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc == 0)
            errno = ETIMEDOUT;
        if (rc <= 0)
            return -1;
        ssize_t r = recv(c->fd, (char *)p + got, n - got, 0);
        if (r == 0 && got == 0)
            return 0;
        if (r <= 0) {
            errno = r == 0 ? EPIPE : errno;
            return -1;
        }
        got += (size_t)r;
    }
    return 1;
}

/* Output bytes: first the head, then the body. */
static void
take_output(struct fcgi_client *c, const char *p, size_t n,
            void (*body)(void *ctx, const void *p, size_t n), void *ctx)
{
    size_t i = 0;

    while (!c->head_done && i < n && c->head_len < sizeof(c->head) - 1) {
        c->head[c->head_len++] = p[i++];
        c->head[c->head_len] = '\0';
        if (c->head_len >= 4 && strcmp(c->head + c->head_len - 4, "\r\n\r\n") == 0) {
            c->head_len -= 4;
            c->head[c->head_len] = '\0';
            c->head_done = true;
        }
    }
    if (i == n)
        return;
    c->body_len += (int64_t)(n - i);
    if (body)
        body(ctx, p + i, n - i);
}

int
fcgi_client_read(struct fcgi_client *c, void (*body)(void *ctx, const void *p, size_t n), void *ctx,
                 int timeout_ms)
{
    unsigned char h[8];
    char content[65535 + 255];
    int rc = receive(c, h, sizeof(h), timeout_ms);

    if (rc <= 0)
        return rc;
    size_t n = (size_t)(h[4] << 8 | h[5]);
    if (n + h[6] > 0) {
        rc = receive(c, content, n + h[6], timeout_ms);
        if (rc <= 0)
            return -1;
    }
    if (h[0] != 1 || (h[1] != STDOUT && h[1] != STDERR && h[1] != END))
        c->bad_record = true;
    else if (h[1] == END)
        c->ended = true;
    else if (h[1] == STDOUT)
        take_output(c, content, n, body, ctx);
    return 1;
}

int
fcgi_client_read_all(struct fcgi_client *c, void (*body)(void *ctx, const void *p, size_t n),
                     void *ctx)
{
    while (!c->ended) {
        int rc = fcgi_client_read(c, body, ctx, STEP_MS);
        if (rc <= 0)
            return rc;
    }
    return 0;
}

void
fcgi_client_close(struct fcgi_client *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
}

int
fcgi_client_status(const struct fcgi_client *c)
{
    int64_t status;

    if (!c->head_done || strncmp(c->head, "Status: ", 8) != 0 ||
        !num_i64(c->head + 8, 3, 100, 599, &status))
        return 0;
    return (int)status;
}

struct text {
    char *out;
    size_t len, size;
};

static void
collect(void *ctx, const void *p, size_t n)
{
    struct text *t = ctx;
    size_t room = t->size - 1 - t->len;

    if (n > room)
        n = room;
    memcpy(t->out + t->len, p, n);
    t->len += n;
    t->out[t->len] = '\0';
}

int
fcgi_client_call(const char *socket_path, const char *const *params, const char *body, char *out,
                 size_t out_size)
{
    struct fcgi_client c;
    struct text t = {out, 0, out_size};
    int status = 0;

    out[0] = '\0';
    if (fcgi_client_connect(&c, socket_path) == 0 && fcgi_client_begin(&c, params) == 0 &&
        fcgi_client_body(&c, body, strlen(body), 0) == 0 && fcgi_client_end_body(&c) == 0 &&
        fcgi_client_read_all(&c, collect, &t) == 0 && c.ended)
        status = fcgi_client_status(&c);
    fcgi_client_close(&c);
    return status;
}
