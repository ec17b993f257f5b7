/* SPDX-License-Identifier: MIT */
#include "keeper/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "keeper/notify.h"

/* Calls that are refused whatever their arguments. */
static const struct filter_row calls[] = {
    {"mount", EPERM, "mounts are the keeper's: the root and its read-only views must stay as made"},
    {"umount2", EPERM, "would uncover what a mask in /proc hides"},
    {"pivot_root", EPERM, "the root is changed once, before the session begins"},
    {"chroot", EPERM, "the classic way out of a root, and of no use without privileges"},
    {"move_mount", EPERM, "the newer mount interface"},
    {"open_tree", EPERM, "the newer mount interface"},
    {"fsopen", EPERM, "the newer mount interface; file-system parsers are attack surface"},
    {"fsconfig", EPERM, "the newer mount interface; had an overflow reachable unprivileged"},
    {"fsmount", EPERM, "the newer mount interface"},
    {"fspick", EPERM, "the newer mount interface"},
    {"mount_setattr", EPERM, "would take read-only off a mount"},
    {"unshare", EPERM, "a new user namespace gives capabilities over much kernel code"},
    {"setns", EPERM, "enters another namespace"},
    {"ptrace", EPERM, "looks into and steers other processes; supervised calls rely on it"},
    {"process_vm_readv", EPERM, "reads another process's memory"},
    {"process_vm_writev", EPERM, "writes another process's memory"},
    {"process_madvise", EPERM, "steers another process's memory"},
    {"pidfd_getfd", EPERM, "takes descriptors out of another process"},
    {"kcmp", EPERM, "compares kernel addresses of other processes' objects"},
    {"keyctl", EPERM, "key rings are not separated by namespaces"},
    {"add_key", EPERM, "key rings are not separated by namespaces"},
    {"request_key", EPERM, "key rings are not separated by namespaces; starts a helper as root"},
    {"bpf", EPERM, "loads code into the kernel"},
    {"perf_event_open", EPERM, "large attack surface; watches other processes"},
    {"userfaultfd", EPERM, "stops the kernel at a moment the attacker chooses"},
    {"io_uring_setup", EPERM, "makes calls this filter does not see"},
    {"io_uring_enter", EPERM, "makes calls this filter does not see"},
    {"io_uring_register", EPERM, "makes calls this filter does not see"},
    {"io_setup", ENOSYS,
     "the machine has some thousand slots (fs.aio-max-nr) for all its processes"},
    {"seccomp", EPERM, "a later filter's listener would answer before ours (egress)"},
    {"kexec_load", EPERM, "replaces the kernel"},
    {"kexec_file_load", EPERM, "replaces the kernel"},
    {"init_module", EPERM, "loads kernel code"},
    {"finit_module", EPERM, "loads kernel code"},
    {"delete_module", EPERM, "unloads kernel code"},
    {"create_module", EPERM, "obsolete; loads kernel code"},
    {"reboot", EPERM, "the machine's; in a pid namespace it would kill init"},
    {"swapon", EPERM, "the machine's memory"},
    {"swapoff", EPERM, "the machine's memory"},
    {"acct", EPERM, "writes a file for every process of the machine"},
    {"quotactl", EPERM, "the machine's quotas"},
    {"quotactl_fd", EPERM, "the machine's quotas"},
    {"settimeofday", EPERM, "the machine's clock is not in a namespace"},
    {"clock_settime", EPERM, "the machine's clock is not in a namespace"},
    {"clock_adjtime", EPERM, "the machine's clock is not in a namespace"},
    {"adjtimex", EPERM, "the machine's clock is not in a namespace"},
    {"stime", EPERM, "the machine's clock is not in a namespace"},
    {"sethostname", EPERM, "the name is the keeper's to give (the machine's in tier container)"},
    {"setdomainname", EPERM, "the same"},
    {"iopl", EPERM, "reaches hardware"},
    {"ioperm", EPERM, "reaches hardware"},
    {"modify_ldt", EPERM, "16-bit segments have broken the kernel's entry code more than once"},
    {"vm86", EPERM, "the same"},
    {"vm86old", EPERM, "the same"},
    {"syslog", EPERM, "the kernel's log shows addresses and other sessions' faults"},
    {"lookup_dcookie", EPERM, "obsolete profiling interface"},
    {"nfsservctl", EPERM, "obsolete"},
    {"uselib", EPERM, "obsolete loader interface"},
    {"ustat", EPERM, "obsolete; asks about any file system"},
    {"sysfs", EPERM, "obsolete"},
    {"_sysctl", EPERM, "obsolete; the machine's settings"},
    {"open_by_handle_at", EPERM, "opens a file by number, past every directory's permission"},
    {"name_to_handle_at", EPERM, "gives the numbers open_by_handle_at takes"},
    {"fanotify_init", EPERM, "watches whole file systems"},
    {"vmsplice", EPERM, "shares user pages with pipes: the root of several escalations"},
    {"vhangup", EPERM, "hangs up a terminal"},
    {"mbind", EPERM, "memory placement on a machine shared by all"},
    {"set_mempolicy", EPERM, "memory placement on a machine shared by all"},
    {"set_mempolicy_home_node", EPERM, "memory placement on a machine shared by all"},
    {"migrate_pages", EPERM, "moves another process's memory"},
    {"move_pages", EPERM, "tells where another process's memory is"},
    {"clone3", ENOSYS, "its flags lie in memory, where a filter cannot see them; libc uses clone"},
};

