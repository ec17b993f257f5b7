/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "egress_fixture.h"
#include "keeper/egress.h"
#include "keeper/notify.h"

/*
 * Policy public by seccomp notification.  What a session does runs in a child under the filter,
 * of the session's uid, in the network namespace of the "host"; it exits with 0 or the line of the
 * first check that did not hold.
 */
static struct net_world world;
static struct keeper_options options = {
    .tier = TIER_CONTAINER, .egress = EGRESS_PUBLIC, .egress_dns = NET_RESOLVER};
static char home[] = "/tmp/husk-notify-XXXXXX";

#define SESSION_UID 200007

/* In the session. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)dprintf(2, "%d: %s (errno %d)\n", __LINE__, #condition, errno);                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Starts f as a session, with its supervisor, both left to be reaped. */
static pid_t
start_session(void (*f)(void), pid_t *ret_supervisor)
{
    struct err err = ERR_INIT;
    int up[2], down[2], number;
    char byte;

    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(setresgid(SESSION_UID, SESSION_UID, SESSION_UID) == 0);
        CHECK(setresuid(SESSION_UID, SESSION_UID, SESSION_UID) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && chdir(home) == 0);
        CHECK(c && notify_rules(c) == 0 && seccomp_load(c) == 0);
        number = seccomp_notify_fd(c);
        CHECK(fd_write_all(up[1], &number, sizeof number) == 0);
        CHECK(fd_read_all(down[0], &byte, 1) == 0);
        (void)close(number);
        f();
        _exit(0);
    }
    assert_int_equal(fd_read_all(up[0], &number, sizeof number), 0);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int notify_fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
    assert_true(notify_fd >= 0);
    pid_t supervisor = egress_supervise(&options, SESSION_UID, home, notify_fd, &err);
    if (supervisor < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(fd_write_all(down[1], "g", 1), 0);
    (void)close(notify_fd);
    (void)close(pidfd);
    for (int i = 0; i < 2; i++) {
        (void)close(up[i]);
        (void)close(down[i]);
    }
    *ret_supervisor = supervisor;
    return pid;
}

static void
run_session(void (*f)(void))
{
    int status;
    pid_t supervisor, pid = start_session(f, &supervisor);

    assert_int_equal(waitpid(pid, &status, 0), pid);
    /* with the last process of the session it ends by itself */
    assert_int_equal(waitpid(supervisor, NULL, 0), supervisor);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int
connect_to(int type, const char *address, uint16_t port)
{
    struct sockaddr_storage to;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    socklen_t n = sizeof v6;

    if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1) {
        memcpy(&to, &v6, sizeof v6);
    } else {
        n = sizeof(struct sockaddr_in);
        memset(&to, 0, sizeof to);
        to.ss_family = AF_INET;
        ((struct sockaddr_in *)&to)->sin_port = htons(port);
        CHECK(inet_pton(AF_INET, address, &((struct sockaddr_in *)&to)->sin_addr) == 1);
    }
    int fd = socket(to.ss_family, type, 0);
    CHECK(fd >= 0);
    int rc = connect(fd, (struct sockaddr *)&to, n);
    int saved = errno;
    (void)close(fd);
    return rc == 0 ? 0 : saved;
}

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
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s/root.sock", home);
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

/* The address changes under the call, between one that is allowed and one that answers but is
 * denied, as often as two processors can. */
#define RACES 5000
static struct sockaddr_in shared_address;
static atomic_bool race_over;

static void *
flip(void *arg)
{
    volatile struct sockaddr_in *a = &shared_address;
    in_addr_t open = inet_addr(NET_PUBLIC), denied = inet_addr(NET_HOST);

    while (!race_over) {
        a->sin_addr.s_addr = open;
        for (volatile int i = 0; i < 50; i++)
            ;
        a->sin_addr.s_addr = denied;
        for (volatile int i = 0; i < 50; i++)
            ;
    }
    return arg;
}

static void
race(void)
{
    pthread_t t;
    int reached = 0, refused = 0;

    shared_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(80)};
    CHECK(pthread_create(&t, NULL, flip, NULL) == 0);
    for (int i = 0; i < RACES; i++) {
        struct sockaddr_in peer;
        socklen_t n = sizeof peer;
        struct linger reset = {1, 0};
        int fd = socket(AF_INET, SOCK_DGRAM, 0);

        CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&shared_address, sizeof shared_address) == 0) {
            CHECK(getpeername(fd, (struct sockaddr *)&peer, &n) == 0);
            CHECK(peer.sin_addr.s_addr == inet_addr(NET_PUBLIC));
            reached++;
        } else {
            CHECK(errno == EPERM);
            refused++;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (void)close(fd);
    }
    race_over = true;
    CHECK(pthread_join(t, NULL) == 0);
    CHECK(reached > 0 && refused > 0);
}

