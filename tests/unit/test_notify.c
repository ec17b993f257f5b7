/* SPDX-License-Identifier: MIT */
/* Where a session's calls lead, with policy public by seccomp notification. */
#include "notify_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "keeper/egress.h"

static void
reach_the_internet(void)
{
    struct sockaddr_storage peer;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
    socklen_t n = sizeof peer;
    struct pollfd p = {.events = POLLOUT};

    CHECK(connect_to(SOCK_STREAM, NET_PUBLIC, 80) == 0);
    CHECK(connect_to(SOCK_STREAM, NET_PUBLIC, 81) == ECONNREFUSED);
    CHECK(connect_to(SOCK_STREAM, "::ffff:" NET_PUBLIC, 80) == 0);
    CHECK(connect_to(SOCK_STREAM, NET_PUBLIC6, 80) == 0);
    CHECK(inet_pton(AF_INET, NET_PUBLIC, &to.sin_addr) == 1);
    p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(connect(p.fd, (struct sockaddr *)&to, sizeof to) == -1 && errno == EINPROGRESS);
    CHECK(poll(&p, 1, 5000) == 1);
    CHECK(getpeername(p.fd, (struct sockaddr *)&peer, &n) == 0);
    /* and undone, which takes no address */
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    CHECK(connect(p.fd, &none, sizeof none) == 0);
}

static void
the_internet_is_reached(void **state)
{
    (void)state;
    run_session(reach_the_internet);
}

static void
try_denied_addresses(void)
{
    static const char *const addresses[] = {"127.0.0.1",
                                            "127.8.8.8",
                                            "0.0.0.0",
                                            NET_HOST,
                                            NET_HOST_LAN,
                                            "10.9.0.10",
                                            NET_RESOLVER,
                                            "169.254.169.254",
                                            "192.168.7.7",
                                            "100.64.9.9",
                                            "203.0.113.9",
                                            "224.0.0.1",
                                            "255.255.255.255",
                                            "::",
                                            "::1",
                                            NET_HOST6,
                                            "::ffff:127.0.0.1",
                                            "::ffff:169.254.169.254",
                                            ("::ffff:" NET_HOST),
                                            "::127.0.0.1",
                                            "64:ff9b::a9fe:a9fe",
                                            "64:ff9b::7f00:1",
                                            "2002:7f00:1::",
                                            "fe80::1",
                                            "fd00:ec2::254",
                                            "ff02::1"};

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++)
            if (connect_to(type, addresses[i], 80) != EPERM) {
                (void)dprintf(2, "%s was not refused\n", addresses[i]);
                _exit(1);
            }
    CHECK(connect_to(SOCK_STREAM, NET_PUBLIC, 25) == EPERM);
}

static void
private_and_own_addresses_are_not(void **state)
{
    (void)state;
    run_session(try_denied_addresses);
}

static int
datagram_to(int how, const void *to, socklen_t n, char *answer)
{
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct timeval patience = {.tv_sec = 2};
    char bytes[] = "abc";
    struct iovec iov[2] = {{bytes, 1}, {bytes + 1, 2}};
    struct mmsghdr m = {{.msg_name = (void *)(uintptr_t)to, .msg_namelen = n, .msg_iov = iov, 2}};
    ssize_t sent;

    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    if (how == 0)
        sent = sendto(fd, "abc", 3, 0, to, n);
    else if (how == 1)
        sent = sendmsg(fd, &m.msg_hdr, 0);
    else
        sent = sendmmsg(fd, &m, 1, 0) == 1 ? (ssize_t)m.msg_len : -1;
    int saved = errno;
    if (sent == 3)
        sent = recv(fd, answer, 3, 0);
    (void)close(fd);
    errno = saved;
    return (int)sent;
}

