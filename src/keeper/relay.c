/* SPDX-License-Identifier: MIT */
#include "keeper/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define PIECE 4096
#define PIECES_A_CALL 16 /* signals and the kernel's end must not wait behind a flood */
#define FLOOD_PAUSE_MS 50

/* What a write to these does may be asked of whoever writes: that would be us. */
static bool
is_of_proc(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC;
}

/* Opened for writing by whoever passed it? Opening it again is done with our rights: one that was
 * opened for less (O_PATH needs no right at all) must not gain by it. */
static bool
is_writable(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
}

/* The target as it can be written without waiting and without changing how the gateway, which
 * shares the open file, writes to it. Takes it; -1: there is no such way. */
static int
unblocking(int target)
{
    char path[40];
    struct stat st;

    if (!is_writable(target) || is_of_proc(target) || fstat(target, &st) < 0) {
        cleanup_close(&target);
        return -1;
    }
    if (S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode))
        return target; /* a file is always ready; a socket is sent to with MSG_DONTWAIT */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    (void)close(target);
    return own;
}

int
relay_open(struct relay *r, int target, const struct ucred *owner, struct err *err)
{
    int ends[2];

    *r = (struct relay){.from = -1, .to = -1};
    if (pipe2(ends, O_CLOEXEC) < 0) {
        int e = errno;

        cleanup_close(&target);
        return err_sys(err, ERR_UNAVAILABLE, e, "cannot make a pipe");
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *r = (struct relay){.from = ends[0],
                        .to = unblocking(target),
                        .uid = owner->uid,
                        .gid = owner->gid,
                        .tokens = RELAY_BURST,
                        .at_ms = clock_mono_ms()};
    return ends[1];
}

/* On a unix socket the kernel tells the other side who sent it (journald, sd_notify): that is to be
 * the one who passed the socket, never root. */
static ssize_t
put(const struct relay *r, const void *p, size_t n)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control = {0};
    const struct ucred sender = {.pid = getpid(), .uid = r->uid, .gid = r->gid};
    struct iovec one = {(void *)(uintptr_t)p, n};
    struct msghdr m = {.msg_iov = &one,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};

    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_CREDENTIALS;
    control.head.cmsg_len = CMSG_LEN(sizeof(sender));
    memcpy(CMSG_DATA(&control.head), &sender, sizeof(sender));
    ssize_t w = sendmsg(r->to, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    return w < 0 && errno == ENOTSOCK ? write(r->to, p, n) : w;
}

static void
refill(struct relay *r)
{
    int64_t now = clock_mono_ms();

    r->tokens += (now - r->at_ms) * RELAY_RATE / 1000;
    if (r->tokens > RELAY_BURST)
        r->tokens = RELAY_BURST;
    r->at_ms = now;
}

/* Says how much is missing as soon as something passes again. */
static void
tell_dropped(struct relay *r)
{
    char line[96];

    if (!r->dropped)
        return;
    int n =
        snprintf(line, sizeof(line), "\nhusk-monitor: %lld bytes of a kernel's output dropped\n",
                 (long long)r->dropped);
    if (put(r, line, (size_t)n) == n)
        r->dropped = 0;
}

/* Returns how many bytes did not pass. */
static size_t
pass_on(struct relay *r, const char *p, size_t n)
{
    size_t may = r->tokens < (int64_t)n ? (size_t)r->tokens : n;

    if (r->to >= 0 && may > 0) {
        tell_dropped(r);
        ssize_t w = put(r, p, may);
        if (w > 0) {
            r->tokens -= w;
            n -= (size_t)w;
        }
    }
    r->dropped += (int64_t)n;
    return n;
}

int
relay_wait_ms(const struct relay *r)
{
    int64_t left = r->resume_ms - clock_mono_ms();

    if (r->from < 0)
        return -1;
    return left < 0 ? 0 : left > FLOOD_PAUSE_MS ? FLOOD_PAUSE_MS : (int)left;
}

void
relay_move(struct relay *r)
{
    char piece[PIECE];
    size_t dropped = 0;

    if (r->from < 0)
        return;
    /* Refilled once a call: in whole milliseconds, many calls would lose what a call adds. */
    if (clock_mono_ms() - r->at_ms >= 100)
        refill(r);
    for (int i = 0; i < PIECES_A_CALL; i++) {
        ssize_t n = read(r->from, piece, sizeof(piece));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            (void)close(r->from);
            r->from = -1;
            break;
        }
        dropped += pass_on(r, piece, (size_t)n);
    }
    if (dropped > 0)
        r->resume_ms = clock_mono_ms() + FLOOD_PAUSE_MS;
}

void
relay_close(struct relay *r)
{
    relay_move(r);
    if (r->to >= 0)
        tell_dropped(r);
    cleanup_close(&r->from);
    cleanup_close(&r->to);
    r->from = r->to = -1;
}