/* Calls that are refused for some arguments: their rules are in code below. */
static const struct filter_row conditions[] = {
    {"clone with a new namespace", EPERM,
     "a new user namespace gives capabilities over much kernel code"},
    {"personality other than a query", EPERM, "switches address randomisation off"},
    {"setrlimit, prlimit64 of RLIMIT_CORE", 0,
     "and not set: it stands at 1, the one value at which a crash does not start the host's "
     "handler as root; gpg and others do not go on where they cannot switch core files off"},
    {"prctl of PR_SCHED_CORE", EPERM,
     "a session could keep half of a processor's threads from all others"},
    {"prctl of PR_SET_SECCOMP", EINVAL,
     "as without such filters: each is kept twice and compiled, which no limit of memory counts, "
     "and the machine has one bound (net.core.bpf_jit_limit) for all"},
    {"socket of other families than UNIX, INET, INET6, NETLINK", EAFNOSUPPORT,
     "rarely used protocols are where kernels break; AF_VSOCK reaches the hypervisor from any "
     "namespace"},
    {"socket NETLINK of other protocols than ROUTE", EPERM,
     "nftables, audit and the like; ROUTE is what getifaddrs and libzmq ask"},
    {"socket INET, INET6 other than STREAM, DGRAM", EPERM, "raw packets, DCCP, SCTP"},
    {"socket INET, INET6 with another protocol than TCP, UDP, ICMP", EPROTONOSUPPORT,
     "more protocols reached through ordinary types (SCTP, MPTCP, UDP-Lite, L2TP, SMC), whose code "
     "the kernel loads for whoever asks"},
    {"socket INET, INET6 in tier container with egress none", EAFNOSUPPORT,
     "there is no network namespace: without such sockets there is no network"},
    {"socket NETLINK in tier container with egress none", EOPNOTSUPP,
     "there is no network to ask about; libzmq goes on with this answer"},
    {"socketpair of other families than UNIX", EAFNOSUPPORT, "as for socket"},
    {"shmget, semget, msgget in tier container", EPERM,
     "System V objects are everybody's there, and stay behind"},
    {"ioctl TIOCSTI", EPERM, "types into a terminal"},
    {"ioctl TIOCLINUX", EPERM, "types into a console"},
    {"ioctl TIOCSETD", EPERM, "loads line disciplines, a source of escalations"},
    {"setsockopt of SO_LINGER", 0,
     "and not set: a descriptor is closed by whoever it is sent to last, and the gateway would "
     "wait as long as it says"},
    {"setsockopt of SO_ATTACH_FILTER, SO_ATTACH_BPF and those of REUSEPORT", EPERM,
     "code for the kernel, which keeps copies that no limit of memory counts"},
    {"setsockopt of memberships of groups, of IPv6 flow labels, of TCP's MD5 and AO keys", EPERM,
     "thousands a socket, which no limit of memory counts; a membership is told to the routers "
     "around, a flow label brings a route along"},
    {"setsockopt of SO_BINDTODEVICE, SO_BINDTOIFINDEX", EPERM,
     "a packet would leave by another interface than the address that was looked at; and it tells "
     "which interfaces there are"},
    {"ioctl about interfaces, where the network is the session's own", ENODEV,
     "a socket asks the network in which it was made: those on which the kernel is spoken to are "
     "the host's, and would name its interfaces, addresses and neighbours' links; netlink answers"},
    {"fcntl of F_OFD_SETLK, F_OFD_SETLKW", EINVAL,
     "as before Linux 3.15: no limit of memory counts locks, and of these it cannot be told whose "
     "they are; libraries use the other kinds"},
    {"inotify_add_watch of IN_OPEN, IN_ACCESS, IN_CLOSE_NOWRITE; fcntl of F_NOTIFY", EPERM,
     "the files of /usr are everybody's: it tells what others open, and each such watch makes them "
     "wait; events of changes can be had"},
    {"fadvise64 of DONTNEED", 0,
     "advice, and not taken: others would have to read the files all share from the disk again"},
    {"mmap, memfd_create, shmget of huge pages", EPERM,
     "the machine's reserve of them is another service's, and no limit of memory counts it"},
    {"bind and listen on INET, INET6 with supervised egress", EPERM,
     "there is no network namespace: a port would be the host's"},
    {"socket INET, INET6 with another protocol than TCP, UDP with supervised egress",
     EPROTONOSUPPORT, "other protocols name addresses in calls that are not supervised"},
    {"setsockopt of source routes, interfaces and IPv6 headers with supervised egress", EPERM,
     "a packet would go elsewhere than the address that was looked at"},
    {"calls newer than this filter (number 453 and up)", ENOSYS,
     "a newer kernel must not open what nobody has looked at; libc falls back"},
    {"calls of another architecture (32 bit, x32)", ENOSYS,
     "their numbers mean other calls; a signal instead would kill the kernel"},
};

