/* SPDX-License-Identifier: MIT */
#include "keeper/cgroup_v1.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define PERIOD_US 100000
/* Buffers of network sockets are counted apart from other memory, and only where this is set. */
#define NETWORK_FILE "memory.kmem.tcp.limit_in_bytes"
#define NETWORK_PART 4
#define PERIOD_US_PER_MILLI_CPU (PERIOD_US / 1000)

/* The folder of a group in one hierarchy; false where that one is missing. */
static bool
folder(const struct keeper_options *o, int controller, const char *name, char ret[CGROUP_PATH_MAX])
{
    (void)snprintf(ret, CGROUP_PATH_MAX, "%s/%s", o->cgroup_dir[controller], name);
    return o->cgroup_dir[controller][0] != '\0';
}

static int
set(const char *dir, const char *file, int64_t value, struct err *err)
{
    if (cgroup_file_write_number(dir, file, value) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot set %s of a control group", file);
    return 0;
}

static int
limit(const char *dir, int controller, const struct keeper_limits *l, struct err *err)
{
    switch (controller) {
    case CGROUP_MEMORY:
        if (l->memory_bytes <= 0)
            return 0;
        if (set(dir, "memory.limit_in_bytes", l->memory_bytes, err) < 0)
            return -1;
        if (cgroup_file_exists(dir, NETWORK_FILE) &&
            set(dir, NETWORK_FILE, l->memory_bytes / NETWORK_PART, err) < 0)
            return -1;
        /* Memory and swap together, where swap is counted; else none of it is to be swapped. */
        if (cgroup_file_exists(dir, "memory.memsw.limit_in_bytes"))
            return set(dir, "memory.memsw.limit_in_bytes", l->memory_bytes, err);
        (void)cgroup_file_write(dir, "memory.swappiness", "0");
        return 0;
    case CGROUP_PIDS:
        return l->pids > 0 ? set(dir, "pids.max", l->pids, err) : 0;
    default:
        if (l->cpu_milli <= 0)
            return 0;
        if (set(dir, "cpu.cfs_period_us", PERIOD_US, err) < 0)
            return -1;
        return set(dir, "cpu.cfs_quota_us", l->cpu_milli * PERIOD_US_PER_MILLI_CPU, err);
    }
}

int
cgroup_v1_make(const struct keeper_options *o, const char *name, struct err *err)
{
    char dir[CGROUP_PATH_MAX];

    for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
        if (!folder(o, c, name, dir))
            continue;
        if (mkdir(dir, 0755) < 0)
            return err_sys(err, errno == EEXIST ? ERR_CONFLICT : ERR_UNAVAILABLE, errno,
                           "cannot make the control group %s", dir);
        if (limit(dir, c, &o->limits, err) < 0)
            return -1;
    }
    return 0;
}

int
cgroup_v1_enter(const struct keeper_options *o, const char *name, pid_t pid, struct err *err)
{
    char dir[CGROUP_PATH_MAX];

    for (int c = 0; c < CGROUP_CONTROLLERS; c++)
        if (folder(o, c, name, dir) && set(dir, "cgroup.procs", pid, err) < 0)
            return -1;
    return 0;
}

void
cgroup_v1_counters(const struct keeper_options *o, const char *name, struct wire_counters *ret)
{
    char dir[CGROUP_PATH_MAX];

    if (folder(o, CGROUP_MEMORY, name, dir)) {
        ret->oom_kills = cgroup_file_number(dir, "memory.oom_control", "oom_kill");
        ret->memory_bytes = cgroup_file_number(dir, "memory.usage_in_bytes", NULL);
        ret->memory_peak_bytes = cgroup_file_number(dir, "memory.max_usage_in_bytes", NULL);
    }
    if (folder(o, CGROUP_PIDS, name, dir))
        ret->fork_refusals = cgroup_file_number(dir, "pids.events", "max");
}

void
cgroup_v1_remove(const struct keeper_options *o, const char *name)
{
    char dir[CGROUP_PATH_MAX];

    for (int c = 0; c < CGROUP_CONTROLLERS; c++)
        if (folder(o, c, name, dir))
            cgroup_file_remove(dir);
}
