/* SPDX-License-Identifier: MIT */
#include "keeper/hoard.h"

#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "keeper/box.h"
#include "keeper/cgroup.h"
#include "keeper/netlink.h"
#include "keeper/sandboxes.h"

#define MEMINFO_MAX 4096
/* What the kernel keeps has grown by this much: time to look. */
#define STEP_KIB (INT64_C(64) << 10)
/* What may wait in one sandbox's sockets and is not counted. */
#define QUEUES_MAX (INT64_C(64) << 20)
/* Sockets in no table of the network: never connected, or not any more. Their queues cannot be
 * looked into; they count when there are this many and they could hold that much. */
#define HIDDEN_MAX 64
#define HIDDEN_BYTES_MAX (INT64_C(128) << 20)
/* Connections that nobody holds any more and that cannot end, as the other side does not read: when
 * the machine has net.ipv4.tcp_max_orphans of them (16384 with 4 GiB), every connection that is
 * closed on it is cut off, with what was not sent yet. */
#define ORPHANS_MAX 4096
/* How many locks may be one sandbox's, and how long the machine's are looked through: the kernel
 * walks to where it was at each page that is read, and meanwhile nobody gets a lock. */
#define LOCKS_MAX 1000
#define LOCKS_MS 2000
#define LINE_MAX_BYTES 512
#define ANCESTORS_MAX 64
#define ASK_MS 1000

struct suspect {
    char kernel[WIRE_KERNEL_MAX];
    pid_t monitor, init;
    int locks;
};

/* A number of /proc/meminfo, 0 where the kernel does not tell. */
static int64_t
entry(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, name, n) == 0 && p[n] == ':')
            return strtoll(p + n + 1, NULL, 10);
    }
    return 0;
}

/* What is in use and is no process's, no file's and nothing that can be given back. */
static int64_t
kept_kib(int fd)
{
    static const char *const others[] = {
        "MemFree",      "Buffers",    "Cached",      "SwapCached",    "AnonPages",
        "SReclaimable", "PageTables", "KernelStack", "SecPageTables", "Hugetlb"};
    char text[MEMINFO_MAX];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    int64_t kib;

    if (n <= 0)
        return 0;
    text[n] = '\0';
    kib = entry(text, "MemTotal");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        kib -= entry(text, others[i]);
    return kib;
}

void
hoard_open(struct hoard_watch *w)
{
    w->fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    w->low_kib = kept_kib(w->fd);
}

bool
hoard_suspected(struct hoard_watch *w)
{
    int64_t now = kept_kib(w->fd);
    bool grown = now - w->low_kib >= STEP_KIB;

    if (grown || now < w->low_kib)
        w->low_kib = now;
    return grown;
}

void
hoard_close(struct hoard_watch *w)
{
    cleanup_close(&w->fd);
}

static FILE *
open_table(pid_t init, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%d/net/%s", (int)init, name);
    return fopen(path, "re");
}

/* The fifth word of each line: bytes, or two hexadecimal numbers of which the second is it. */
static int64_t
sum_queues(pid_t init, const char *table)
{
    char line[LINE_MAX_BYTES], word[64];
    int64_t sum = 0;
    _cleanup_fclose_ FILE *f = open_table(init, table);

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*s %*s %*s %*s %63s", word) != 1)
            continue;
        const char *colon = strchr(word, ':');
        sum += colon ? strtoll(colon + 1, NULL, 16) : strtoll(word, NULL, 10);
    }
    return sum;
}

/* The sum of the numbers behind these words in a table of sums. */
static int64_t
sum_words(pid_t init, const char *table, const char *const *words)
{
    char line[LINE_MAX_BYTES];
    int64_t sum = 0;
    _cleanup_fclose_ FILE *f = open_table(init, table);

    while (f && fgets(line, sizeof line, f))
        for (size_t i = 0; words[i]; i++)
            if (strncmp(line, words[i], strlen(words[i])) == 0)
                sum += strtoll(line + strlen(words[i]), NULL, 10);
    return sum;
}