#define FIRST_UNKNOWN_CALL 453
#define LAST_UNKNOWN_CALL 511
/* AF_MAX has grown slowly; what is above is refused as a whole. */
#define FAMILIES 64
#define SOCKET_TYPE_MASK 0xf
#define LOW 0xffffffffU   /* the kernel looks at the low half of an int argument only */
#define FLOWLABEL_MGR 32  /* of linux/in6.h, which goes with no other header of addresses */
#define TCP_AO_ADD_KEY 38 /* newer than our headers */
/* The requests of linux/sockios.h from SIOCADDRT on, sixteen at a time, and those of wireless
 * interfaces; what is below them asks about the socket. */
#define INTERFACES_FIRST 0x8900U
#define INTERFACES_LAST 0x89f0U
#define WIRELESS 0x8b00U
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE 62
#endif

const struct filter_row *
filter_row(size_t i)
{
    const size_t n = sizeof calls / sizeof *calls;

    if (i < n)
        return &calls[i];
    return i - n < sizeof conditions / sizeof *conditions ? &conditions[i - n] : NULL;
}

const char *
filter_error_name(int error)
{
    switch (error) {
    case 0:
        return "done";
    case EPERM:
        return "EPERM";
    case EINVAL:
        return "EINVAL";
    case ENODEV:
        return "ENODEV";
    case EOPNOTSUPP:
        return "EOPNOTSUPP";
    case ENOSYS:
        return "ENOSYS";
    case EAFNOSUPPORT:
        return "EAFNOSUPPORT";
    case EPROTONOSUPPORT:
        return "EPROTONOSUPPORT";
    }
    return "?";
}

static void
cleanup_filter(scmp_filter_ctx *c)
{
    seccomp_release(*c);
}

/* One rule; several comparisons must all hold. Calls this machine does not have are left out. */
static int
deny(scmp_filter_ctx c, int error, int call, unsigned n, const struct scmp_arg_cmp *args)
{
    int r = seccomp_rule_add_array(c, SCMP_ACT_ERRNO((uint32_t)error), call, n, args);

    return r == -EDOM || r == -EACCES ? 0 : r;
}

#define DENY_IF(c, error, call, ...)                                                               \
    deny((c), (error), SCMP_SYS(call),                                                             \
         sizeof(struct scmp_arg_cmp[]){__VA_ARGS__} / sizeof(struct scmp_arg_cmp),                 \
         (const struct scmp_arg_cmp[]){__VA_ARGS__})

static int
add_calls(scmp_filter_ctx c)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int call = seccomp_syscall_resolve_name(calls[i].call);
        int r = call == __NR_SCMP_ERROR ? 0 : deny(c, calls[i].error, call, 0, NULL);

        if (r < 0)
            return r;
    }
    for (int call = FIRST_UNKNOWN_CALL; call <= LAST_UNKNOWN_CALL; call++) {
        int r = deny(c, ENOSYS, call, 0, NULL);

        if (r < 0)
            return r;
    }
    return 0;
}

static int
add_namespaces(scmp_filter_ctx c)
{
    static const uint64_t flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        int r = DENY_IF(c, EPERM, clone, SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));

        if (r < 0)
            return r;
    }
    return DENY_IF(c, EPERM, personality, SCMP_A0(SCMP_CMP_NE, LOW));
}

/* What of a family the allow-list leaves: the families' arguments are compared in all 64 bits, so
 * that a number with its high half set is refused as too large. */
