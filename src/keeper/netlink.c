/* SPDX-License-Identifier: MIT */
#include "keeper/netlink.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/time.h>

int
netlink_open(struct netlink *ret, int bus, struct err *err)
{
    struct timeval wait = {.tv_sec = 5};

    ret->seq = 1;
    ret->socket = mnl_socket_open2(bus, SOCK_CLOEXEC);
    if (!ret->socket)
        return err_sys(err, ERR_UNAVAILABLE, errno, "netlink");
    int fd = mnl_socket_get_fd(ret->socket);
    if (mnl_socket_bind(ret->socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0) {
        int saved = errno;

        netlink_close(ret);
        return err_sys(err, ERR_UNAVAILABLE, saved, "netlink");
    }
    return 0;
}

void
netlink_close(struct netlink *n)
{
    if (n->socket)
        (void)mnl_socket_close(n->socket);
    n->socket = NULL;
}

struct nlmsghdr *
netlink_begin(struct netlink *n, char *buf, uint16_t type, uint16_t flags, size_t extra,
              void **ret_extra)
{
    struct nlmsghdr *m = mnl_nlmsg_put_header(buf);

    m->nlmsg_type = type;
    m->nlmsg_flags = NLM_F_REQUEST | flags;
    m->nlmsg_seq = ++n->seq;
    *ret_extra = mnl_nlmsg_put_extra_header(m, extra);
    return m;
}

struct answers {
    unsigned left; /* acknowledgements or ends of dumps still to come */
    int error;     /* the first that was refused */
    void (*cb)(const struct nlmsghdr *m, void *ctx);
    void *ctx;
};

/* One datagram of the kernel's can hold many messages. */
static void
take_answers(const char *buf, ssize_t n, struct answers *a)
{
    const struct nlmsghdr *m = (const struct nlmsghdr *)buf;
    int left = (int)n;

    for (; a->left > 0 && mnl_nlmsg_ok(m, left); m = mnl_nlmsg_next(m, &left)) {
        if (m->nlmsg_type == NLMSG_ERROR) {
            const struct nlmsgerr *e = mnl_nlmsg_get_payload(m);

            a->left--;
            if (e->error && !a->error)
                a->error = -e->error;
        } else if (m->nlmsg_type == NLMSG_DONE) {
            a->left--;
        } else if (a->cb) {
            a->cb(m, a->ctx);
        }
    }
}

static int
talk(struct netlink *n, const void *p, size_t len, struct answers *a)
{
    char buf[4 * NETLINK_MESSAGE_MAX] __attribute__((aligned(8)));

    if (mnl_socket_sendto(n->socket, p, len) < 0)
        return -1;
    while (a->left > 0) {
        ssize_t got = mnl_socket_recvfrom(n->socket, buf, sizeof buf);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            if (errno == EAGAIN)
                errno = ETIMEDOUT;
            return -1;
        }
        take_answers(buf, got, a);
        /* a refused batch is not acknowledged any further */
        if (a->error) {
            errno = a->error;
            return -1;
        }
    }
    return 0;
}

int
netlink_ask(struct netlink *n, const struct nlmsghdr *m,
            void (*cb)(const struct nlmsghdr *m, void *ctx), void *ctx)
{
    struct answers a = {.left = 1, .cb = cb, .ctx = ctx};

    return talk(n, m, m->nlmsg_len, &a);
}

int
netlink_batch(struct netlink *n, const void *messages, size_t len, unsigned acks)
{
    struct answers a = {.left = acks};

    return talk(n, messages, len, &a);
}

static void
see_route(const struct nlmsghdr *m, void *ctx)
{
    const struct rtmsg *r = mnl_nlmsg_get_payload(m);
    int *type = ctx;

    if (m->nlmsg_type == RTM_NEWROUTE)
        *type = r->rtm_type;
}

int
netlink_route_type(struct netlink *n, const struct sockaddr *to)
{
    NETLINK_BUFFER(buf);
    void *extra;
    struct nlmsghdr *m =
        netlink_begin(n, buf, RTM_GETROUTE, NLM_F_ACK, sizeof(struct rtmsg), &extra);
    struct rtmsg *r = extra;
    int type = -1;

    r->rtm_family = (unsigned char)to->sa_family;
    if (to->sa_family == AF_INET) {
        r->rtm_dst_len = 32;
        mnl_attr_put(m, RTA_DST, 4, &((const struct sockaddr_in *)to)->sin_addr);
    } else {
        r->rtm_dst_len = 128;
        mnl_attr_put(m, RTA_DST, 16, &((const struct sockaddr_in6 *)to)->sin6_addr);
    }
    if (netlink_ask(n, m, see_route, &type) < 0)
        return -1;
    if (type < 0)
        errno = ENETUNREACH;
    return type;
}