static void
send_datagrams(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
    char answer[4] = "";

    for (int how = 0; how < 3; how++) {
        CHECK(inet_pton(AF_INET, NET_PUBLIC, &in.sin_addr) == 1);
        in.sin_family = AF_INET;
        in.sin_port = htons(80);
        CHECK(datagram_to(how, &in, sizeof in, answer) == 3 && strcmp(answer, "abc") == 0);
        CHECK(inet_pton(AF_INET, NET_RESOLVER, &in.sin_addr) == 1);
        CHECK(datagram_to(how, &in, sizeof in, answer) == -1 && errno == EPERM);
        in.sin_port = htons(53);
        CHECK(datagram_to(how, &in, sizeof in, answer) == 3);
        CHECK(inet_pton(AF_INET, "169.254.169.254", &in.sin_addr) == 1);
        CHECK(datagram_to(how, &in, sizeof in, answer) == -1 && errno == EPERM);
        /* which UDP would take for IPv4 */
        in.sin_family = AF_UNSPEC;
        CHECK(datagram_to(how, &in, sizeof in, answer) == -1 && errno == EPERM);
    }
}

static void
datagrams_are_looked_at_too(void **state)
{
    (void)state;
    run_session(send_datagrams);
}

static void
try_ways_round(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct msghdr m = {0};
    char option[] = {(char)0x83, 7, 4, 127, 0, 0, 1, 0}; /* loose source route */
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, option, sizeof option) == -1 && errno == EPERM);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &in.sin_addr, 4) == -1 && errno == EPERM);
    /* the kernel looks at the low half of both numbers */
    CHECK(syscall(SYS_setsockopt, fd, 1UL << 32, (1UL << 32) | IP_OPTIONS, option, sizeof option) ==
              -1 &&
          errno == EPERM);
    for (int protocol = 0; protocol < 300; protocol++) {
        bool plain = protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;

        for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET && !plain; type++)
            CHECK(socket(AF_INET, type, protocol) == -1 && errno == EPROTONOSUPPORT);
    }
    CHECK(syscall(SYS_socket, (1UL << 32) | AF_INET, SOCK_DGRAM, (1UL << 32) | IPPROTO_ICMP) == -1);
    /* an address hidden in a first write */
    in.sin_port = htons(80);
    CHECK(inet_pton(AF_INET, NET_HOST, &in.sin_addr) == 1);
    CHECK(sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&in, sizeof in) == -1 &&
          errno == EPERM);
    CHECK(bind(fd, (struct sockaddr *)&in, sizeof in) == -1 && errno == EPERM);
    in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(8080)};
    CHECK(bind(fd, (struct sockaddr *)&in, sizeof in) == -1 && errno == EPERM);
    in.sin_port = 0;
    CHECK(bind(fd, (struct sockaddr *)&in, sizeof in) == 0);
    CHECK(listen(fd, 1) == -1 && errno == EPERM);
    /* another source or interface, by ancillary data */
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){CMSG_LEN(sizeof(int)), IPPROTO_IP, IP_TTL};
    CHECK(sendmsg(udp, &m, 0) == -1 && errno == EPERM);
    CHECK(connect(3333, (struct sockaddr *)&in, sizeof in) == -1 && errno == EBADF);
    CHECK(connect(fd, NULL, 16) == -1 && errno == EFAULT);
    CHECK(connect(fd, (struct sockaddr *)&in, 1) == -1 && errno == EINVAL);
    CHECK(connect(fd, (struct sockaddr *)&in, 4096) == -1 && errno == EINVAL);
    int file = open(".", O_RDONLY);
    CHECK(connect(file, (struct sockaddr *)&in, sizeof in) == -1 && errno == ENOTSOCK);
}

static void
there_is_no_way_round(void **state)
{
    (void)state;
    run_session(try_ways_round);
}

static void
use_netlink(void)
{
    struct ifaddrs *all = NULL;
    int n = 0;

    CHECK(getifaddrs(&all) == 0);
    for (struct ifaddrs *a = all; a; a = a->ifa_next)
        n++;
    CHECK(n > 2);
    freeifaddrs(all);
}

static void
interfaces_can_be_listed(void **state)
{
    (void)state;
    run_session(use_netlink);
}