static int
add_families(scmp_filter_ctx c, bool inet)
{
    int r = DENY_IF(c, EAFNOSUPPORT, socket, SCMP_A0(SCMP_CMP_GE, FAMILIES));

    if (r == 0)
        r = DENY_IF(c, EAFNOSUPPORT, socketpair, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    for (uint64_t family = 0; r == 0 && family < FAMILIES; family++) {
        bool internet = family == AF_INET || family == AF_INET6;

        if (family == AF_UNIX || ((internet || family == AF_NETLINK) && inet))
            continue;
        r = DENY_IF(c, family == AF_NETLINK ? EOPNOTSUPP : EAFNOSUPPORT, socket,
                    SCMP_A0(SCMP_CMP_EQ, family));
    }
    if (r == 0 && inet)
        r = DENY_IF(c, EPERM, socket, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                    SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
    return r;
}

static int
add_internet(scmp_filter_ctx c)
{
    static const uint64_t families[] = {AF_INET, AF_INET6};
    static const uint64_t icmp[] = {IPPROTO_ICMP, IPPROTO_ICMPV6};
    int r = 0;

    for (size_t f = 0; f < 2; f++) {
        for (uint64_t type = 0; r == 0 && type <= SOCKET_TYPE_MASK; type++)
            if (type != SOCK_STREAM && type != SOCK_DGRAM)
                r = DENY_IF(c, EPERM, socket, SCMP_A0(SCMP_CMP_EQ, families[f]),
                            SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE_MASK, type));
        for (uint64_t p = 1; r == 0 && p <= IPPROTO_ICMPV6; p++)
            if (p != IPPROTO_TCP && p != IPPROTO_UDP && p != icmp[f])
                r = DENY_IF(c, EPROTONOSUPPORT, socket, SCMP_A0(SCMP_CMP_EQ, families[f]),
                            SCMP_A2(SCMP_CMP_MASKED_EQ, LOW, p));
        if (r == 0)
            r = DENY_IF(c, EPROTONOSUPPORT, socket, SCMP_A0(SCMP_CMP_EQ, families[f]),
                        SCMP_A2(SCMP_CMP_GT, IPPROTO_ICMPV6));
    }
    return r;
}

/* Setting it only: with a third argument of NULL prlimit64 asks. */
static int
add_core_limit(scmp_filter_ctx c)
{
    int r = DENY_IF(c, 0, setrlimit, SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, RLIMIT_CORE));

    if (r < 0)
        return r;
    return DENY_IF(c, 0, prlimit64, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, RLIMIT_CORE),
                   SCMP_A2(SCMP_CMP_NE, 0));
}

static int
add_prctls(scmp_filter_ctx c)
{
    int r = DENY_IF(c, EPERM, prctl, SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, PR_SCHED_CORE));

    if (r < 0)
        return r;
    return DENY_IF(c, EINVAL, prctl, SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, PR_SET_SECCOMP));
}

static int
add_ioctls(scmp_filter_ctx c)
{
    static const uint64_t requests[] = {TIOCSTI, TIOCLINUX, TIOCSETD};

    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int r = DENY_IF(c, EPERM, ioctl, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, requests[i]));

        if (r < 0)
            return r;
    }
    return 0;
}

static int
add_interfaces(scmp_filter_ctx c)
{
    int r = DENY_IF(c, ENODEV, ioctl, SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffff00U, WIRELESS));

    for (uint64_t row = INTERFACES_FIRST + 16; r == 0 && row <= INTERFACES_LAST; row += 16)
        r = DENY_IF(c, ENODEV, ioctl, SCMP_A1(SCMP_CMP_MASKED_EQ, 0xfffffff0U, row));
    return r;
}

/* The gateway reads from the session's connections, and with what it reads come descriptors, which
 * the kernel closes for it. Programs that set it are many and none can tell that it is not. */
static int
add_linger(scmp_filter_ctx c)
{
    return DENY_IF(c, 0, setsockopt, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, SOL_SOCKET),
                   SCMP_A2(SCMP_CMP_MASKED_EQ, LOW, SO_LINGER));
}

/* What makes the kernel keep memory that control groups do not count (the rest of it is watched,
 * keeper/hoard.h), and what chooses an interface. */