static void
an_address_that_changes_meanwhile_is_not_reached(void **state)
{
    (void)state;
    run_session(race);
}

static void *
connect_to_nowhere(void *arg)
{
    (void)connect_to(SOCK_STREAM, "93.184.216.77", 80); /* nobody there: no answer for seconds */
    return arg;
}

static void
wait_in_many_threads(void)
{
    pthread_t t;
    int64_t began;

    for (int i = 0; i < 10; i++)
        CHECK(pthread_create(&t, NULL, connect_to_nowhere, NULL) == 0);
    began = clock_mono_ms();
    for (int i = 0; i < 10; i++)
        CHECK(connect_to(SOCK_STREAM, NET_PUBLIC, 80) == 0);
    CHECK(clock_mono_ms() - began < 2000);
}

static void
one_that_waits_holds_up_no_other(void **state)
{
    int64_t began = clock_mono_ms();

    (void)state;
    run_session(wait_in_many_threads);
    /* and what waited has ended with the session */
    assert_true(clock_mono_ms() - began < 4000);
}

static void
on_signal(int signum)
{
    (void)signum;
}

static void
be_interrupted(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    int64_t began = clock_mono_ms();

    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    (void)alarm(1);
    CHECK(connect_to(SOCK_STREAM, "93.184.216.77", 80) == EINTR);
    CHECK(clock_mono_ms() - began < 2500);
}

static void
a_signal_ends_the_wait(void **state)
{
    (void)state;
    run_session(be_interrupted);
}

static void
send_much(void)
{
    enum { MUCH = 3 << 20 };
    int pair[2];
    char *bytes = calloc(1, MUCH);
    struct iovec iov[2] = {{bytes, MUCH / 2}, {bytes, MUCH / 2}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

    CHECK(bytes && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t reader = fork();
    if (reader == 0) {
        size_t got = 0;

        (void)close(pair[0]);
        for (ssize_t n; (n = read(pair[1], bytes, MUCH)) > 0;)
            got += (size_t)n;
        _exit(got == MUCH ? 0 : 1);
    }
    (void)close(pair[1]);
    for (size_t sent = 0; sent < MUCH;) {
        ssize_t n = sendmsg(pair[0], &m, 0);

        CHECK(n > 0);
        sent += (size_t)n;
        iov[0].iov_len = MUCH - sent;
        m.msg_iovlen = 1;
    }
    int status;
    (void)close(pair[0]);
    CHECK(waitpid(reader, &status, 0) == reader && WEXITSTATUS(status) == 0);
    /* a message that does not fit is refused whole */
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    iov[0].iov_len = MUCH;
    CHECK(sendmsg(pair[0], &m, 0) == -1 && errno == EMSGSIZE);
    m.msg_iovlen = 5000;
    CHECK(sendmsg(pair[0], &m, 0) == -1 && errno == EMSGSIZE);
}

static void
long_messages_go_in_pieces(void **state)
{
    (void)state;
    run_session(send_much);
}

static void
what_the_machine_allows_is_tried(void **state)
{
    struct keeper_options o = options;
    struct err err = ERR_INIT;

    (void)state;
    if (egress_prepare(&o, &err) < 0)
        fail_msg("%s", err.msg);
    (void)snprintf(o.egress_dns, sizeof o.egress_dns, "dns.example");
    assert_int_equal(egress_prepare(&o, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static int
set_up(void **state)
{
    (void)state;
    return mkdtemp(home) && chown(home, SESSION_UID, SESSION_UID) == 0 ? 0 : -1;
}

static int
tear_down(void **state)
{
    char path[64];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/root.sock", home);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/own.sock", home);
    (void)unlink(path);
    return rmdir(home);
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
        cmocka_unit_test(an_address_that_changes_meanwhile_is_not_reached),
        cmocka_unit_test(one_that_waits_holds_up_no_other),
        cmocka_unit_test(a_signal_ends_the_wait),
        cmocka_unit_test(long_messages_go_in_pieces),
    };

    int status = net_world_make(&world);
    if (status == 0)
        status = cmocka_run_group_tests(tests, set_up, tear_down) != 0;
    net_world_end(&world);
    return status;
}
