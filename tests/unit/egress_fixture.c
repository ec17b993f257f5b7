/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "egress_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "support/net_address.h"

static const uint16_t PORTS[] = {25, 53, 80};
#define N_PORTS (sizeof PORTS / sizeof PORTS[0])

void
net_run(const char *fmt, ...)
{
    char line[600];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    int status = system(line);
    if (status != 0)
        print_error("failed: %s\n", line);
    assert_int_equal(status, 0);
}

static int
open_port(int type, uint16_t port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&any, sizeof any) < 0 ||
        (type == SOCK_STREAM && listen(fd, 128) < 0))
        _exit(3);
    return fd;
}

/* From the address that was asked. */
static void
answer_datagram(int fd)
{
    struct sockaddr_storage from;
    char byte[16], control[256] __attribute__((aligned(8)));
    struct iovec iov = {byte, sizeof byte};
    struct msghdr m = {.msg_name = &from,
                       .msg_namelen = sizeof from,
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &m, 0);

    if (n < 0)
        return;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
        if (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_PKTINFO)
            ((struct in6_pktinfo *)CMSG_DATA(h))->ipi6_ifindex = 0;
    iov.iov_len = (size_t)n;
    (void)sendmsg(fd, &m, 0);
}

/* Takes connections and answers datagrams until it is killed. */
static void
answer_all(void)
{
    struct pollfd p[2 * N_PORTS];

    for (size_t i = 0; i < N_PORTS; i++) {
        p[2 * i] = (struct pollfd){open_port(SOCK_STREAM, PORTS[i]), POLLIN, 0};
        p[2 * i + 1] = (struct pollfd){open_port(SOCK_DGRAM, PORTS[i]), POLLIN, 0};
    }
    for (;;) {
        if (poll(p, 2 * N_PORTS, -1) < 0)
            continue;
        for (size_t i = 0; i < 2 * N_PORTS; i++) {
            if (!(p[i].revents & POLLIN))
                continue;
            if (i % 2 == 0) {
                int c = accept(p[i].fd, NULL, NULL);

                if (c >= 0)
                    (void)close(c);
                continue;
            }
            answer_datagram(p[i].fd);
        }
    }
}

/* A child in its own network namespace (own) or in ours, ready when this returns. */
static pid_t
start(bool own, bool answering)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (own && (unshare(CLONE_NEWNET) < 0 || system("ip link set lo up") != 0))
            _exit(2);
        (void)fd_write_all(ready[1], "r", 1);
        (void)close(ready[0]);
        (void)close(ready[1]);
        if (answering)
            answer_all();
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(fd_read_all(ready[0], &byte, 1), 0);
    (void)close(ready[0]);
    return pid;
}

pid_t
net_sandbox(bool answering)
{
    return start(true, answering);
}

void
net_kill(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static int
not_here(const char *why)
{
    printf("not run: %s\n", why);
    return 77;
}

int
net_world_make(struct net_world *w)
{
    memset(w, 0, sizeof *w);
    if (geteuid() != 0)
        return not_here("needs root");
    if (unshare(CLONE_NEWNET) < 0)
        return not_here("no network namespaces here");
    if (system("ip link set lo up && ip link add probe type veth peer name probe2 && "
               "ip link del probe && nft list ruleset") != 0)
        return not_here("needs ip, nft and a kernel with veth and nftables");
    w->internet = start(true, true);
    w->lan = start(true, true);
    w->host = start(false, true);
    net_run("ip link add ext type veth peer name e0 netns %d", (int)w->internet);
    net_run("ip link add lan type veth peer name e0 netns %d", (int)w->lan);
    net_run("ip addr add " NET_HOST "/24 dev ext && ip link set ext up && "
            "ip addr add " NET_HOST6 "/64 dev ext nodad");
    net_run("ip addr add " NET_HOST_LAN "/24 dev lan && ip link set lan up");
    net_run("nsenter --net=/proc/%d/ns/net sh -ec 'ip link set e0 up; "
            "ip addr add " NET_PUBLIC "/24 dev e0; ip addr add " NET_PUBLIC6 "/64 dev e0 nodad; "
            "ip route add default via " NET_HOST "'",
            (int)w->internet);
    net_run("nsenter --net=/proc/%d/ns/net sh -ec 'ip link set e0 up; "
            "for a in 10.9.0.10/24 10.9.0.53/24 169.254.169.254/32 192.168.7.7/32 100.64.9.9/32; "
            "do ip addr add $a dev e0; done; ip route add default via " NET_HOST_LAN "'",
            (int)w->lan);
    net_run("for a in 169.254.169.254 192.168.7.7 100.64.9.9; do ip route add $a via 10.9.0.10; "
            "done; ip route add default via " NET_PUBLIC);
    net_run("echo 1 >/proc/sys/net/ipv4/ip_forward");
    return 0;
}

void
net_world_end(struct net_world *w)
{
    net_kill(w->host);
    net_kill(w->internet);
    net_kill(w->lan);
}

static int
try_here(int type, const struct sockaddr_storage *to, socklen_t n)
{
    struct timeval patience = {.tv_usec = 400000};
    char byte = 'x';
    int fd = socket(to->ss_family, type, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
        return errno;
    if (connect(fd, (const struct sockaddr *)to, n) < 0)
        return errno == EINPROGRESS ? ETIMEDOUT : errno;
    if (type == SOCK_STREAM)
        return 0;
    if (send(fd, &byte, 1, 0) < 0 || recv(fd, &byte, 1, 0) < 0)
        return errno == EAGAIN ? ETIMEDOUT : errno;
    return 0;
}

int
net_try(pid_t from, int type, const char *address, uint16_t port)
{
    struct sockaddr_storage to;
    socklen_t n = net_address(address, port, &to);
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        char path[48];

        (void)snprintf(path, sizeof path, "/proc/%d/ns/net", (int)from);
        int ns = open(path, O_RDONLY | O_CLOEXEC);
        if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
            _exit(255);
        _exit(try_here(type, &to, n));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int
net_try_patiently(pid_t from, int type, const char *address, uint16_t port)
{
    int error = ETIMEDOUT;

    for (int i = 0; i < 10 && error == ETIMEDOUT; i++)
        error = net_try(from, type, address, port);
    return error;
}

void
net_assert_reached(pid_t from, int type, const char *address, uint16_t port)
{
    int error = net_try_patiently(from, type, address, port);

    if (error != 0)
        fail_msg("%s port %u: %s", address, port, strerror(error));
}