static int
add_options(scmp_filter_ctx c)
{
    static const struct {
        int level, option;
    } options[] = {
        {SOL_SOCKET, SO_ATTACH_FILTER},         {SOL_SOCKET, SO_ATTACH_BPF},
        {SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF}, {SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF},
        {IPPROTO_IP, IP_ADD_MEMBERSHIP},        {IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP},
        {IPPROTO_IP, MCAST_JOIN_GROUP},         {IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP},
        {IPPROTO_IPV6, IPV6_JOIN_GROUP},        {IPPROTO_IPV6, IPV6_JOIN_ANYCAST},
        {IPPROTO_IPV6, MCAST_JOIN_GROUP},       {IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP},
        {IPPROTO_IPV6, FLOWLABEL_MGR},          {IPPROTO_TCP, TCP_MD5SIG},
        {IPPROTO_TCP, TCP_MD5SIG_EXT},          {IPPROTO_TCP, TCP_AO_ADD_KEY},
        {SOL_SOCKET, SO_BINDTODEVICE},          {SOL_SOCKET, SO_BINDTOIFINDEX},
    };
    static const uint64_t commands[] = {F_OFD_SETLK, F_OFD_SETLKW};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof options / sizeof *options; i++)
        r = DENY_IF(c, EPERM, setsockopt,
                    SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, (uint64_t)options[i].level),
                    SCMP_A2(SCMP_CMP_MASKED_EQ, LOW, (uint64_t)options[i].option));
    for (size_t i = 0; r == 0 && i < sizeof commands / sizeof *commands; i++)
        r = DENY_IF(c, EINVAL, fcntl, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, commands[i]));
    return r;
}

/* Of files that all share and nobody changes, what reading them does to others. */
static int
add_shared_files(scmp_filter_ctx c)
{
    static const uint64_t events[] = {IN_OPEN, IN_ACCESS, IN_CLOSE_NOWRITE};
    int r = DENY_IF(c, EPERM, fcntl, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, F_NOTIFY));

    for (size_t i = 0; r == 0 && i < sizeof events / sizeof *events; i++)
        r = DENY_IF(c, EPERM, inotify_add_watch, SCMP_A2(SCMP_CMP_MASKED_EQ, events[i], events[i]));
    if (r < 0)
        return r;
    return DENY_IF(c, 0, fadvise64, SCMP_A3(SCMP_CMP_MASKED_EQ, LOW, POSIX_FADV_DONTNEED));
}

static int
add_huge_pages(scmp_filter_ctx c)
{
    int r = DENY_IF(c, EPERM, mmap, SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_HUGETLB, MAP_HUGETLB));

    if (r == 0)
        r = DENY_IF(c, EPERM, memfd_create, SCMP_A1(SCMP_CMP_MASKED_EQ, MFD_HUGETLB, MFD_HUGETLB));
    if (r == 0)
        r = DENY_IF(c, EPERM, shmget, SCMP_A2(SCMP_CMP_MASKED_EQ, SHM_HUGETLB, SHM_HUGETLB));
    return r;
}

static int
add_ipc(scmp_filter_ctx c)
{
    static const int makers[] = {SCMP_SYS(shmget), SCMP_SYS(semget), SCMP_SYS(msgget)};
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof makers / sizeof *makers; i++)
        r = deny(c, EPERM, makers[i], 0, NULL);
    return r;
}

static int
build(scmp_filter_ctx c, const struct filter_options *o)
{
    int r = seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));

    if (r == 0)
        r = seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (r == 0)
        r = add_calls(c);
    if (r == 0)
        r = add_namespaces(c);
    if (r == 0)
        r = add_families(c, o->inet);
    if (r == 0 && o->inet)
        r = add_internet(c);
    if (r == 0)
        r = add_core_limit(c);
    if (r == 0)
        r = add_prctls(c);
    if (r == 0)
        r = add_ioctls(c);
    if (r == 0 && o->network)
        r = add_interfaces(c);
    if (r == 0)
        r = add_linger(c);
    if (r == 0)
        r = add_options(c);
    if (r == 0)
        r = add_shared_files(c);
    if (r == 0)
        r = add_huge_pages(c);
    if (r == 0 && !o->ipc)
        r = add_ipc(c);
    if (r == 0 && o->notify)
        r = notify_rules(c);
    return r;
}

int
filter_load(const struct filter_options *o, int *ret_notify, struct err *err)
{
    _cleanup_(cleanup_filter) scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    int r;

    if (!c)
        return err_set(err, ERR_NOMEM, "no memory for the system call filter");
    r = build(c, o);
    if (r < 0)
        return err_sys(err, ERR_INTERNAL, -r, "cannot build the system call filter");
    r = seccomp_load(c);
    if (r < 0)
        return err_sys(err, ERR_UNAVAILABLE, -r, "cannot load the system call filter");
    *ret_notify = o->notify ? seccomp_notify_fd(c) : -1;
    return 0;
}
