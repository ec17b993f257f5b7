/* SPDX-License-Identifier: MIT */
#include "keeper/proc_mask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <stdbool.h>
#include <sys/stat.h>

enum treatment { HIDE, FREEZE };

static const struct {
    const char *name;
    enum treatment what;
} entries[] = {
    {"acpi", HIDE},          {"asound", HIDE},        {"bootconfig", HIDE}, {"buddyinfo", HIDE},
    {"bus", FREEZE},         {"cgroups", HIDE},       {"cmdline", HIDE},    {"consoles", HIDE},
    {"diskstats", HIDE},     {"dma", HIDE},           {"driver", FREEZE},   {"fs", HIDE},
    {"interrupts", HIDE},    {"iomem", HIDE},         {"ioports", HIDE},    {"irq", FREEZE},
    {"kallsyms", HIDE},      {"kcore", HIDE},         {"key-users", HIDE},  {"keys", HIDE},
    {"kmsg", HIDE},          {"kpagecgroup", HIDE},   {"kpagecount", HIDE}, {"kpageflags", HIDE},
    {"latency_stats", HIDE}, {"locks", HIDE},         {"modules", HIDE},    {"mtrr", FREEZE},
    {"pagetypeinfo", HIDE},  {"partitions", HIDE},    {"pressure", HIDE},   {"sched_debug", HIDE},
    {"schedstat", HIDE},     {"scsi", HIDE},          {"slabinfo", HIDE},   {"softirqs", HIDE},
    {"sys", FREEZE},         {"sysrq-trigger", HIDE}, {"timer_list", HIDE}, {"timer_stats", HIDE},
    {"tty", FREEZE},         {"vmallocinfo", HIDE},   {"zoneinfo", HIDE},
};

static int
hide(const char *path, bool folder)
{
    if (folder)
        return mount("husk", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                     "size=4k,nr_inodes=2,mode=555");
    return mount("dev/null", path, NULL, MS_BIND, NULL);
}

static int
freeze(const char *path)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};

    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0)
        return -1;
    return mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr);
}

int
proc_mask(const char *proc, struct err *err)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        char path[64];
        struct stat st;
        int r;

        (void)snprintf(path, sizeof path, "%s/%s", proc, entries[i].name);
        if (stat(path, &st) < 0)
            continue; /* this kernel has none */
        r = entries[i].what == HIDE ? hide(path, S_ISDIR(st.st_mode)) : freeze(path);
        if (r < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot mask /%s", path);
    }
    return 0;
}
