/* SPDX-License-Identifier: MIT */
#include "keeper/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* More than any kernel has; the first one that does not exist ends the loop. */
#define CAPABILITIES_MAX 64
#define OPEN_FILES_MAX 4096
#define LOCKED_BYTES_MAX (64 * 1024)
#define SIGNALS_PENDING_MAX 1024
/* Init and the few threads that come and go while a limit is met: the cgroup counts first. */
#define PROCESSES_SLACK 32

static int
drop_bounding(struct err *err)
{
    for (int cap = 0; cap < CAPABILITIES_MAX; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL)
            return 0;
        return err_sys(err, ERR_DENIED, errno, "cannot drop capability %d", cap);
    }
    return 0;
}

static int
become(uid_t uid, struct err *err)
{
    uid_t r, e, s;
    gid_t gr, ge, gs;

    if (setgroups(0, NULL) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot leave the groups");
    if (setresgid(uid, uid, uid) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot become gid %lu", (unsigned long)uid);
    if (setresuid(uid, uid, uid) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot become uid %lu", (unsigned long)uid);
    if (getresuid(&r, &e, &s) < 0 || getresgid(&gr, &ge, &gs) < 0 || r != uid || e != uid ||
        s != uid || gr != uid || ge != uid || gs != uid || getgroups(0, NULL) != 0 ||
        setresuid((uid_t)-1, 0, (uid_t)-1) == 0 || setresgid((gid_t)-1, 0, (gid_t)-1) == 0)
        return err_set(err, ERR_INTERNAL, "root can be had back after becoming uid %lu",
                       (unsigned long)uid);
    return 0;
}

static int
drop_capabilities(struct err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0}, have[2];

    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &head, none) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot give the capabilities up");
    head = (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
    if (syscall(SYS_capget, &head, have) < 0 || memcmp(have, none, sizeof have) != 0 ||
        prctl(PR_CAPBSET_READ, CAP_SETUID, 0, 0, 0) != 0)
        return err_set(err, ERR_INTERNAL, "capabilities are left after giving them up");
    return 0;
}

int
confine_ids(uid_t uid, bool change, struct err *err)
{
    if (drop_bounding(err) < 0 || (change && become(uid, err) < 0))
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot set no_new_privs");
    return drop_capabilities(err);
}

static int
limit(int what, int64_t value, const char *name, struct err *err)
{
    struct rlimit have, want = {(rlim_t)value, (rlim_t)value};

    if (getrlimit((__rlimit_resource_t)what, &have) == 0 && have.rlim_max < want.rlim_max)
        want.rlim_max = want.rlim_cur = have.rlim_max;
    if (setrlimit((__rlimit_resource_t)what, &want) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot set the limit %s", name);
    return 0;
}

int
confine_core(struct err *err)
{
    const struct rlimit one = {1, 1};

    /* At 0 as well the host's handler is started: it has to be raised where we may. */
    if (setrlimit(RLIMIT_CORE, &one) == 0)
        return 0;
    return limit(RLIMIT_CORE, 1, "CORE", err);
}

/* Where sessions are the keeper's user, what they have on its way between processes counts as the
 * keeper's (fd_raise_limit()): it must always be allowed more. */
static int64_t
open_files(const struct keeper_options *o)
{
    struct rlimit have;

    if (o->tier == TIER_ROOTLESS && getrlimit(RLIMIT_NOFILE, &have) == 0 &&
        have.rlim_max / 2 < OPEN_FILES_MAX)
        return (int64_t)have.rlim_max / 2;
    return OPEN_FILES_MAX;
}

int
confine_limits(const struct keeper_options *o, struct err *err)
{
    const struct keeper_limits *l = &o->limits;

    if (limit(RLIMIT_NOFILE, open_files(o), "NOFILE", err) < 0 ||
        limit(RLIMIT_MEMLOCK, LOCKED_BYTES_MAX, "MEMLOCK", err) < 0 ||
        limit(RLIMIT_SIGPENDING, SIGNALS_PENDING_MAX, "SIGPENDING", err) < 0 ||
        limit(RLIMIT_NICE, 0, "NICE", err) < 0 || limit(RLIMIT_RTPRIO, 0, "RTPRIO", err) < 0 ||
        limit(RLIMIT_MSGQUEUE, 0, "MSGQUEUE", err) < 0)
        return -1;
    if (l->disk_bytes > 0 && limit(RLIMIT_FSIZE, l->disk_bytes, "FSIZE", err) < 0)
        return -1;
    /* With a cgroup its counter has to tell of a refused fork, so that it must be met first. */
    if (l->pids > 0 &&
        limit(RLIMIT_NPROC, l->pids + (o->cgroups ? PROCESSES_SLACK : 0), "NPROC", err) < 0)
        return -1;
    /* Without one, memory is bounded a process: RLIMIT_DATA counts what is private and writable.
     * RLIMIT_AS would count what numpy and threads reserve and never touch. */
    if (!o->cgroups && l->memory_bytes > 0)
        return limit(RLIMIT_DATA, l->memory_bytes, "DATA", err);
    return 0;
}
