/* SPDX-License-Identifier: MIT */
#include "keeper/cgroup_v2.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define PERIOD_US 100000
#define PERIOD_US_PER_MILLI_CPU (PERIOD_US / 1000)
#define EMPTY_TIMEOUT_MS 3000
#define EMPTY_POLL_MS 50
#define CONTROLLERS_MAX 256
#define PIDS_MAX 1024
#define MOVE_ROUNDS 32
/* Where the keeper itself, and whoever holds a delegated group open, goes. */
#define LEAF "keeper"

static bool
has_controller(const char *dir, const char *file, const char *name)
{
    char text[CONTROLLERS_MAX];
    size_t n = strlen(name);

    if (cgroup_file_read(dir, file, text, sizeof text) < 0)
        return false;
    for (const char *p = text; (p = strstr(p, name)) != NULL; p += n)
        if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || p[n] == '\0'))
            return true;
    return false;
}

void
cgroup_v2_home(const char *own, const char *name, char ret[CGROUP_PATH_MAX])
{
    const char *slash = strrchr(own, '/');
    char above[CGROUP_PATH_MAX];

    (void)snprintf(ret, CGROUP_PATH_MAX, "%s", own);
    if (!slash || strcmp(slash + 1, LEAF) != 0)
        return;
    (void)snprintf(above, sizeof above, "%.*s", (int)(slash - own), own);
    if (cgroup_file_exists(above, name)) /* else a service that is called so */
        (void)snprintf(ret, CGROUP_PATH_MAX, "%s", above);
}

int
cgroup_v2_hand_down(const char *dir, struct err *err)
{
    static const struct {
        const char *name, *enable;
        bool needed;
    } wanted[] = {{"memory", "+memory", true}, {"pids", "+pids", true}, {"cpu", "+cpu", false}};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (has_controller(dir, "cgroup.subtree_control", wanted[i].name))
            continue;
        if (!has_controller(dir, "cgroup.controllers", wanted[i].name)) {
            if (!wanted[i].needed)
                continue;
            return err_set(err, ERR_UNAVAILABLE,
                           "the control group %s has no %s controller (Delegate=yes in the unit)",
                           dir, wanted[i].name);
        }
        if (cgroup_file_write(dir, "cgroup.subtree_control", wanted[i].enable) < 0 &&
            wanted[i].needed)
            return err_sys(err, ERR_UNAVAILABLE, errno,
                           "cannot hand %s down in the control group %s, where other processes "
                           "may be (run the keeper as a service of its own)",
                           wanted[i].name, dir);
    }
    return 0;
}

