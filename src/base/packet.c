/* SPDX-License-Identifier: MIT */
#include "base/packet.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* Room for more descriptors than a packet may hold, so that too many are seen and closed. */
#define CONTROL_FDS (PACKET_FDS_MAX + 1)

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * CONTROL_FDS)];
};

static int
address_of(const char *path, struct sockaddr_un *ret, struct err *err)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(ret->sun_path))
        return err_sys(err, ERR_INTERNAL, ENAMETOOLONG, "%s", path);
    memcpy(ret->sun_path, path, strlen(path) + 1);
    return 0;
}

int
packet_listen(const char *path, uid_t uid, gid_t gid, mode_t mode, struct err *err)
{
    struct sockaddr_un at;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot make a socket");
    if (address_of(path, &at, err) < 0)
        return -1;
    if (fchmod(fd, mode) < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot bind %s", path);
    if (chown(path, uid, gid) < 0 || listen(fd, PACKET_BACKLOG) < 0) {
        int e = errno;

        (void)unlink(path);
        return err_sys(err, ERR_INTERNAL, e, "cannot listen at %s", path);
    }
    return steal_fd(&fd);
}

/* Also bounds connect(2), which waits while the other's backlog is full. */
static void
bound_sending(int fd, struct deadline d)
{
    int64_t ms = deadline_left_ms(d);
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000};

    if (tv.tv_sec == 0 && tv.tv_usec == 0)
        tv.tv_usec = 1000; /* nought would mean for ever */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

int
packet_connect(const char *path, struct deadline d, struct err *err)
{
    struct sockaddr_un at;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int r;

    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot make a socket");
    if (address_of(path, &at, err) < 0)
        return -1;
    do {
        bound_sending(fd, d);
        r = connect(fd, (struct sockaddr *)&at, sizeof(at));
    } while (r < 0 && errno == EINTR && !deadline_passed(d));
    if (r < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot connect to %s", path);
    return steal_fd(&fd);
}

int
packet_send(int fd, const void *p, size_t n, const int *fds, int n_fds, struct deadline d)
{
    union control control;
    struct iovec one = {(void *)p, n};
    struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1};

    if (n_fds < 0 || n_fds > PACKET_FDS_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (n_fds > 0) {
        memset(&control, 0, sizeof(control));
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n_fds);
    }
    for (;;) {
        ssize_t r = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (r == (ssize_t)n)
            return 0;
        if (r >= 0)
            errno = EMSGSIZE;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || deadline_passed(d) || fd_wait(fd, POLLOUT, d) < 0)
            return -1;
    }
}

/* Takes the descriptors out, closing those beyond max. Returns how many there were. */
static int
take_fds(struct msghdr *m, int *fds, int max)
{
    int n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++, n++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            if (n < max)
                fds[n] = fd;
            else
                (void)close(fd);
        }
    }
    return n;
}

static int
refuse(const int *fds, int n, int max, struct err *err, const char *why)
{
    for (int i = 0; i < n && i < max; i++)
        (void)close(fds[i]);
    return err_set(err, ERR_INVALID, "%s", why);
}

int
packet_receive(int fd, void *p, size_t n, int *fds, int max_fds, int *ret_n_fds, struct deadline d,
               struct err *err)
{
    union control control;
    struct iovec one = {p, n};
    struct msghdr m;
    ssize_t r;

    for (;;) {
        m = (struct msghdr){.msg_iov = &one,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
        r = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (r >= 0)
            break;
        if (errno == ECONNRESET)
            return 0; /* it closed with something of ours unread */
        if (errno != EINTR && errno != EAGAIN)
            return err_sys(err, ERR_INTERNAL, errno, "cannot receive");
        if (errno == EAGAIN && (deadline_passed(d) || fd_wait(fd, POLLIN, d) < 0))
            return err_set(err, ERR_TIMEOUT, "nothing came in time");
    }
    int got = take_fds(&m, fds, max_fds);
    if (got > max_fds || (m.msg_flags & MSG_CTRUNC))
        return refuse(fds, got, max_fds, err, "it has too many descriptors");
    if (r == 0 && got == 0)
        return 0;
    if ((size_t)r != n || (m.msg_flags & MSG_TRUNC))
        return refuse(fds, got, max_fds, err, "it has another size than its kind");
    if (ret_n_fds)
        *ret_n_fds = got;
    return 1;
}

int
packet_peer(int fd, struct ucred *ret)
{
    socklen_t n = sizeof(*ret);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &n);
}
