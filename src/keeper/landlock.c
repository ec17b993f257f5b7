/* SPDX-License-Identifier: MIT */
#include "keeper/confine.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/root.h"

/*
 * The kernel's headers of Debian 12 know version 2; these come from later ones (include/uapi/linux/
 * landlock.h): 3 truncate, 4 TCP ports, 5 ioctl of devices, 6 scopes.
 */
#define FS_V1 ((1ULL << 13) - 1)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL_DEV (1ULL << 15)
#define NET_BIND_TCP (1ULL << 0)
#define NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

#define READ                                                                                       \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define DEVICE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_IOCTL_DEV)
#define TERMINALS (DEVICE | LANDLOCK_ACCESS_FS_READ_DIR)
/* Named semaphores and shared memory: files, no folders. */
#define SHARED_MEMORY                                                                              \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR |  \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE | FS_TRUNCATE)
#define ALL UINT64_MAX
/* What a rule on something that is not a folder may name. */
#define OF_FILES                                                                                   \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |   \
     FS_TRUNCATE | FS_IOCTL_DEV)

struct rule {
    const char *path;
    uint64_t allow;
};

/* In a root of its own: everything there may be read, as it is an allow-list already. The rule for
 * the workspace sits on /home: one on a folder that is mounted over later would not count. */
static const struct rule in_own_root[] = {
    {"/", READ},
    {"/home", ALL},
    {"/tmp", ALL},
    {"/dev/shm", ALL},
    {"/dev/pts", TERMINALS},
    {"/dev/null", DEVICE},
    {"/dev/zero", DEVICE},
    {"/dev/full", DEVICE},
    {"/dev/random", DEVICE},
    {"/dev/urandom", DEVICE},
};

/* In the container's root: no more than what a sandbox's own root would show. Of /proc other
 * processes' names and arguments can be seen, not more (their uid differs). */
static const struct rule in_shared_root[] = {
    {"/usr", READ},
    {"/bin", READ},
    {"/sbin", READ},
    {"/lib", READ},
    {"/lib32", READ},
    {"/lib64", READ},
    {"/libx32", READ},
    {"/proc", READ},
    {"/sys/devices/system/cpu", READ},
    {"/sys/devices/system/node", READ},
    {"/etc/passwd", READ},
    {"/etc/group", READ},
    {"/etc/hosts", READ},
    {"/etc/resolv.conf", READ},
    {"/etc/nsswitch.conf", READ},
    {"/etc/os-release", READ}, /* pip asks which system it is on */
    {"/etc/debian_version", READ},
    {"/etc/lsb-release", READ},
    {"/dev/shm", SHARED_MEMORY},
    {"/dev/pts", TERMINALS},
    {"/dev/ptmx", DEVICE},
    {"/dev/null", DEVICE},
    {"/dev/zero", DEVICE},
    {"/dev/full", DEVICE},
    {"/dev/random", DEVICE},
    {"/dev/urandom", DEVICE},
};

/* The version of Landlock's interface, 0 where there is none. */
static int
confine_landlock_version(void)
{
    long v = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    return v > 0 ? (int)v : 0;
}

static int
add_rule(int ruleset, uint64_t handled, const char *path, uint64_t allow, struct err *err)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr attr = {.allowed_access = allow & handled, .parent_fd = fd};
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot open %s for Landlock", path);
    if (!S_ISDIR(st.st_mode))
        attr.allowed_access &= OF_FILES;
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "Landlock refuses the rule for %s", path);
    return 0;
}

static int
add_rules(int ruleset, uint64_t handled, const struct rule *rules, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++)
        if (add_rule(ruleset, handled, rules[i].path, rules[i].allow, err) < 0)
            return -1;
    return 0;
}

/* The rules that depend on the options, in the container's root. */
static int
add_own_rules(int ruleset, uint64_t handled, const struct box_spec *s, struct err *err)
{
    char path[KEEPER_PATHS_MAX];

    for (size_t i = 0; root_etc[i]; i++) {
        (void)snprintf(path, sizeof path, "/etc/%s", root_etc[i]);
        if (add_rule(ruleset, handled, path, READ, err) < 0)
            return -1;
    }
    for (const char *p = s->o->paths; *p != '\0';) {
        size_t n = strcspn(p, ":");

        memcpy(path, p, n);
        path[n] = '\0';
        p += n + (p[n] == ':');
        if (n > 0 && add_rule(ruleset, handled, path, READ, err) < 0)
            return -1;
    }
    if (s->o->library[0] != '\0' && add_rule(ruleset, handled, s->o->library, READ, err) < 0)
        return -1;
    return add_rule(ruleset, handled, s->home, ALL, err);
}

static struct ruleset_attr
handled_by(int version, const struct keeper_options *o)
{
    struct ruleset_attr a = {.fs = FS_V1};

    if (version >= 2)
        a.fs |= LANDLOCK_ACCESS_FS_REFER;
    if (version >= 3)
        a.fs |= FS_TRUNCATE;
    if (version >= 5)
        a.fs |= FS_IOCTL_DEV;
    /* Where there is a network namespace, its own ports may be used. */
    if (version >= 4 && o->tier == TIER_CONTAINER && o->egress == EGRESS_NONE)
        a.net = NET_BIND_TCP | NET_CONNECT_TCP;
    if (version >= 6)
        a.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
    return a;
}

int
confine_files(const struct box_spec *s, struct err *err)
{
    bool shared = s->o->tier == TIER_CONTAINER;
    int version = confine_landlock_version();
    struct ruleset_attr a = handled_by(version, s->o);
    size_t size = version >= 6   ? sizeof a
                  : version >= 4 ? offsetof(struct ruleset_attr, scoped)
                                 : offsetof(struct ruleset_attr, net);
    _cleanup_close_ int ruleset = -1;

    if (version == 0 && !shared)
        return 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &a, size, 0);
    if (ruleset < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "this kernel has no Landlock");
    if (!shared &&
        add_rules(ruleset, a.fs, in_own_root, sizeof in_own_root / sizeof *in_own_root, err) < 0)
        return -1;
    if (shared && (add_rules(ruleset, a.fs, in_shared_root,
                             sizeof in_shared_root / sizeof *in_shared_root, err) < 0 ||
                   add_own_rules(ruleset, a.fs, s, err) < 0))
        return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot restrict ourselves with Landlock");
    return 0;
}
