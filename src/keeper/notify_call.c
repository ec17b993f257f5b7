/* SPDX-License-Identifier: MIT */
#include "keeper/notify_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "keeper/deny.h"
#include "keeper/notify_data.h"

/* The caller's socket and the one copy of the address it named. */
struct call {
    const struct caller *caller;
    const struct seccomp_data *d;
    int fd, domain, type;
    bool helper;
    bool as_caller; /* what it names is looked up with the caller's eyes */
    bool blocking;  /* the caller means to wait */
    union {
        struct sockaddr sa;
        struct sockaddr_un un;
        struct sockaddr_nl nl;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_storage any;
    } to;
    socklen_t to_len;
};

static int
copy_address(struct call *k, uint64_t at, uint64_t len)
{
    socklen_t n = (socklen_t)len; /* the kernel looks at the low half only */

    if (n < sizeof(sa_family_t) || n > sizeof k->to)
        return -EINVAL;
    k->to_len = n;
    return caller_read(k->caller, at, &k->to, n);
}

/* v4-mapped addresses are IPv4 in all but their spelling. */
static void
unmap(const struct sockaddr *sa, socklen_t n, struct sockaddr_storage *ret)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    memset(ret, 0, sizeof *ret);
    memcpy(ret, sa, n);
    if (sa->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return;
    v4.sin_port = v6->sin6_port;
    memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, 4);
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &v4, sizeof v4);
}

static bool
is_resolver(const struct supervisor *s, const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

    if (!s->has_resolver || a->ss_family != s->resolver.ss_family || ntohs(v4->sin_port) != 53)
        return false;
    if (a->ss_family == AF_INET)
        return v4->sin_addr.s_addr == ((const struct sockaddr_in *)&s->resolver)->sin_addr.s_addr;
    return memcmp(&v6->sin6_addr, &((const struct sockaddr_in6 *)&s->resolver)->sin6_addr, 16) == 0;
}

/* May a session send to this address? 0, or a negative errno. Pure but for the question to the
 * kernel whether it is the host's. */
static int
notify_judge(struct supervisor *s, const struct sockaddr *sa, socklen_t n)
{
    struct sockaddr_storage a;

    if (!((sa->sa_family == AF_INET && n >= sizeof(struct sockaddr_in)) ||
          (sa->sa_family == AF_INET6 && n >= sizeof(struct sockaddr_in6))) ||
        n > sizeof a)
        return -EPERM;
    unmap(sa, n, &a);
    if (is_resolver(s, &a))
        return 0;
    if (deny_address((const struct sockaddr *)&a, sizeof a))
        return -EPERM;
    int type = netlink_route_type(&s->routes, (const struct sockaddr *)&a);
    if (type < 0)
        return -errno;
    return type == RTN_UNICAST ? 0 : -EPERM;
}

static void
on_alarm(int signum)
{
    (void)signum;
}

/* A connect that the kernel would wait in is interrupted soon, and then watched: it must not be
 * waited for longer than its caller does. */
static void
start_ticking(bool on)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    struct itimerval every = {{0, on ? 100000 : 0}, {0, on ? 100000 : 0}};

    (void)sigaction(SIGALRM, &sa, NULL);
    (void)setitimer(ITIMER_REAL, &every, NULL);
}

/* 0 when it can be written to, else a negative errno. */
static int
wait_writable(const struct call *k, struct deadline until)
{
    struct pollfd p = {.fd = k->fd, .events = POLLOUT};

    while (!deadline_passed(until)) {
        if (!caller_waits(k->caller))
            return -EINTR;
        if (poll(&p, 1, deadline_poll_ms(until, 500)) > 0)
            return 0;
    }
    return -ETIMEDOUT;
}

/* A network socket goes on connecting after an interruption; any other has to be told again. */
static long
connect_and_wait(const struct call *k)
{
    bool network = k->domain == AF_INET || k->domain == AF_INET6;
    struct deadline until = deadline_in(NOTIFY_WAIT_MS);
    int error = 0, rc, saved;
    socklen_t n = sizeof error;

    start_ticking(true);
    do {
        rc = connect(k->fd, &k->to.sa, k->to_len);
        saved = errno;
    } while (rc < 0 && saved == EINTR && !network && !deadline_passed(until) &&
             caller_waits(k->caller));
    start_ticking(false);
    if (rc == 0)
        return 0;
    if (saved != EINTR || !network)
        return -saved;
    long value = wait_writable(k, until);
    if (value < 0)
        return value;
    return getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 ? -errno : -error;
}