/* How many sockets of programs a table lists: of netlink, those of the kernel have number 0. */
static int64_t
count_listed(pid_t init, const char *table)
{
    char line[LINE_MAX_BYTES], third[32];
    int64_t n = -1; /* the head */
    _cleanup_fclose_ FILE *f = open_table(init, table);

    while (f && fgets(line, sizeof line, f))
        n += sscanf(line, "%*s %*s %31s", third) == 1 && strcmp(third, "0") != 0;
    return n < 0 ? 0 : n;
}

static bool
hides_sockets(pid_t init)
{
    static const char *const all[] = {"sockets: used ", NULL};
    static const char *const v4[] = {"TCP: inuse ", "UDP: inuse ", NULL};
    static const char *const v6[] = {"TCP6: inuse ", "UDP6: inuse ", NULL};
    int64_t max = 0, hidden = sum_words(init, "sockstat", all) - sum_words(init, "sockstat", v4) -
                              sum_words(init, "sockstat6", v6) - count_listed(init, "unix") -
                              count_listed(init, "netlink");
    _cleanup_fclose_ FILE *f = fopen("/proc/sys/net/core/rmem_max", "re");

    /* The kernel doubles what a program asks for. */
    return hidden >= HIDDEN_MAX && f && fscanf(f, "%" SCNd64, &max) == 1 &&
           hidden * 2 * max > HIDDEN_BYTES_MAX;
}

/* Into the network of init's first child: init itself cannot be looked into by an ordinary user. */
static int
enter_network(pid_t init)
{
    char path[64];
    int child = 0, rc = -1;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)init, (int)init);
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    if (!f || fscanf(f, "%d", &child) != 1)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/net", child);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        rc = setns(fd, CLONE_NEWNET);
    return rc;
}

struct connections {
    int64_t bytes; /* what their sockets have in memory to be received */
    int orphans;
};

static void
see_connection(const struct nlmsghdr *m, void *ctx)
{
    const struct inet_diag_msg *d = mnl_nlmsg_get_payload(m);
    const uint32_t ending =
        1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 | 1U << TCP_LAST_ACK | 1U << TCP_CLOSING;
    struct connections *all = ctx;
    const struct nlattr *a;

    if (m->nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return;
    all->orphans += d->idiag_inode == 0 && d->idiag_state < 32 && (ending >> d->idiag_state & 1);
    mnl_attr_for_each(a, m, sizeof *d)
    {
        if (mnl_attr_get_type(a) == INET_DIAG_SKMEMINFO &&
            mnl_attr_get_payload_len(a) >= sizeof(uint32_t))
            all->bytes += mnl_attr_get_u32(a); /* SK_MEMINFO_RMEM_ALLOC is the first */
    }
}

/* Of TCP in the network we are in now. Its table in /proc does not show what waits as errors. */
static struct connections
look_at_connections(void)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    struct netlink n = {0};
    struct connections all = {0};

    if (netlink_open(&n, NETLINK_SOCK_DIAG, NULL) < 0)
        return all;
    for (size_t i = 0; i < sizeof families; i++) {
        NETLINK_BUFFER(buf);
        void *extra;
        struct nlmsghdr *m = netlink_begin(&n, buf, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP,
                                           sizeof(struct inet_diag_req_v2), &extra);

        *(struct inet_diag_req_v2 *)extra =
            (struct inet_diag_req_v2){.sdiag_family = families[i],
                                      .sdiag_protocol = IPPROTO_TCP,
                                      .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
                                      .idiag_states = ~0U};
        (void)netlink_ask(&n, m, see_connection, &all);
    }
    netlink_close(&n);
    return all;
}

static bool
queues_are_full(const struct keeper_options *o, const struct suspect *s)
{
    struct connections tcp = {0};
    int64_t sum, max = QUEUES_MAX;

    /* Of a network that others share it cannot be told whose the sockets are. */
    if (s->init <= 0 || !box_own_network(o))
        return false;
    if (hides_sockets(s->init))
        return true;
    sum = sum_queues(s->init, "netlink") + sum_queues(s->init, "udp") + sum_queues(s->init, "udp6");
    if (enter_network(s->init) == 0)
        tcp = look_at_connections();
    if (tcp.orphans > ORPHANS_MAX)
        return true;
    sum += tcp.bytes;
    /* Where nothing is counted, as much as a group would allow for buffers (cgroup_v1.c). */
    if (!o->cgroups && o->limits.memory_bytes / 4 > max)
        max = o->limits.memory_bytes / 4;
    return sum - cgroup_socket_bytes(o, s->kernel) > max;
}