/* Ourselves, or everybody: what starts while we read the list is in the next. */
static int
move_to_leaf(const char *own, bool everybody, struct err *err)
{
    char leaf[CGROUP_PATH_MAX + sizeof "/" LEAF], pids[PIDS_MAX];

    (void)snprintf(leaf, sizeof leaf, "%s/" LEAF, own);
    if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the control group %s", leaf);
    if (!everybody && cgroup_file_write(leaf, "cgroup.procs", "0") < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot move to the control group %s", leaf);
    for (int round = 0; everybody && round < MOVE_ROUNDS; round++) {
        if (cgroup_file_read(own, "cgroup.procs", pids, sizeof pids) < 0 || pids[0] == '\0')
            break;
        for (char *line = pids, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            (void)cgroup_file_write(leaf, "cgroup.procs", line);
        }
    }
    return 0;
}

int
cgroup_v2_open(const char *own, bool everybody, struct err *err)
{
    if (!has_controller(own, "cgroup.controllers", "memory"))
        return err_set(err, ERR_UNAVAILABLE,
                       "the control group %s has no memory controller (Delegate=yes in the unit)",
                       own);
    /* The hierarchy's real root may have both processes and controllers, and has no cgroup.type. */
    if (cgroup_file_exists(own, "cgroup.type") && move_to_leaf(own, everybody, err) < 0)
        return -1;
    return cgroup_v2_hand_down(own, err);
}

static int
set(const char *dir, const char *file, const char *value, bool needed, struct err *err)
{
    if (cgroup_file_write(dir, file, value) < 0 && needed)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot set %s of a control group", file);
    return 0;
}

int
cgroup_v2_limit(const char *dir, const struct keeper_limits *l, struct err *err)
{
    char text[64];

    if (l->memory_bytes > 0) {
        (void)snprintf(text, sizeof text, "%lld", (long long)l->memory_bytes);
        /* memory.oom.group stays 0: the kernel picks the largest process, which may be a child a
         * cell started, and the session lives on. Swap may not be counted at all. */
        if (set(dir, "memory.max", text, true, err) < 0 ||
            set(dir, "memory.swap.max", "0", false, err) < 0)
            return -1;
    }
    (void)snprintf(text, sizeof text, "%lld", (long long)l->pids);
    if (l->pids > 0 && set(dir, "pids.max", text, true, err) < 0)
        return -1;
    (void)snprintf(text, sizeof text, "%lld %d", (long long)l->cpu_milli * PERIOD_US_PER_MILLI_CPU,
                   PERIOD_US);
    return l->cpu_milli > 0 ? set(dir, "cpu.max", text, cgroup_file_exists(dir, "cpu.max"), err)
                            : 0;
}

static void
folder(const struct keeper_options *o, const char *name, char ret[CGROUP_PATH_MAX])
{
    (void)snprintf(ret, CGROUP_PATH_MAX, "%s/%s", o->cgroup_dir[0], name);
}

int
cgroup_v2_make(const struct keeper_options *o, const char *name, struct err *err)
{
    char dir[CGROUP_PATH_MAX];
    int fd;

    folder(o, name, dir);
    if (mkdir(dir, 0755) < 0)
        return err_sys(err, errno == EEXIST ? ERR_CONFLICT : ERR_UNAVAILABLE, errno,
                       "cannot make the control group %s", dir);
    if (cgroup_v2_limit(dir, &o->limits, err) < 0)
        return -1;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot open the control group %s", dir);
    return fd;
}

void
cgroup_v2_counters(const struct keeper_options *o, const char *name, struct wire_counters *ret)
{
    char dir[CGROUP_PATH_MAX];

    folder(o, name, dir);
    ret->oom_kills = cgroup_file_number(dir, "memory.events", "oom_kill");
    ret->fork_refusals = cgroup_file_number(dir, "pids.events", "max");
    ret->memory_bytes = cgroup_file_number(dir, "memory.current", NULL);
    ret->memory_peak_bytes = cgroup_file_number(dir, "memory.peak", NULL); /* 5.19 and up */
}

/* Until nobody is left in it or below, told by the kernel. */
static void
wait_empty(const char *dir)
{
    struct deadline d = deadline_in(EMPTY_TIMEOUT_MS);
    char path[CGROUP_PATH_MAX + sizeof "/cgroup.events"];
    struct pollfd p = {.events = POLLPRI};
    _cleanup_close_ int fd = -1;

    (void)snprintf(path, sizeof path, "%s/cgroup.events", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    p.fd = fd;
    while (fd >= 0 && !deadline_passed(d)) {
        char text[64];
        ssize_t n = pread(fd, text, sizeof text - 1, 0);

        if (n < 0)
            return;
        text[n] = '\0';
        if (strstr(text, "populated 0"))
            return;
        (void)poll(&p, 1, EMPTY_POLL_MS);
    }
}

void
cgroup_v2_remove(const struct keeper_options *o, const char *name)
{
    char dir[CGROUP_PATH_MAX];

    folder(o, name, dir);
    if (cgroup_file_write(dir, "cgroup.kill", "1") == 0) /* 5.14 and up */
        wait_empty(dir);
    cgroup_file_remove(dir);
}
