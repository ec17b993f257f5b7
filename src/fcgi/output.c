/* SPDX-License-Identifier: MIT */
#include "fcgi/output.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Record types (FastCGI 1.0, section 8). */
enum { RECORD_END_REQUEST = 3, RECORD_STDOUT = 6, RECORD_INVALID = 99 };

void
fcgi_output_init(struct fcgi_output *o, int fd, int request_id)
{
    o->fd = fd;
    o->request_id = request_id;
    o->gone = o->ended = false;
    o->pending = o->pending_at = 0;
}

static void
make_header(const struct fcgi_output *o, unsigned char h[FCGI_HEADER_BYTES], int type, size_t n)
{
    memset(h, 0, FCGI_HEADER_BYTES);
    h[0] = 1; /* version */
    h[1] = (unsigned char)type;
    h[2] = (unsigned char)(o->request_id >> 8);
    h[3] = (unsigned char)o->request_id;
    h[4] = (unsigned char)(n >> 8);
    h[5] = (unsigned char)n;
}

/* One sendmsg() that never blocks: bytes sent, 0 none now, -1 gone. */
static ssize_t
send_now(struct fcgi_output *o, struct iovec *iov, size_t n_iov)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n_iov};
    ssize_t n;

    do
        n = sendmsg(o->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
        return 0;
    o->gone = true;
    return -1;
}

/* 1 nothing is left over, 0 something is, -1 gone. */
static int
flush_rest(struct fcgi_output *o)
{
    while (o->pending > 0) {
        struct iovec iov = {o->rest + o->pending_at, o->pending};
        ssize_t n = send_now(o, &iov, 1);
        if (n <= 0)
            return (int)n;
        o->pending_at += (size_t)n;
        o->pending -= (size_t)n;
    }
    o->pending_at = 0;
    return 1;
}

static void
make_end(const struct fcgi_output *o, unsigned char end[FCGI_END_BYTES])
{
    memset(end, 0, FCGI_END_BYTES); /* status 0, FCGI_REQUEST_COMPLETE */
    make_header(o, end, RECORD_STDOUT, 0);
    make_header(o, end + FCGI_HEADER_BYTES, RECORD_END_REQUEST,
                FCGI_END_BYTES - 2 * FCGI_HEADER_BYTES);
}

/* Keeps what was not sent of the pieces. */
static void
keep_rest(struct fcgi_output *o, const struct iovec *iov, size_t n_iov, size_t sent)
{
    o->pending = o->pending_at = 0;
    for (size_t i = 0; i < n_iov; i++) {
        size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;
        memcpy(o->rest + o->pending, (const char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
        o->pending += iov[i].iov_len - skip;
        sent -= skip;
    }
}

/* Sends one record of the answer, the last with the end behind it: 1 it is on its way (perhaps in
 * part kept), 0 nothing of it went, -1 gone. */
static int
send_record(struct fcgi_output *o, const void *p, size_t n, bool last)
{
    unsigned char h[FCGI_HEADER_BYTES], end[FCGI_END_BYTES];
    struct iovec iov[3] = {{h, sizeof(h)}, {(void *)p, n}, {end, sizeof(end)}};
    size_t n_iov = last ? 3 : 2;

    make_header(o, h, RECORD_STDOUT, n);
    make_end(o, end);
    ssize_t sent = send_now(o, iov, n_iov);
    if (sent <= 0)
        return (int)sent;
    keep_rest(o, iov, n_iov, (size_t)sent);
    o->ended = last;
    return 1;
}

static int64_t
send_some(struct fcgi_output *o, const void *p, size_t n, bool last)
{
    const char *at = p;
    size_t taken = 0;

    if (o->gone)
        return -1;
    while (taken < n) {
        int rc = flush_rest(o);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        size_t step = n - taken < FCGI_RECORD_BYTES ? n - taken : FCGI_RECORD_BYTES;
        rc = send_record(o, at + taken, step, last && taken + step == n);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        taken += step;
    }
    return (int64_t)taken;
}

int64_t
fcgi_output_some(struct fcgi_output *o, const void *p, size_t n)
{
    return send_some(o, p, n, false);
}

/* Waits until the socket takes more: 0, or -1 when the peer went or the time is over. */
static int
wait_writable(struct fcgi_output *o, struct deadline d)
{
    struct pollfd p = {o->fd, POLLOUT | POLLRDHUP, 0};

    for (;;) {
        int rc = poll(&p, 1, deadline_poll_ms(d, 60000));
        if (rc > 0 && !(p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)))
            return 0;
        if (rc > 0 || (rc < 0 && errno != EINTR) || deadline_passed(d)) {
            o->gone = true;
            return -1;
        }
    }
}

int
fcgi_output_all(struct fcgi_output *o, const void *p, size_t n, bool last, int64_t stall_ms)
{
    const char *at = p;
    struct deadline d = deadline_in(stall_ms);

    while (n > 0) {
        size_t before = o->pending;
        int64_t taken = send_some(o, at, n, last);
        if (taken < 0)
            return -1;
        at += taken;
        n -= (size_t)taken;
        if (taken > 0 || o->pending != before)
            d = deadline_in(stall_ms);
        if (n > 0 && wait_writable(o, d) < 0)
            return -1;
    }
    return 0;
}

int
fcgi_output_flush(struct fcgi_output *o, int64_t stall_ms)
{
    struct deadline d = deadline_in(stall_ms);

    for (;;) {
        size_t before = o->pending;
        int rc = flush_rest(o);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        if (o->pending != before)
            d = deadline_in(stall_ms);
        if (wait_writable(o, d) < 0)
            return -1;
    }
}

int
fcgi_output_end(struct fcgi_output *o, int64_t stall_ms)
{
    if (o->gone || fcgi_output_flush(o, stall_ms) < 0)
        return -1;
    if (o->ended)
        return 0;
    make_end(o, o->rest);
    o->pending = FCGI_END_BYTES;
    o->ended = true;
    return fcgi_output_flush(o, stall_ms);
}

void
fcgi_output_break(struct fcgi_output *o)
{
    unsigned char h[FCGI_HEADER_BYTES];
    struct iovec iov = {h, sizeof(h)};

    /* Behind a record cut in the middle these bytes would pass for its content; the close then
     * leaves that record short, which breaks the answer just as well. */
    if (!o->gone && flush_rest(o) == 1) {
        make_header(o, h, RECORD_INVALID, 0);
        (void)send_now(o, &iov, 1);
    }
    o->gone = true;
}