static pid_t
parent_of(pid_t pid)
{
    char path[64], line[LINE_MAX_BYTES];
    int parent = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "PPid: %d", &parent) == 1)
            break;
    return parent;
}

/* Whose process is it? Orphans of a sandbox are its init's, and that is its monitor's. */
static struct suspect *
owner_of(pid_t pid, struct suspect *all, int n)
{
    for (int depth = 0; pid > 1 && depth < ANCESTORS_MAX; depth++) {
        for (int i = 0; i < n; i++)
            if (all[i].monitor == pid)
                return &all[i];
        pid = parent_of(pid);
    }
    return NULL;
}

/* Until one has too many: it is ended, and then it is looked once more. */
static void
count_locks(struct suspect *all, int n)
{
    char line[LINE_MAX_BYTES];
    struct suspect *owner = NULL;
    pid_t last = 0;
    int pid;
    struct deadline d = deadline_in(LOCKS_MS);
    _cleanup_fclose_ FILE *f = fopen("/proc/locks", "re");

    while (f && !deadline_passed(d) && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*s %*s %*s %*s %d", &pid) != 1 || pid <= 1)
            continue;
        if (pid != last)
            owner = owner_of(pid, all, n);
        last = pid;
        if (owner && ++owner->locks > LOCKS_MAX)
            break;
    }
}

static int
ask(const struct keeper_options *o, const char *kernel, enum wire_op op, struct wire_reply *ret)
{
    struct err err = ERR_INIT;
    struct deadline d = deadline_in(ASK_MS);
    _cleanup_close_ int fd = sandbox_connect(o, kernel, d, NULL, &err);

    return fd < 0 || sandbox_ask(fd, op, 0, -1, ret, d, &err) < 0 || ret->error ? -1 : 0;
}

static int
list(const struct keeper_options *o, struct suspect *all, int max)
{
    char kernel[WIRE_KERNEL_MAX] = "";
    struct wire_reply r;
    int n = 0;

    while (n < max && sandboxes_next(o, kernel, kernel, NULL) == 1)
        if (ask(o, kernel, WIRE_HELLO, &r) == 0) {
            all[n] = (struct suspect){.monitor = (pid_t)r.pid, .init = (pid_t)r.value};
            memcpy(all[n++].kernel, kernel, sizeof kernel);
        }
    return n;
}

static void
end(const struct keeper_options *o, const struct suspect *s, const char *what)
{
    struct wire_reply r;

    log_warning("kernel %s is ended: %s beyond what the limit of memory counts", s->kernel, what);
    /* A monitor that an earlier keeper has left may not know the first question. */
    if (ask(o, s->kernel, WIRE_HOARD, &r) < 0)
        (void)ask(o, s->kernel, WIRE_END, &r);
}

/* Looks once; true: something was ended. */
static bool
end_some(const struct keeper_options *o, struct suspect *all, int max)
{
    bool ended = false;
    int n = list(o, all, max);

    count_locks(all, n);
    for (int i = 0; i < n; i++) {
        bool locks = all[i].locks > LOCKS_MAX;

        if (!locks && !queues_are_full(o, &all[i]))
            continue;
        end(o, &all[i],
            locks ? "its file locks take the machine's memory"
                  : "what waits in its sockets takes the machine's memory");
        ended = true;
    }
    return ended;
}

void
hoard_end(const struct keeper_options *o, int max_sandboxes)
{
    _cleanup_free_ struct suspect *all = xcalloc((size_t)max_sandboxes, sizeof *all);

    for (int round = 0; round < max_sandboxes && end_some(o, all, max_sandboxes); round++)
        (void)poll(NULL, 0, HOARD_LOOK_MS);
}
