/* SPDX-License-Identifier: MIT */
/* The system call filter, in a process that loads it: every row of its table answers as it says,
 * and ordinary calls go on. With --print the table of docs/isolation.md; else that one is held
 * against the filter's. */
#include "support/doc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "keeper/filter.h"

#define NOBODY 65534
#define BEGIN "<!-- filter: begin -->\n"
#define END "<!-- filter: end -->\n"

/* Runs fn in a child that has no rights and the filter; fails with its number if it is not 0. */
static void
with_filter(struct filter_options o, int (*fn)(void))
{
    struct err err = ERR_INIT;
    int status, notify;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(20);
        if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
            _exit(254);
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (filter_load(&o, &notify, &err) < 0)
            _exit(255);
        _exit(fn());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool
fails(long result, int error)
{
    return result == -1 && errno == error;
}

static int
try_table(void)
{
    const struct filter_row *row;

    for (size_t i = 0; (row = filter_row(i)) != NULL; i++) {
        int call =
            strchr(row->call, ' ') ? __NR_SCMP_ERROR : seccomp_syscall_resolve_name(row->call);

        if (call < 0 || strcmp(row->call, "personality") == 0)
            continue; /* has conditions, or this machine has it not */
        if (!fails(syscall(call, 0, 0, 0, 0, 0, 0), row->error)) {
            (void)fprintf(stderr, "%s: %s\n", row->call, strerror(errno));
            return 1;
        }
    }
    return 0;
}

static void
test_every_call_of_the_table_is_refused(void **state)
{
    (void)state;
    with_filter((struct filter_options){.inet = true, .ipc = true}, try_table);
}

/* Each returns the number of the check that failed. */
#define CHECK(n, condition)                                                                        \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return (n);                                                                            \
    } while (0)

