/* SPDX-License-Identifier: MIT */
#include "keeper/notify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/sig.h"
#include "keeper/notify_call.h"

#define HELPERS_MAX 128 /* calls of one sandbox that wait at a time */

/* Arguments that are ints: the kernel looks at their low half only, and so must the filter. */
#define INT_IS(arg, value) SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, 0xffffffffu, (uint32_t)(value))

static const int SUPERVISED[] = {SCMP_SYS(connect), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg),
                                 SCMP_SYS(bind), SCMP_SYS(listen)};

/* Options by which a packet goes elsewhere than its address says: source routes, and interfaces by
 * which it leaves whatever the routes say. */
static const struct {
    int level, option;
} ROUTING_OPTIONS[] = {
    {IPPROTO_IP, IP_OPTIONS},
    {IPPROTO_IP, IP_UNICAST_IF},
    {IPPROTO_IPV6, IPV6_UNICAST_IF},
    {IPPROTO_IPV6, IPV6_PKTINFO},
    {IPPROTO_IPV6, IPV6_RTHDR},
    {IPPROTO_IPV6, IPV6_2292RTHDR},
    {IPPROTO_IPV6, IPV6_2292PKTOPTIONS},
};

/* TCP and UDP only: other protocols have ways to name an address that are not supervised. */
static int
add_protocol_rules(scmp_filter_ctx filter)
{
    static const int families[] = {AF_INET, AF_INET6};
    uint32_t refuse = SCMP_ACT_ERRNO(EPROTONOSUPPORT);

    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        int rc = seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 2, INT_IS(0, families[i]),
                                  SCMP_CMP(2, SCMP_CMP_GT, IPPROTO_UDP));

        for (int p = 1; rc == 0 && p < IPPROTO_UDP; p++)
            if (p != IPPROTO_TCP)
                rc = seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 2, INT_IS(0, families[i]),
                                      INT_IS(2, p));
        if (rc < 0)
            return rc;
    }
    return 0;
}

int
notify_rules(scmp_filter_ctx filter)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof SUPERVISED / sizeof SUPERVISED[0]; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SUPERVISED[i], 0);
    /* without an address it goes where a supervised connect() has led */
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(sendto), 1,
                              SCMP_CMP(4, SCMP_CMP_NE, 0));
    for (size_t i = 0; rc == 0 && i < sizeof ROUTING_OPTIONS / sizeof ROUTING_OPTIONS[0]; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(setsockopt), 2,
                              INT_IS(1, ROUTING_OPTIONS[i].level),
                              INT_IS(2, ROUTING_OPTIONS[i].option));
    return rc < 0 ? rc : add_protocol_rules(filter);
}

static int
parse_resolver(const struct keeper_options *o, struct supervisor *s, struct err *err)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&s->resolver;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&s->resolver;

    if (!o->egress_dns[0])
        return 0;
    s->has_resolver = true;
    if (inet_pton(AF_INET, o->egress_dns, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        return 0;
    }
    if (inet_pton(AF_INET6, o->egress_dns, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        return 0;
    }
    return err_set(err, ERR_INVALID, "the resolver %s is no address", o->egress_dns);
}

/* What a supervisor and its helpers do: look into processes, and become their user. */
static int
keep_capabilities(void)
{
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2];
    uint32_t keep = 1u << CAP_SYS_PTRACE | 1u << CAP_SETUID | 1u << CAP_SETGID |
                    1u << CAP_SYS_CHROOT | 1u << CAP_SETPCAP;

    if (syscall(SYS_capget, &h, d) < 0)
        return -1;
    d[0].permitted &= keep;
    d[0].effective = d[0].permitted;
    d[1].permitted = d[1].effective = 0;
    d[0].inheritable = d[1].inheritable = 0;
    return (int)syscall(SYS_capset, &h, d);
}

/* Looking into another process goes by the real ids where there is no CAP_SYS_PTRACE: they become
 * the session's, the effective ones stay. Others still cannot look into us: not dumpable. */
static int
take_ids(uid_t uid)
{
    if (geteuid() == 0 && uid != 0) {
        if (setgroups(0, NULL) < 0 || setresgid(uid, 0, 0) < 0 || setresuid(uid, 0, 0) < 0)
            return -1;
    }
    if (keep_capabilities() < 0)
        return -1;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void
answer(const struct supervisor *s, uint64_t id, long value)
{
    struct seccomp_notif_resp r = {.id = id};

    if (value < 0)
        r.error = (int)value;
    else
        r.val = value;
    /* the caller may be gone: nobody to tell */
    (void)seccomp_notify_respond(s->notify_fd, &r);
}

/* A process for one call that takes long or has to be made as the caller. */
static pid_t
start_helper(const struct caller *c, const struct seccomp_data *d)
{
    long value = -EPERM;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    (void)notify_perform(c, d, true, &value);
    answer(c->s, c->id, value);
    _exit(0);
}

/* Answers one notification; 1 if a helper does. */
static int
serve_one(struct supervisor *s, const struct seccomp_notif *n)
{
    struct caller c;
    long value = caller_open(&c, s, n);

    if (value < 0) {
        answer(s, n->id, value);
        return 0;
    }
    if (notify_perform(&c, &n->data, false, &value) != NOTIFY_DONE) {
        pid_t pid = start_helper(&c, &n->data);

        (void)close(c.pidfd);
        if (pid > 0)
            return 1;
        answer(s, n->id, -EAGAIN);
        return 0;
    }
    answer(s, n->id, value);
    (void)close(c.pidfd);
    return 0;
}

static int
reap(int flags)
{
    int n = 0;

    while (waitpid(-1, NULL, flags) > 0) {
        n++;
        flags = WNOHANG;
    }
    return n;
}

/* The kernel's idea of a notification may be longer than ours. */
static size_t
notification_size(void)
{
    struct seccomp_notif_sizes sizes = {0};

    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0 ||
        sizes.seccomp_notif < sizeof(struct seccomp_notif))
        return sizeof(struct seccomp_notif);
    return sizes.seccomp_notif;
}

