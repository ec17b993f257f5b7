/* SPDX-License-Identifier: MIT */
#include "base/post.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static int
address_of(const char *path, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(ret->sun_path))
        return -1;
    memcpy(ret->sun_path, path, strlen(path) + 1);
    return 0;
}

int
post_open(const char *path, struct err *err)
{
    struct sockaddr_un at;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || address_of(path, &at) < 0)
        return err_sys(err, ERR_INTERNAL, fd < 0 ? errno : ENAMETOOLONG,
                       "cannot make a socket at %s", path);
    /* The mode is that of the socket from birth: there is no moment at which others may send. */
    if ((unlink(path) < 0 && errno != ENOENT) || fchmod(fd, 0600) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot bind %s", path);
    return steal_fd(&fd);
}

int
post_send(int post_fd, const char *to_path, int fd, uint64_t note)
{
    struct sockaddr_un to;
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec one = {&note, sizeof(note)};

    if (address_of(to_path, &to) < 0)
        return -1;
    struct msghdr m = {.msg_name = &to,
                       .msg_namelen = sizeof(to),
                       .msg_iov = &one,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof(control.space)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    return sendmsg(post_fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(note) ? 0 : -1;
}

int
post_receive(int post_fd, uint64_t *ret_note)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec one = {ret_note, sizeof(*ret_note)};
    struct msghdr m = {.msg_iov = &one,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof(control.space)};
    int fd = -1;

    ssize_t n = recvmsg(post_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof(int));
    if (n != (ssize_t)sizeof(*ret_note))
        cleanup_close(&fd);
    return fd;
}