static int
try_arguments(void)
{
    static const unsigned long high = 1UL << 32;
    static const int families[] = {AF_PACKET, AF_ALG, AF_VSOCK, AF_BLUETOOTH, AF_XDP, AF_CAN,
                                   AF_KEY,    AF_RDS, AF_TIPC,  AF_MAX + 20,  1000};
    struct rlimit none = {0, 0}, some = {64, 64}, core = {0, 0};
    struct flock all = {.l_type = F_WRLCK};
    int pair[2];

    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        CHECK(1, fails(socket(families[i], SOCK_DGRAM, 0), EAFNOSUPPORT));
        CHECK(2, fails(syscall(SYS_socket, high | (unsigned)families[i], SOCK_DGRAM, 0),
                       EAFNOSUPPORT));
    }
    CHECK(3, fails(syscall(SYS_socket, high | AF_INET, SOCK_RAW, 1), EAFNOSUPPORT));
    CHECK(4, fails(socket(AF_INET, SOCK_RAW, 1), EPERM));
    CHECK(5, fails(socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6), EPERM));
    CHECK(6, fails(syscall(SYS_socket, AF_INET, high | SOCK_RAW, 1), EPERM));
    CHECK(7, fails(syscall(SYS_socket, AF_INET, SOCK_STREAM, high | 132), EPROTONOSUPPORT));
    for (int p = 1; p < 300; p++)
        if (p != IPPROTO_TCP && p != IPPROTO_UDP && p != IPPROTO_ICMP && p != IPPROTO_ICMPV6) {
            CHECK(8, fails(socket(AF_INET6, SOCK_STREAM, p), EPROTONOSUPPORT));
            CHECK(29, fails(socket(AF_INET, SOCK_DGRAM, p), EPROTONOSUPPORT));
        }
    CHECK(30, fails(prctl(62 /* PR_SCHED_CORE */, 1, 0, 0, 0), EPERM));
    CHECK(9, fails(socket(AF_NETLINK, SOCK_RAW, 12), EPERM));
    CHECK(10, fails(syscall(SYS_socketpair, high | AF_UNIX, SOCK_STREAM, 0, pair), EAFNOSUPPORT));
    CHECK(11, fails(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM));
    CHECK(12, fails(syscall(SYS_clone, high | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0), EPERM));
    CHECK(13, fails(ioctl(0, TIOCSTI, ""), EPERM));
    CHECK(14, fails(syscall(SYS_ioctl, 0, high | TIOCSTI, ""), EPERM));
    CHECK(15, fails(syscall(SYS_personality, 0x40000), EPERM));
    CHECK(16, syscall(SYS_personality, 0xffffffff) >= 0);
    CHECK(17, fails(syscall(500, 0, 0, 0), ENOSYS));
    CHECK(31, getrlimit(RLIMIT_CORE, &core) == 0);
    CHECK(19, setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0); /* done, and not done */
    CHECK(20, syscall(SYS_setrlimit, high | RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
    CHECK(32, getrlimit(RLIMIT_CORE, &none) == 0 && none.rlim_max == core.rlim_max);
    CHECK(21, setrlimit(RLIMIT_NOFILE, &some) == 0);
    CHECK(33, fails(fcntl(0, F_OFD_SETLK, &all), EINVAL));
    CHECK(34, fails(syscall(SYS_fcntl, 0, high | F_OFD_SETLKW, &all), EINVAL));
    CHECK(35, fails(setsockopt(-1, SOL_SOCKET, SO_ATTACH_FILTER, "", 8), EPERM));
    CHECK(36, fails(setsockopt(-1, IPPROTO_IPV6, IPV6_JOIN_GROUP, "", 8), EPERM));
    CHECK(37, fails(setsockopt(-1, IPPROTO_IPV6, MCAST_JOIN_GROUP, "", 8), EPERM));
    CHECK(39, fails(setsockopt(-1, IPPROTO_IPV6, 32 /* flow labels */, "", 8), EPERM));
    CHECK(40, fails(setsockopt(-1, IPPROTO_TCP, 14 /* TCP_MD5SIG */, "", 8), EPERM));
    CHECK(38, fails(setsockopt(-1, IPPROTO_IP, IP_ADD_MEMBERSHIP, "", 8), EPERM));
    CHECK(41, fails(setsockopt(-1, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2), EPERM));
    CHECK(42, fails(setsockopt(-1, SOL_SOCKET, SO_REUSEADDR, "", 8), EBADF));
    CHECK(43, fails(prctl(PR_SET_SECCOMP, 2, NULL, 0, 0), EINVAL));
    CHECK(44, fails(syscall(SYS_prctl, high | PR_SET_SECCOMP, 1, 0, 0, 0), EINVAL));
    CHECK(45, prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
    CHECK(46, fails(ioctl(-1, SIOCGIFNAME, ""), EBADF)); /* the host's network is seen anyway */
    CHECK(47, fails(inotify_add_watch(-1, "/usr", IN_OPEN), EPERM));
    CHECK(48, fails(inotify_add_watch(-1, "/usr", IN_ALL_EVENTS), EPERM));
    CHECK(49, fails(syscall(SYS_inotify_add_watch, -1, "/usr", high | IN_ACCESS), EPERM));
    CHECK(50, fails(inotify_add_watch(-1, "/usr", IN_MODIFY | IN_CREATE | IN_CLOSE_WRITE), EBADF));
    CHECK(51, fails(fcntl(0, F_NOTIFY, DN_ACCESS), EPERM));
    CHECK(25, setsockopt(-1, SOL_SOCKET, SO_LINGER, "", 8) == 0); /* done, and not done */
    CHECK(26, syscall(SYS_setsockopt, -1, high | SOL_SOCKET, high | SO_LINGER, "", 8) == 0);
    CHECK(27, syscall(SYS_fadvise64, -1, 0, 0, high | POSIX_FADV_DONTNEED) == 0); /* not made */
    CHECK(28, fails(syscall(SYS_fadvise64, -1, 0, 0, POSIX_FADV_WILLNEED), EBADF));
    CHECK(22, fails(syscall(SYS_mmap, NULL, 1 << 21, PROT_READ,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_HUGETLB, -1, 0),
                    EPERM));
    CHECK(23, fails(syscall(SYS_memfd_create, "huge", high | MFD_HUGETLB), EPERM));
    CHECK(24, fails(syscall(SYS_shmget, IPC_PRIVATE, 1 << 21, high | SHM_HUGETLB | 0600), EPERM));
#ifdef __x86_64__
    CHECK(18, fails(syscall(0x40000000 | SYS_getpid), ENOSYS));
#endif
    return 0;
}

static void
test_arguments_are_looked_at_in_all_bits(void **state)
{
    (void)state;
    with_filter((struct filter_options){.inet = true, .ipc = true}, try_arguments);
}

static int
try_ordinary(void)
{
    int pair[2], status, segment;
    pid_t pid = fork();

    if (pid == 0)
        _exit(3);
    CHECK(1, waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
    CHECK(2, socket(AF_INET, SOCK_STREAM, 0) >= 0 && socket(AF_INET6, SOCK_DGRAM, 17) >= 0);
    CHECK(3, socket(AF_NETLINK, SOCK_RAW, 0) >= 0); /* libzmq aborts without */
    CHECK(4, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    segment = shmget(IPC_PRIVATE, 4096, 0600);
    CHECK(5, segment >= 0 && shmctl(segment, IPC_RMID, NULL) == 0);
    CHECK(6, syscall(SYS_memfd_create, "small", MFD_CLOEXEC | MFD_ALLOW_SEALING) >= 0);
    return 0;
}

static void
test_ordinary_calls_go_on(void **state)
{
    (void)state;
    with_filter((struct filter_options){.inet = true, .ipc = true}, try_ordinary);
}

static int
try_own_network(void)
{
    static const unsigned long asking[] = {SIOCGIFNAME,   SIOCGIFCONF, SIOCGIFHWADDR, SIOCGIFINDEX,
                                           SIOCGIFTXQLEN, 0x8946,      SIOCDEVPRIVATE};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), n = -1;

    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
        CHECK(1, fails(ioctl(fd, asking[i], ""), ENODEV));
        CHECK(2, fails(syscall(SYS_ioctl, fd, 1UL << 32 | asking[i], ""), ENODEV));
    }
    CHECK(3, fails(ioctl(fd, 0x8b1b /* SIOCGIWESSID */, ""), ENODEV));
    CHECK(4, ioctl(fd, FIOGETOWN, &n) == 0 && n == 0); /* about the socket */
    CHECK(5, ioctl(fd, FIONREAD, &n) == 0 || errno == EINVAL);
    return 0;
}

static void
test_sockets_do_not_tell_of_the_hosts_network(void **state)
{
    (void)state;
    with_filter((struct filter_options){.inet = true, .ipc = true, .network = true},
                try_own_network);
}

static int
try_shared(void)
{
    CHECK(1, fails(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT));
    CHECK(2, fails(socket(AF_INET6, SOCK_DGRAM, 0), EAFNOSUPPORT));
    CHECK(3, socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CHECK(7, fails(socket(AF_NETLINK, SOCK_RAW, 0), EOPNOTSUPP));
    CHECK(4, fails(syscall(SYS_shmget, 0, 4096, 0600), EPERM));
    CHECK(5, fails(syscall(SYS_semget, 0, 1, 0600), EPERM));
    CHECK(6, fails(syscall(SYS_msgget, 0, 0600), EPERM));
    return 0;
}

static void
test_without_namespaces_more_is_refused(void **state)
{
    (void)state;
    with_filter((struct filter_options){.inet = false, .ipc = false}, try_shared);
}

static void
write_table(struct buf *out)
{
    const struct filter_row *row;

    (void)buf_puts(out, BEGIN "| call | answer | why |\n|---|---|---|\n");
    for (size_t i = 0; (row = filter_row(i)) != NULL; i++)
        (void)buf_printf(out, "| %s | `%s` | %s |\n", row->call, filter_error_name(row->error),
                         row->why);
    (void)buf_puts(out, END);
}

static void
test_the_page_has_the_table(void **state)
{
    _cleanup_buf_ struct buf want = BUF_INIT(DOC_MAX);

    (void)state;
    write_table(&want);
    doc_has("isolation.md", buf_str(&want), "test_filter");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_of_the_table_is_refused),
        cmocka_unit_test(test_arguments_are_looked_at_in_all_bits),
        cmocka_unit_test(test_ordinary_calls_go_on),
        cmocka_unit_test(test_sockets_do_not_tell_of_the_hosts_network),
        cmocka_unit_test(test_without_namespaces_more_is_refused),
        cmocka_unit_test(test_the_page_has_the_table),
    };

    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        _cleanup_buf_ struct buf table = BUF_INIT(DOC_MAX);

        write_table(&table);
        return fputs(buf_str(&table), stdout) < 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
