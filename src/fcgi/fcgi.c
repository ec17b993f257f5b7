/* SPDX-License-Identifier: MIT */
#include "fcgi/fcgi.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/num.h"
#include "fcgi/output.h"

#include <errno.h>
#include <fcgiapp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

/*
 * What libfcgi does here: it parses the records of a request (parameters and body).  What it does
 * not: it never accepts, since its accept() would leave the connection inheritable and without
 * timeouts while the parameters are read (a connection put into the request beforehand is taken as
 * it is); and it never writes the answer, since its stream can only block (fcgi/output.c).
 */

#define FIRST_BYTE_MS 2000 /* a connection that stays silent for so long is dropped */
#define LINGER_MS 200      /* for the front end to take the end and close */

struct fcgi {
    int listen_fd;
    int64_t io_timeout_ms;
    FCGX_Request r;
    int64_t body_left; /* of the announced body; INT64_MAX when none was announced */
    char request_id[HTTP_REQUEST_ID_MAX + 1];
    char client_request_id[HTTP_REQUEST_ID_MAX + 1];
    struct fcgi_output out;
    const struct http_exchange *x; /* the one under way */
};

int
fcgi_new(int listen_fd, struct fcgi **ret, struct err *err)
{
    /* libfcgi drains a broken connection for 2 s before it closes it, unless told otherwise. */
    (void)setenv("LIBFCGI_OS_CLOSE_POLL_TIMEOUT", "50", 1);
    if (fd_set_nonblock(listen_fd, true) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot use descriptor %d as a listening socket",
                       listen_fd);
    int rc = FCGX_Init();
    if (rc != 0)
        return err_set(err, ERR_INTERNAL, "libfcgi does not start (%d)", rc);

    struct fcgi *f = xcalloc(1, sizeof(*f));
    f->listen_fd = listen_fd;
    /* -1: libfcgi shall not accept by itself when a connection turns out to be broken. */
    (void)FCGX_InitRequest(&f->r, -1, FCGI_FAIL_ACCEPT_ON_INTR);
    *ret = f;
    return 0;
}

/* Closes the connection as it stands and frees the request. */
static void
drop(struct fcgi *f)
{
    if (f->r.ipcFd >= 0)
        (void)close(f->r.ipcFd);
    f->r.ipcFd = -1;
    FCGX_Free(&f->r, 0);
}

void
fcgi_free(struct fcgi *f)
{
    if (!f)
        return;
    drop(f);
    free(f);
}

/*
 * libfcgi takes an interrupted read for a broken connection, and reads with a timeout are never
 * restarted by the kernel: no signal may come while it reads.
 */
static void
hold_signals(sigset_t *old)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, old);
}

static void
release_signals(const sigset_t *old)
{
    (void)sigprocmask(SIG_SETMASK, old, NULL);
}

static void
set_timeout(int fd, int option, int64_t ms)
{
    struct timeval tv = {ms / 1000, (ms % 1000) * 1000};

    if (ms < 1)
        tv = (struct timeval){0, 1000}; /* 0 would mean for ever */
    (void)setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv));
}

/* An empty parameter is none: this is how nginx passes what is not there. */
static const char *
get_param(void *ctx, const char *name)
{
    struct fcgi *f = ctx;
    const char *v = FCGX_GetParam(name, f->r.envp);

    return v && *v ? v : NULL;
}