/* Until nobody is left whose calls could be held. Should we fail, the calls fail as well. */
static void
serve(struct supervisor *s)
{
    size_t size = notification_size();
    _cleanup_free_ struct seccomp_notif *n = xcalloc(1, size);
    struct pollfd p = {.fd = s->notify_fd, .events = POLLIN};
    int helpers = 0;

    for (;;) {
        helpers -= reap(helpers >= HELPERS_MAX ? 0 : WNOHANG);
        int ready = poll(&p, 1, 1000);
        if (ready < 0 && errno != EINTR)
            return;
        if (ready <= 0)
            continue;
        if (!(p.revents & POLLIN))
            return;
        memset(n, 0, size); /* the kernel insists */
        if (seccomp_notify_receive(s->notify_fd, n) == 0)
            helpers += serve_one(s, n);
        else if (errno != ENOENT && errno != EINTR) /* the one that called is gone */
            return;
    }
}

static void
supervise(struct supervisor *s, int notify_fd, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(1);
    sig_reset_all();
    /* nothing of the monitor's, whose locks and sockets must not live longer than it */
    s->notify_fd = 3;
    if (dup2(notify_fd, 3) < 0 || close_range(4, ~0u, 0) < 0 ||
        netlink_open(&s->routes, NETLINK_ROUTE, NULL) < 0 || take_ids(s->uid) < 0)
        _exit(1);
    /* changing ids cleared it */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(1);
    s->data = malloc(NOTIFY_DATA_MAX);
    if (!s->data)
        _exit(1);
    serve(s);
    _exit(0);
}

pid_t
notify_supervise(const struct keeper_options *o, uid_t uid, const char *home, int notify_fd,
                 struct err *err)
{
    struct supervisor s = {.o = o, .uid = uid, .home = home};
    pid_t parent = getpid();

    if (parse_resolver(o, &s, err) < 0)
        return -1;
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "supervisor of network calls");
    if (pid == 0)
        supervise(&s, notify_fd, parent);
    return pid;
}

/* Plays a session's process: its ids, and then nothing until it is killed. */
static void
probe_caller(uid_t uid)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (geteuid() == 0 && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
        _exit(1);
    /* as it would be after its exec */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    for (;;)
        (void)pause();
}

/* Plays its supervisor: exits with the errno of what was refused. */
static void
probe_supervisor(uid_t uid, pid_t target)
{
    struct supervisor s = {.uid = uid};
    struct seccomp_notif n = {.pid = (uint32_t)target};
    struct caller c;
    char byte;

    if (take_ids(uid) < 0)
        _exit(errno);
    int rc = caller_open(&c, &s, &n);
    /* the other needs a moment to be what it plays */
    for (int i = 0; i < 100 && rc == 0; i++) {
        int fd = caller_fd(&c, 0);

        rc = fd < 0 && fd != -EBADF ? fd : caller_read(&c, (uint64_t)(uintptr_t)&byte, &byte, 1);
        if (rc == 0)
            break;
        (void)usleep(10000);
        rc = i < 99 ? 0 : rc;
    }
    _exit(-rc);
}

int
notify_prepare(const struct keeper_options *o, struct err *err)
{
    struct supervisor s = {0};
    uid_t uid = o->tier == TIER_ROOTLESS ? geteuid() : KERNEL_UID_BASE;
    int status = 0;

    if (parse_resolver(o, &s, err) < 0)
        return -1;
    if (seccomp_api_get() < 5)
        return err_set(err, ERR_UNAVAILABLE,
                       "egress public needs seccomp notifications (Linux "
                       "5.0 and newer, libseccomp 2.5)");
    pid_t target = fork();
    if (target == 0)
        probe_caller(uid);
    pid_t prober = target < 0 ? -1 : fork();
    if (prober == 0)
        probe_supervisor(uid, target);
    if (prober < 0 || waitpid(prober, &status, 0) != prober)
        status = -1;
    if (target > 0) {
        (void)kill(target, SIGKILL);
        (void)waitpid(target, NULL, 0);
    }
    if (status == 0)
        return 0;
    return err_sys(err, ERR_UNAVAILABLE, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                   "egress public without CAP_NET_ADMIN needs pidfd_getfd and process_vm_readv, "
                   "which are refused here (a container's seccomp profile, or Yama: give it "
                   "CAP_SYS_PTRACE)");
}