/* The address may be used, is another process's file, or is refused (*ret_value). */
static enum how
check_address(struct call *k, long *ret_value)
{
    *ret_value = 0;
    if (k->domain == AF_UNIX) {
        *ret_value = -EPERM; /* abstract names and those the kernel makes up are the host's */
        if (k->to.sa.sa_family != AF_UNIX || k->to_len <= offsetof(struct sockaddr_un, sun_path) ||
            k->to.un.sun_path[0] == '\0')
            return NOTIFY_DONE;
        *ret_value = 0;
        k->as_caller = k->helper;
        return k->helper ? NOTIFY_DONE : NOTIFY_BECOME;
    }
    if (k->domain == AF_NETLINK) { /* questions to the kernel, to nobody else */
        if (k->to_len < sizeof k->to.nl || k->to.nl.nl_family != AF_NETLINK || k->to.nl.nl_groups)
            *ret_value = -EPERM;
        return NOTIFY_DONE;
    }
    if (k->domain != AF_INET && k->domain != AF_INET6)
        *ret_value = -EPERM;
    else
        *ret_value = notify_judge(k->caller->s, &k->to.sa, k->to_len);
    return NOTIFY_DONE;
}

/* Everything was read and looked at: is it still the one that asked? */
static int
ready(const struct call *k)
{
    if (!caller_waits(k->caller))
        return -EINTR;
    return k->as_caller ? caller_become(k->caller) : 0;
}

static enum how
do_connect(struct call *k, long *ret_value)
{
    bool network = k->domain == AF_INET || k->domain == AF_INET6;

    *ret_value = copy_address(k, k->d->args[1], k->d->args[2]);
    if (*ret_value < 0)
        return NOTIFY_DONE;
    /* no address: undoes an earlier connect */
    bool undo = k->to.sa.sa_family == AF_UNSPEC;
    enum how how = undo ? NOTIFY_DONE : check_address(k, ret_value);
    if (how != NOTIFY_DONE || *ret_value < 0)
        return how;
    if (k->domain == AF_NETLINK && !undo && k->to.nl.nl_pid != 0)
        *ret_value = -EPERM;
    else if (network && k->blocking && k->type == SOCK_STREAM && !undo && !k->helper)
        return NOTIFY_BLOCK;
    else
        *ret_value = ready(k);
    if (*ret_value < 0)
        return NOTIFY_DONE;
    if (k->helper)
        *ret_value = connect_and_wait(k);
    else
        *ret_value = connect(k->fd, &k->to.sa, k->to_len) < 0 ? -errno : 0;
    return NOTIFY_DONE;
}

/* Any address and any port is what an unbound socket gets anyway. */
static bool
binds_nothing(const struct call *k)
{
    if (k->to.sa.sa_family == AF_INET && k->to_len >= sizeof k->to.in)
        return k->to.in.sin_port == 0 && k->to.in.sin_addr.s_addr == htonl(INADDR_ANY);
    return k->to.sa.sa_family == AF_INET6 && k->to_len >= sizeof k->to.in6 &&
           k->to.in6.sin6_port == 0 && IN6_IS_ADDR_UNSPECIFIED(&k->to.in6.sin6_addr);
}

static enum how
do_bind(struct call *k, long *ret_value)
{
    enum how how = NOTIFY_DONE;

    *ret_value = copy_address(k, k->d->args[1], k->d->args[2]);
    if (*ret_value < 0)
        return NOTIFY_DONE;
    if (k->domain == AF_INET || k->domain == AF_INET6)
        *ret_value = binds_nothing(k) ? 0 : -EPERM;
    else
        how = check_address(k, ret_value);
    if (how != NOTIFY_DONE || *ret_value < 0)
        return how;
    *ret_value = ready(k);
    if (*ret_value == 0)
        *ret_value = bind(k->fd, &k->to.sa, k->to_len) < 0 ? -errno : 0;
    return NOTIFY_DONE;
}

/* In a helper, so that who connects sees the session's ids on the other end. */
static enum how
do_listen(struct call *k, long *ret_value)
{
    if (k->domain == AF_UNIX && !k->helper)
        return NOTIFY_BECOME;
    k->as_caller = k->helper;
    *ret_value = k->domain == AF_UNIX ? ready(k) : -EPERM;
    if (*ret_value == 0)
        *ret_value = listen(k->fd, (int)k->d->args[1]) < 0 ? -errno : 0;
    return NOTIFY_DONE;
}