/* "if-match" is HTTP_IF_MATCH; two have names of their own (RFC 3875 4.1). */
static const char *
get_header(void *ctx, const char *name)
{
    char param[80] = "HTTP_";
    size_t n = strlen(name);

    if (strcmp(name, "content-type") == 0)
        return get_param(ctx, "CONTENT_TYPE");
    if (strcmp(name, "content-length") == 0)
        return get_param(ctx, "CONTENT_LENGTH");
    if (n + 6 > sizeof(param))
        return NULL;
    for (size_t i = 0; i <= n; i++) {
        char c = name[i];
        param[5 + i] = (char)(c == '-' ? '_' : c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    return get_param(ctx, param);
}

static int64_t
read_body(void *ctx, void *p, size_t n, struct deadline d)
{
    struct fcgi *f = ctx;
    FCGX_Stream *in = f->r.in;
    size_t got = 0;

    if ((uint64_t)f->body_left < n)
        n = (size_t)f->body_left;
    if (n == 0)
        return 0;
    if (n > INT32_MAX)
        n = INT32_MAX;
    if (in->rdNext == in->stop) { /* nothing buffered: the first byte may have to be waited for */
        sigset_t old;
        int64_t left = deadline_left_ms(d);
        set_timeout(f->r.ipcFd, SO_RCVTIMEO, left < f->io_timeout_ms ? left : f->io_timeout_ms);
        hold_signals(&old);
        int c = FCGX_GetChar(in);
        release_signals(&old);
        if (c == EOF)
            return FCGX_GetError(in) != 0 || f->body_left != INT64_MAX ? -1 : 0;
        ((char *)p)[got++] = (char)c;
    }
    size_t there = (size_t)(in->stop - in->rdNext);
    size_t more = n - got < there ? n - got : there;
    if (more > 0)
        got += (size_t)FCGX_GetStr((char *)p + got, (int)more, in);
    if (f->body_left != INT64_MAX)
        f->body_left -= (int64_t)got;
    return (int64_t)got;
}

static int
write_all(void *ctx, const void *p, size_t n, struct deadline d)
{
    struct fcgi *f = ctx;
    int64_t left = deadline_left_ms(d);

    return fcgi_output_all(&f->out, p, n, f->x->last,
                           left < f->io_timeout_ms ? left : f->io_timeout_ms);
}

static int64_t
write_some(void *ctx, const void *p, size_t n)
{
    struct fcgi *f = ctx;

    return fcgi_output_some(&f->out, p, n);
}

static bool
peer_gone(void *ctx)
{
    struct fcgi *f = ctx;

    return f->out.gone || fd_peer_gone(f->r.ipcFd);
}

static int
get_pollfd(void *ctx, bool write, struct pollfd *ret)
{
    struct fcgi *f = ctx;

    *ret = (struct pollfd){f->r.ipcFd, (short)(POLLRDHUP | (write ? POLLOUT : 0)), 0};
    return 1;
}

static void
break_off(void *ctx)
{
    struct fcgi *f = ctx;

    fcgi_output_break(&f->out);
}

static const struct http_carrier carrier = {
    .header = get_header,
    .param = get_param,
    .read = read_body,
    .write = write_all,
    .write_some = write_some,
    .gone = peer_gone,
    .pollfd = get_pollfd,
    .break_off = break_off,
};

int
fcgi_take(struct fcgi *f, int *ret_fd, struct err *err)
{
    int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0) {
        *ret_fd = fd;
        return 1;
    }
    switch (errno) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
        return 0;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        /* The machine is short of something: a pause, so that the caller's loop does not spin. */
        (void)poll(NULL, 0, 100);
        return 0;
    default:
        return err_sys(err, ERR_INTERNAL, errno, "cannot accept on the listening socket");
    }
}

/* Reads the parameters: 1, or 0 when the connection broke and is closed. */
static int
read_request(struct fcgi *f)
{
    sigset_t old;

    if (fd_wait(f->r.ipcFd, POLLIN, deadline_in(FIRST_BYTE_MS)) <= 0) {
        drop(f);
        return 0;
    }
    /* FCGX_Accept_r first finishes the request before this one, and with it would close the
     * connection we have put there; the parameters' record sets the flag anew. */
    f->r.keepConnection = 1;
    hold_signals(&old);
    int rc = FCGX_Accept_r(&f->r);
    release_signals(&old);
    if (rc != 0 || f->r.role != 1 /* responder */) {
        drop(f);
        return 0;
    }
    return 1;
}

