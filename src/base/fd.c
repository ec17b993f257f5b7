/* SPDX-License-Identifier: MIT */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

int
fd_set_cloexec(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags < 0)
        return -1;
    return fcntl(fd, F_SETFD, on ? flags | FD_CLOEXEC : flags & ~FD_CLOEXEC);
}

int
fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -1;
    return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

int
fd_write_all(int fd, const void *p, size_t n)
{
    const char *at = p;

    while (n > 0) {
        ssize_t w = write(fd, at, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -1;
        at += w;
        n -= (size_t)w;
    }
    return 0;
}

int
fd_read_all(int fd, void *p, size_t n)
{
    char *at = p;

    while (n > 0) {
        ssize_t r = read(fd, at, n);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -1;
        if (r == 0) {
            errno = ENODATA;
            return -1;
        }
        at += r;
        n -= (size_t)r;
    }
    return 0;
}

int
fd_pread_all(int fd, void *p, size_t n, off_t at)
{
    char *to = p;

    while (n > 0) {
        ssize_t r = pread(fd, to, n, at);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -1;
        if (r == 0) {
            errno = ENODATA;
            return -1;
        }
        to += r;
        at += r;
        n -= (size_t)r;
    }
    return 0;
}

int
fd_wait(int fd, short events, struct deadline d)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int r = poll(&p, 1, deadline_poll_ms(d, INT_MAX));

        if (r > 0 && (p.revents & POLLNVAL)) {
            errno = EBADF;
            return -1;
        }
        if (r > 0)
            return 1;
        if (r < 0 && errno != EINTR)
            return -1;
        if (deadline_passed(d))
            return 0;
    }
}

void
fd_raise_limit(void)
{
    struct rlimit have;

    if (getrlimit(RLIMIT_NOFILE, &have) < 0)
        return;
    have.rlim_cur = have.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &have);
}

bool
fd_peer_gone(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

int
fd_read_file(const char *path, struct buf *ret, struct err *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_UNAVAILABLE, errno,
                       "cannot open %s", path);
    buf_clear(ret);
    for (;;) {
        char piece[4096];
        ssize_t r = read(fd, piece, sizeof piece);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot read %s", path);
        if (r == 0)
            return 0;
        if (buf_append(ret, piece, (size_t)r) < 0)
            return buf_check(ret, path, err);
    }
}

int
fd_mkdirs(const char *path, unsigned mode, struct err *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    struct stat st;

    if (n == 0 || n >= sizeof part)
        return err_set(err, ERR_INVALID, "not a usable directory name: \"%.100s\"", path);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, (mode_t)mode) < 0 && errno != EEXIST && stat(part, &st) < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the directory %s", part);
        part[i] = path[i];
    }
    if (stat(path, &st) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the directory %s", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_UNAVAILABLE, "%s is not a directory", path);
    return 0;
}
