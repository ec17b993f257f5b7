/* SPDX-License-Identifier: MIT */
#include "keeper/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/priv.h"

static const char *const egress_names[] = {
    [EGRESS_NONE] = "none",
    [EGRESS_PUBLIC] = "public",
    [EGRESS_OPEN] = "open",
};

const char *
egress_name(enum egress e)
{
    return egress_names[e];
}

static int
copy(char *to, size_t room, const char *from, const char *more, const char *what, struct err *err)
{
    int n = snprintf(to, room, "%s%s", from, more);

    if (n < 0 || (size_t)n >= room)
        return err_set(err, ERR_INVALID, "%s is longer than %zu bytes", what, room - 1);
    return 0;
}

/* Two keepers of one machine, such as a test's beside the real one, do not know of one another's
 * uids: each begins where its state's folder says, so that they hardly ever meet. */
static int
first_slot_of(const char *state_dir)
{
    uint32_t hash = 2166136261U; /* FNV-1a */

    for (const char *p = state_dir; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    return (int)(hash % SLOTS_MAX);
}

/* A user by its name, "" is ourselves. */
static int
find_user(const char *name, const char *setting, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
    struct priv_ids ids = {.uid = getuid(), .gid = getgid()};

    if (name[0] && priv_lookup(name, &ids, err) < 0)
        return err_wrap(err, "%s", setting);
    *ret_uid = ids.uid;
    *ret_gid = ids.gid;
    return 0;
}

/* In a user namespace only our own uid is there: others could not be told from one another. */
static int
check_peer(const char *setting, uid_t uid, struct err *err)
{
    if (getuid() == 0 || uid == getuid())
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s names another user: a keeper that is not root serves its own user only; "
                   "leave it empty",
                   setting);
}

int
keeper_options_of(const struct settings *s, const char *library, struct keeper_options *ret,
                  struct err *err)
{
    struct keeper_options o = {
        .tier = TIER_NONE,
        .limits = {.memory_bytes = s->memory_bytes,
                   .cpu_milli = (int64_t)(s->cpus * 1000 + 0.5),
                   .pids = s->pids,
                   .disk_bytes = s->disk_bytes},
        .sparse = s->disk_sparse,
    };
    gid_t gateway_gid;

    for (size_t i = 0; i < sizeof(egress_names) / sizeof(egress_names[0]); i++)
        if (strcmp(s->egress, egress_names[i]) == 0)
            o.egress = (enum egress)i;
    if (copy(o.state_dir, sizeof(o.state_dir), s->state_dir, "-keeper", "SANDBOX_STATE_DIR", err) <
            0 ||
        copy(o.run_dir, sizeof(o.run_dir), s->keeper_dir, "", "SANDBOX_KEEPER_DIR", err) < 0 ||
        copy(o.python, sizeof(o.python), s->kernel_python, "", "SANDBOX_KERNEL_PYTHON", err) < 0 ||
        copy(o.paths, sizeof(o.paths), s->kernel_paths, "", "SANDBOX_KERNEL_PATHS", err) < 0 ||
        copy(o.egress_dns, sizeof(o.egress_dns), s->egress_dns, "", "SANDBOX_EGRESS_DNS", err) <
            0 ||
        copy(o.egress_proxy, sizeof(o.egress_proxy), s->egress_proxy, "", "SANDBOX_EGRESS_PROXY",
             err) < 0 ||
        copy(o.library, sizeof(o.library), library, "", "--library", err) < 0)
        return -1;
    if (find_user(s->gateway_user, "SANDBOX_GATEWAY_USER", &o.gateway_uid, &gateway_gid, err) < 0 ||
        find_user(s->user, "SANDBOX_USER", &o.worker_uid, &o.worker_gid, err) < 0 ||
        check_peer("SANDBOX_GATEWAY_USER", o.gateway_uid, err) < 0 ||
        check_peer("SANDBOX_USER", o.worker_uid, err) < 0)
        return -1;
    o.first_slot = first_slot_of(o.state_dir);
    *ret = o;
    return 0;
}