static void
set_ids(struct fcgi *f, struct http_request *r)
{
    const char *id = get_param(f, "HUSK_REQUEST_ID");
    const char *client = get_header(f, "x-request-id");
    size_t n = client ? strlen(client) : 0;

    if (id && id_in_alphabet(id, strlen(id), 1, HTTP_REQUEST_ID_MAX))
        memcpy(f->request_id, id, strlen(id) + 1);
    else
        id_random_hex(f->request_id, 16);
    r->request_id = f->request_id;
    r->client_request_id = NULL;
    if (n == 0 || n > HTTP_REQUEST_ID_MAX)
        return;
    for (size_t i = 0; i < n; i++) {
        if (client[i] <= ' ' || client[i] >= 0x7f)
            return;
    }
    memcpy(f->client_request_id, client, n + 1);
    r->client_request_id = f->client_request_id;
}

/* Request line and length. A request that is not well formed is an answer's business: *err. */
static void
parse_request(struct fcgi *f, struct http_request *r, struct err *err)
{
    const char *method = get_param(f, "REQUEST_METHOD");
    const char *target = get_param(f, "REQUEST_URI");
    const char *length = get_header(f, "content-length");

    r->method_name = method ? method : "";
    r->method = http_method_parse(r->method_name);
    set_ids(f, r);
    f->body_left = INT64_MAX;
    if (length && !num_i64(length, strlen(length), 0, INT64_MAX - 1, &r->content_length)) {
        r->content_length = -1;
        (void)err_slug(err, ERR_INVALID, "bad_header", "Content-Length is not a number of bytes.");
        return;
    }
    if (r->content_length >= 0)
        f->body_left = r->content_length;
    (void)http_parse_target(r, target ? target : "", err);
}

int
fcgi_read(struct fcgi *f, int fd, int64_t io_timeout_ms, struct http_exchange *x, struct err *err)
{
    f->io_timeout_ms = io_timeout_ms;
    set_timeout(fd, SO_RCVTIMEO, io_timeout_ms);
    set_timeout(fd, SO_SNDTIMEO, io_timeout_ms);
    f->r.ipcFd = fd;
    if (!read_request(f))
        return 0;
    fcgi_output_init(&f->out, f->r.ipcFd, f->r.requestId);
    http_exchange_init(x, &carrier, f);
    f->x = x;
    parse_request(f, &x->req, err);
    return 1;
}

/*
 * Has the front end sent all it will?  Its last record most often lies in libfcgi's buffer already.
 * Then the connection can be closed at once: what was sent stays readable.
 */
static bool
request_is_over(struct fcgi *f)
{
    sigset_t old;

    if (f->body_left != 0 && f->body_left != INT64_MAX)
        return false;
    set_timeout(f->r.ipcFd, SO_RCVTIMEO, 0);
    hold_signals(&old);
    int c = FCGX_GetChar(f->r.in);
    release_signals(&old);
    return c == EOF && FCGX_GetError(f->r.in) == 0;
}

/*
 * Lets the front end read the end before the close: with request bytes still unread a close would
 * reset the connection.  What it still sends is thrown away, for a short while.
 */
static void
linger(struct fcgi *f)
{
    struct deadline d = deadline_in(LINGER_MS);
    char trash[4096];

    (void)shutdown(f->r.ipcFd, SHUT_WR);
    while (fd_wait(f->r.ipcFd, POLLIN | POLLRDHUP, d) == 1) {
        if (recv(f->r.ipcFd, trash, sizeof(trash), MSG_DONTWAIT) <= 0)
            break;
    }
}

void
fcgi_finish(struct fcgi *f, struct http_exchange *x)
{
    /* Nothing was sent: a plain close, which the front end turns into a 502. */
    if (x->head_sent && !x->broken && fcgi_output_flush(&f->out, f->io_timeout_ms) == 0) {
        http_ending(x);
        if (fcgi_output_end(&f->out, f->io_timeout_ms) == 0 && !request_is_over(f))
            linger(f);
    }
    drop(f);
}