static void
use_unix_sockets(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "own.sock"}, name = {0};
    socklen_t n = sizeof name;
    struct ucred cred;
    socklen_t cred_len = sizeof cred;
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    int pair[2], pass[2];
    struct stat st;

    CHECK(bind(server, (struct sockaddr *)&un, sizeof un) == 0 && listen(server, 5) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&name, &n) == 0);
    CHECK(strcmp(name.sun_path, "own.sock") == 0);
    CHECK(stat("own.sock", &st) == 0 && st.st_uid == SESSION_UID);
    CHECK(connect(client, (struct sockaddr *)&un, sizeof un) == 0);
    CHECK(getsockopt(client, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0);
    CHECK(cred.uid == SESSION_UID);
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0);
    CHECK(getsockopt(accepted, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0);
    CHECK(cred.uid == SESSION_UID && cred.gid == SESSION_UID);
    /* a descriptor through a pair, as multiprocessing does it */
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    char byte = 'm';
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};
    m.msg_controllen = sizeof control;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pass) == 0);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(h), &pass[1], sizeof(int));
    CHECK(sendmsg(pair[0], &m, 0) == 1);
    byte = '-';
    CHECK(recvmsg(pair[1], &m, 0) == 1 && byte == 'm');
    memcpy(&pass[1], CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
    CHECK(write(pass[1], "p", 1) == 1 && read(pass[0], &byte, 1) == 1 && byte == 'p');
}

static void
unix_sockets_work_as_the_session(void **state)
{
    (void)state;
    run_session(use_unix_sockets);
}

static void
try_foreign_unix_sockets(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "root.sock"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    CHECK(connect(fd, (struct sockaddr *)&un, sizeof un) == -1 && errno == EACCES);
    /* where any user may write, but the session may not */
    (void)snprintf(un.sun_path, sizeof un.sun_path, "/tmp/husk-none.sock");
    CHECK(bind(fd, (struct sockaddr *)&un, sizeof un) == -1 && errno == EACCES);
    memcpy(un.sun_path, "\0husk-abstract", 14);
    socklen_t n = offsetof(struct sockaddr_un, sun_path) + 14;
    CHECK(connect(fd, (struct sockaddr *)&un, n) == -1 && errno == EPERM);
    CHECK(bind(fd, (struct sockaddr *)&un, n) == -1 && errno == EPERM);
    CHECK(bind(fd, (struct sockaddr *)&un, sizeof(sa_family_t)) == -1 && errno == EPERM);
}

static void
other_users_sockets_and_abstract_names_are_refused(void **state)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), abstract = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s/root.sock", session_home);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(chmod(un.sun_path, 0600), 0);
    assert_int_equal(listen(fd, 5), 0);
    memcpy(un.sun_path, "\0husk-abstract", 14);
    assert_int_equal(
        bind(abstract, (struct sockaddr *)&un, offsetof(struct sockaddr_un, sun_path) + 14), 0);
    assert_int_equal(listen(abstract, 5), 0);
    run_session(try_foreign_unix_sockets);
    (void)close(fd);
    (void)close(abstract);
}

static void
what_the_machine_allows_is_tried(void **state)
{
    struct keeper_options o = session_options;
    struct err err = ERR_INIT;

    (void)state;
    if (egress_prepare(&o, &err) < 0)
        fail_msg("%s", err.msg);
    (void)snprintf(o.egress_dns, sizeof o.egress_dns, "dns.example");
    assert_int_equal(egress_prepare(&o, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_machine_allows_is_tried),
        cmocka_unit_test(the_internet_is_reached),
        cmocka_unit_test(private_and_own_addresses_are_not),
        cmocka_unit_test(datagrams_are_looked_at_too),
        cmocka_unit_test(there_is_no_way_round),
        cmocka_unit_test(interfaces_can_be_listed),
        cmocka_unit_test(unix_sockets_work_as_the_session),
        cmocka_unit_test(other_users_sockets_and_abstract_names_are_refused),
    };

    return notify_tests_run(tests, sizeof(tests) / sizeof(tests[0]));
}
