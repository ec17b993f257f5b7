/* SPDX-License-Identifier: MIT */
#include "keeper/hoard.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "keeper/box.h"
#include "keeper/sandboxes.h"

#define MEMINFO_MAX 4096
/* What the kernel keeps has grown by this much: time to look. */
#define STEP_KIB (INT64_C(64) << 10)
/* What may wait in one sandbox's sockets. What datagrams take is counted and bounded, but stands in
 * the same column as what is not. */
#define QUEUES_MAX (INT64_C(64) << 20)
/* The newest of the machine's locks, and how many of them may be one sandbox's. */
#define LOCKS_READ 16384
#define LOCKS_MAX 1000
#define LINE_MAX_BYTES 512
#define ANCESTORS_MAX 64
#define ASK_MS 1000

struct suspect {
    char kernel[WIRE_KERNEL_MAX];
    pid_t monitor, init;
    int locks;
};

static void
cleanup_file(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}

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

/* The fifth word of each line: bytes, or two hexadecimal numbers of which the second is it. */
static int64_t
sum_queues(pid_t init, const char *table)
{
    char path[64], line[LINE_MAX_BYTES], word[64];
    int64_t sum = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/net/%s", (int)init, table);
    _cleanup_(cleanup_file) FILE *f = fopen(path, "re");
    while (f && sum <= QUEUES_MAX && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*s %*s %*s %*s %63s", word) != 1)
            continue;
        const char *colon = strchr(word, ':');
        sum += colon ? strtoll(colon + 1, NULL, 16) : strtoll(word, NULL, 10);
    }
    return sum;
}

static bool
queues_are_full(const struct keeper_options *o, const struct suspect *s)
{
    /* Of a network that others share it cannot be told whose the sockets are. */
    return s->init > 0 && box_own_network(o) &&
           sum_queues(s->init, "netlink") + sum_queues(s->init, "udp") +
                   sum_queues(s->init, "udp6") >
               QUEUES_MAX;
}

static pid_t
parent_of(pid_t pid)
{
    char path[64], line[LINE_MAX_BYTES];
    int parent = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    _cleanup_(cleanup_file) FILE *f = fopen(path, "re");
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

static void
count_locks(struct suspect *all, int n)
{
    char line[LINE_MAX_BYTES];
    struct suspect *owner = NULL;
    pid_t last = 0;
    int pid;
    _cleanup_(cleanup_file) FILE *f = fopen("/proc/locks", "re");

    for (int i = 0; f && i < LOCKS_READ && fgets(line, sizeof line, f); i++) {
        if (sscanf(line, "%*s %*s %*s %*s %d", &pid) != 1 || pid <= 1)
            continue;
        if (pid != last)
            owner = owner_of(pid, all, n);
        last = pid;
        if (owner)
            owner->locks++;
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

void
hoard_end(const struct keeper_options *o, int max_sandboxes)
{
    _cleanup_free_ struct suspect *all = xcalloc((size_t)max_sandboxes, sizeof *all);
    int n = list(o, all, max_sandboxes);

    count_locks(all, n);
    for (int i = 0; i < n; i++) {
        if (all[i].locks > LOCKS_MAX)
            end(o, &all[i], "its file locks take the machine's memory");
        else if (queues_are_full(o, &all[i]))
            end(o, &all[i], "what waits in its sockets takes the machine's memory");
    }
}
