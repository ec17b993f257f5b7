/* SPDX-License-Identifier: MIT */
#include "keeper/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "keeper/box.h"

/* A sandbox in which nothing but this runs: what is tried is what is used later. */
#define TRIAL_PROGRAM "/usr/bin/true"
#define TRIAL_TIMEOUT_S 15
#define TRIAL_SENTENCE 100
/* The uid before the first slot's. */
#define TRIAL_UID KERNEL_UID_BASE

static const struct {
    const char *name;
    enum tier tier;
    const char *help; /* how to get it where it is not to be had */
} tiers[] = {
    {"host", TIER_HOST, "needs root on the host, or a container with --privileged"},
    {"rootless", TIER_ROOTLESS,
     "needs user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)"},
    {"container", TIER_CONTAINER,
     "needs root with SETUID, SETGID, SETPCAP and KILL, and a kernel with Landlock (5.13)"},
    {"none", TIER_NONE, ""},
};

const char *
tier_name(enum tier t)
{
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (tiers[i].tier == t)
            return tiers[i].name;
    return "?";
}

/* 1 and *ret, or 0: no tier is called so. */
static int
tier_find(const char *name, enum tier *ret)
{
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        if (strcmp(tiers[i].name, name) != 0)
            continue;
        *ret = tiers[i].tier;
        return 1;
    }
    return 0;
}

static int
write_map(const char *path, const char *text, struct err *err)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot write %s", path);
    return 0;
}

int
tier_enter_rootless(struct err *err)
{
    unsigned long uid = (unsigned long)geteuid(), gid = (unsigned long)getegid();
    char uids[64], gids[64];

    (void)snprintf(uids, sizeof uids, "%lu %lu 1", uid, uid);
    (void)snprintf(gids, sizeof gids, "%lu %lu 1", gid, gid);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make a user namespace");
    if (write_map("/proc/self/setgroups", "deny", err) < 0 ||
        write_map("/proc/self/uid_map", uids, err) < 0 ||
        write_map("/proc/self/gid_map", gids, err) < 0)
        return -1;
    return 0;
}

/* Everything a trial needs on disk: root/ for the mounts, and for the container tier the session's
 * folder. */
static int
make_folders(const char *folder, enum tier tier, struct err *err)
{
    char workspace[64];

    (void)snprintf(workspace, sizeof workspace, "%s/workspace", folder);
    if (tier != TIER_CONTAINER)
        return 0;
    if (mkdir(workspace, 0700) < 0 || chown(workspace, TRIAL_UID, TRIAL_UID) < 0 ||
        chown(folder, TRIAL_UID, TRIAL_UID) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot give a folder to a session's user");
    return 0;
}

static void
remove_folders(const char *folder)
{
    static const char *const names[] = {"root", "workspace", ".runtime", "tmp"};
    char path[64];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)rmdir(path);
    }
    (void)rmdir(folder);
}

static int
start_trial(const struct keeper_options *o, const char *home, struct err *err)
{
    static const char *const argv[] = {TRIAL_PROGRAM, NULL};
    struct box_spec s = {.o = o,
                         .uid = o->tier == TIER_ROOTLESS ? geteuid() : TRIAL_UID,
                         .slot_lock = -1,
                         .out = -1,
                         .err = -1,
                         .listeners = {-1, -1, -1, -1, -1},
                         .connection = "",
                         .home = home,
                         .argv = argv};
    struct cgroup cg = CGROUP_INIT;
    struct box b;

    if (box_start(&s, &cg, NULL, NULL, &b, err) < 0)
        return -1;
    box_kill(&b, &cg);
    return 0;
}

static int
run_trial(enum tier tier, struct err *err)
{
    struct keeper_options o = {.tier = tier, .egress = EGRESS_NONE};
    char folder[] = "/tmp/husk-trial-XXXXXX";
    int r;

    if (tier == TIER_ROOTLESS ? geteuid() == 0 : geteuid() != 0)
        return err_set(err, ERR_UNAVAILABLE, "started as %s",
                       geteuid() == 0 ? "root" : "an ordinary user");
    if (tier == TIER_ROOTLESS && tier_enter_rootless(err) < 0)
        return -1;
    if (!mkdtemp(folder))
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make a folder in /tmp");
    memcpy(o.run_dir, folder, sizeof folder);
    r = make_folders(folder, tier, err);
    if (r == 0)
        r = start_trial(&o, tier == TIER_CONTAINER ? folder : "", err);
    remove_folders(folder);
    return r;
}

/* In a child, which leaves the namespaces it enters with its end. why is "" when it works. */
static bool
try_tier(enum tier tier, char why[TRIAL_SENTENCE])
{
    char text[TRIAL_SENTENCE] = "the trial did not end";
    int pair[2];
    pid_t pid;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return false;
    pid = fork();
    if (pid == 0) {
        struct err err = ERR_INIT;

        (void)alarm(TRIAL_TIMEOUT_S);
        text[0] = '\0';
        if (run_trial(tier, &err) < 0)
            (void)snprintf(text, sizeof text, "%.*s", TRIAL_SENTENCE - 1, err.msg);
        (void)fd_write_all(pair[1], text, sizeof text);
        _exit(0);
    }
    (void)close(pair[1]);
    if (pid > 0 && fd_read_all(pair[0], text, sizeof text) < 0)
        (void)snprintf(text, sizeof text, "the trial was killed");
    (void)close(pair[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    text[sizeof text - 1] = '\0';
    memcpy(why, text, sizeof text);
    return text[0] == '\0';
}

int
tier_probe(const char *wanted, const char *minimum, struct tier_probe *ret, struct err *err)
{
    bool automatic = strcmp(wanted, "auto") == 0;
    enum tier least, asked = TIER_NONE;
    struct tier_probe p = {.tier = TIER_NONE};

    if ((!automatic && !tier_find(wanted, &asked)) || !tier_find(minimum, &least))
        return err_set(err, ERR_INVALID, "no tier is called \"%s\" or \"%s\"", wanted, minimum);
    /* The first that works; the first that does not says what is missing for more. */
    for (size_t i = 0; tiers[i].tier != TIER_NONE; i++) {
        char why[TRIAL_SENTENCE];

        if (!automatic && tiers[i].tier != asked)
            continue;
        if (automatic && (tiers[i].tier == TIER_ROOTLESS) != (geteuid() != 0))
            continue;
        if (try_tier(tiers[i].tier, why)) {
            p.tier = tiers[i].tier;
            break;
        }
        if (p.detail[0] == '\0')
            (void)snprintf(p.detail, sizeof p.detail, "tier %s: %s; it %s", tiers[i].name, why,
                           tiers[i].help);
    }
    p.enough = p.tier >= least && (automatic ? p.tier != TIER_NONE : p.tier == asked);
    *ret = p;
    return 0;
}