/* One message, its address checked and its data copied. The flags are the caller's. */
static enum how
send_one(struct call *k, struct message *m, int flags, long *ret_value)
{
    struct deadline until = deadline_in(NOTIFY_WAIT_MS);
    bool wait = k->blocking && !(flags & MSG_DONTWAIT);

    k->to_len = 0;
    if (m->name_len > 0) {
        *ret_value = copy_address(k, m->name, m->name_len);
        if (*ret_value < 0)
            return NOTIFY_DONE;
        enum how how = check_address(k, ret_value);
        if (how != NOTIFY_DONE || *ret_value < 0)
            return how;
        if (k->domain == AF_NETLINK && k->to.nl.nl_pid != 0) {
            *ret_value = -EPERM;
            return NOTIFY_DONE;
        }
    }
    *ret_value = message_copy(m, k->caller, k->domain, k->type);
    if (*ret_value < 0)
        return NOTIFY_DONE;
    m->out.msg_name = k->to_len ? &k->to : NULL;
    m->out.msg_namelen = k->to_len;
    *ret_value = ready(k);
    while (*ret_value == 0) {
        ssize_t sent = sendmsg(k->fd, &m->out, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
        *ret_value = sent < 0 ? -errno : sent;
        if (*ret_value != -EAGAIN || !wait)
            break;
        if (!k->helper) {
            message_done(m);
            return NOTIFY_BLOCK;
        }
        *ret_value = wait_writable(k, until);
        /* a datagram's peer can be full while the socket itself is not */
        (void)usleep(10000);
    }
    message_done(m);
    return NOTIFY_DONE;
}

static enum how
do_sendto(struct call *k, long *ret_value)
{
    struct message m = {
        .name = k->d->args[4], .name_len = (socklen_t)k->d->args[5], .one_len = k->d->args[2]};

    m.one_base = k->d->args[1];
    return send_one(k, &m, (int)k->d->args[3], ret_value);
}

static enum how
do_sendmsg(struct call *k, long *ret_value)
{
    struct message m = {0};

    *ret_value = message_read(&m, k->caller, k->d->args[1]);
    return *ret_value < 0 ? NOTIFY_DONE : send_one(k, &m, (int)k->d->args[2], ret_value);
}

#define MESSAGES_MAX 64 /* of one sendmmsg; a longer one is a short one */

/* As many as go; an error is told only when it is the first's. */
static enum how
do_sendmmsg(struct call *k, long *ret_value)
{
    uint32_t n = (uint32_t)k->d->args[2];
    long done = 0;

    *ret_value = 0;
    for (uint32_t i = 0; i < n && i < MESSAGES_MAX; i++) {
        uint64_t at = k->d->args[1] + i * sizeof(struct mmsghdr);
        struct message m = {0};
        enum how how = NOTIFY_DONE;
        long value = message_read(&m, k->caller, at);

        if (value == 0)
            how = send_one(k, &m, (int)k->d->args[3], &value);
        if (how != NOTIFY_DONE && i == 0)
            return how;
        if (how != NOTIFY_DONE || value < 0) {
            *ret_value = i == 0 ? value : done;
            return NOTIFY_DONE;
        }
        uint32_t sent = (uint32_t)value;
        (void)caller_write(k->caller, at + offsetof(struct mmsghdr, msg_len), &sent, sizeof sent);
        *ret_value = ++done;
    }
    return NOTIFY_DONE;
}

static enum how
dispatch(struct call *k, long *ret_value)
{
    switch (k->d->nr) {
    case SYS_connect:
        return do_connect(k, ret_value);
    case SYS_bind:
        return do_bind(k, ret_value);
    case SYS_listen:
        return do_listen(k, ret_value);
    case SYS_sendto:
        return do_sendto(k, ret_value);
    case SYS_sendmsg:
        return do_sendmsg(k, ret_value);
    case SYS_sendmmsg:
        return do_sendmmsg(k, ret_value);
    default:
        *ret_value = -ENOSYS;
        return NOTIFY_DONE;
    }
}

enum how
notify_perform(const struct caller *c, const struct seccomp_data *d, bool helper, long *ret_value)
{
    struct call k = {.caller = c, .d = d, .helper = helper};
    socklen_t n = sizeof k.domain;
    _cleanup_close_ int fd = caller_fd(c, (int)d->args[0]);

    *ret_value = fd;
    if (fd < 0)
        return NOTIFY_DONE;
    k.fd = fd;
    *ret_value = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &k.domain, &n) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &k.type, &n) < 0) {
        *ret_value = -errno;
        return NOTIFY_DONE;
    }
    k.blocking = !(fcntl(fd, F_GETFL) & O_NONBLOCK);
    return dispatch(&k, ret_value);
}
