/* SPDX-License-Identifier: MIT */
#include "keeper/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "keeper/cgroup_v1.h"
#include "keeper/cgroup_v2.h"

#define PREFIX "husk-"
/* A machine with thousands of mounts is bounded here too. */
#define MOUNTINFO_MAX (4 * 1024 * 1024)
/* A unit beside ours whose control group is delegated and that does nothing but hold it. With
 * systemd before 254 a service whose own group has controllers handed down cannot be started
 * again while sandboxes live in it ("Device or resource busy"); in this one they are out of its
 * way. */
#define HOLDER "husk-sandboxes.service"

/* The group all our sandboxes are in: another keeper, with another state, has its own. */
static void
own_name(const struct keeper_options *o, char ret[CGROUP_NAME_MAX])
{
    uint32_t hash = 2166136261U; /* FNV-1a */

    for (const char *p = o->state_dir; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    (void)snprintf(ret, CGROUP_NAME_MAX, "husk-keeper-%08x", (unsigned)hash);
}

static int
find_place(struct cgroup_place *ret, struct err *err)
{
    _cleanup_buf_ struct buf mounts = BUF_INIT(MOUNTINFO_MAX), own = BUF_INIT(MOUNTINFO_MAX);

    if (fd_read_file("/proc/self/mountinfo", &mounts, err) < 0 ||
        fd_read_file("/proc/self/cgroup", &own, err) < 0)
        return -1;
    cgroup_place_parse(buf_str(&mounts), buf_str(&own), ret);
    return 0;
}

/* dir/name, made if missing, into o->cgroup_dir[i]. */
static int
take_folder(struct keeper_options *o, int i, const char *dir, struct err *err)
{
    char name[CGROUP_NAME_MAX], path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];

    own_name(o, name);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (strlen(path) >= sizeof o->cgroup_dir[i])
        return err_set(err, ERR_UNAVAILABLE, "the path of our control group is too long: %s", path);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the control group %s", path);
    memcpy(o->cgroup_dir[i], path, strlen(path) + 1);
    return 0;
}

static int
prepare_v2(struct keeper_options *o, const struct cgroup_place *place, struct err *err)
{
    char own[CGROUP_PATH_MAX], name[CGROUP_NAME_MAX];
    char holder[CGROUP_PATH_MAX + sizeof "/" HOLDER];

    own_name(o, name);
    cgroup_v2_home(place->v2, name, own);
    const char *slash = strrchr(own, '/'), *dir = own;
    (void)snprintf(holder, sizeof holder, "%.*s/" HOLDER, slash ? (int)(slash - own) : 0, own);
    if (cgroup_file_exists(holder, "cgroup.procs"))
        dir = holder;
    /* Whoever is in a holder's group, or in all of a container, is there for us to move. */
    if (cgroup_v2_open(dir, dir == holder || place->v2_top, err) < 0 ||
        take_folder(o, 0, dir, err) < 0)
        return -1;
    o->cgroup_v2 = true;
    return cgroup_v2_hand_down(o->cgroup_dir[0], err);
}

static int
prepare_v1(struct keeper_options *o, const struct cgroup_place *place, struct err *err)
{
    if (place->v1[CGROUP_MEMORY][0] == '\0' || place->v1[CGROUP_PIDS][0] == '\0')
        return err_set(err, ERR_UNAVAILABLE,
                       "no control groups with memory and pids are mounted in /sys/fs/cgroup");
    for (int c = 0; c < CGROUP_CONTROLLERS; c++)
        if (place->v1[c][0] != '\0' && take_folder(o, c, place->v1[c], err) < 0)
            return -1;
    return 0;
}

int
cgroup_prepare(struct keeper_options *o, struct err *err)
{
    struct cgroup_place place;
    int r;

    o->cgroups = o->cgroup_v2 = false;
    memset(o->cgroup_dir, 0, sizeof o->cgroup_dir);
    if (find_place(&place, err) < 0)
        return -1;
    r = place.v1[CGROUP_MEMORY][0] != '\0' || place.v2[0] == '\0' ? prepare_v1(o, &place, err)
                                                                  : prepare_v2(o, &place, err);
    if (r < 0) {
        cgroup_release(o);
        o->cgroup_v2 = false;
        memset(o->cgroup_dir, 0, sizeof o->cgroup_dir);
        return -1;
    }
    o->cgroups = true;
    return 0;
}

void
cgroup_release(const struct keeper_options *o)
{
    for (int c = 0; c < CGROUP_CONTROLLERS; c++)
        if (o->cgroup_dir[c][0] != '\0')
            (void)rmdir(o->cgroup_dir[c]);
}

int
cgroup_make(struct cgroup *cg, const struct keeper_options *o, const char *kernel, struct err *err)
{
    struct cgroup made = {.o = o, .v2_fd = -1};
    struct err failed = ERR_INIT;
    int r = 0;

    if ((size_t)snprintf(made.name, sizeof made.name, PREFIX "%s", kernel) >= sizeof made.name)
        return err_set(err, ERR_INVALID, "the kernel id is too long");
    if (o->cgroups && o->cgroup_v2)
        r = made.v2_fd = cgroup_v2_make(o, made.name, &failed);
    else if (o->cgroups)
        r = cgroup_v1_make(o, made.name, &failed);
    made.made = o->cgroups;
    if (r < 0) {
        if (failed.code != ERR_CONFLICT) /* else it is another's */
            cgroup_remove(&made);
        if (err)
            *err = failed;
        return -1;
    }
    *cg = made;
    return 0;
}

int
cgroup_enter(const struct cgroup *cg, pid_t pid, struct err *err)
{
    if (!cg->made || cg->o->cgroup_v2)
        return 0;
    return cgroup_v1_enter(cg->o, cg->name, pid, err);
}

void
cgroup_counters(const struct cgroup *cg, struct wire_counters *ret)
{
    ret->oom_kills = ret->fork_refusals = ret->memory_bytes = ret->memory_peak_bytes = -1;
    if (cg->made && cg->o->cgroup_v2)
        cgroup_v2_counters(cg->o, cg->name, ret);
    else if (cg->made)
        cgroup_v1_counters(cg->o, cg->name, ret);
}

int64_t
cgroup_socket_bytes(const struct keeper_options *o, const char *kernel)
{
    char dir[CGROUP_PATH_MAX];
    int64_t bytes;

    if (!o->cgroups)
        return 0;
    (void)snprintf(dir, sizeof dir, "%s/" PREFIX "%s",
                   o->cgroup_dir[o->cgroup_v2 ? 0 : CGROUP_MEMORY], kernel);
    bytes = o->cgroup_v2 ? cgroup_file_number(dir, "memory.stat", "sock")
                         : cgroup_file_number(dir, "memory.kmem.tcp.usage_in_bytes", NULL);
    return bytes < 0 ? 0 : bytes;
}

static void
remove_named(const struct keeper_options *o, const char *name)
{
    if (o->cgroup_v2)
        cgroup_v2_remove(o, name);
    else
        cgroup_v1_remove(o, name);
}

void
cgroup_remove(struct cgroup *cg)
{
    if (cg->v2_fd >= 0)
        (void)close(steal_fd(&cg->v2_fd));
    if (cg->made)
        remove_named(cg->o, cg->name);
    cg->made = false;
}

void
cgroup_sweep(const struct keeper_options *o, bool (*known)(void *ctx, const char *kernel),
             void *ctx)
{
    for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
        DIR *dir = o->cgroup_dir[c][0] != '\0' ? opendir(o->cgroup_dir[c]) : NULL;
        struct dirent *e;

        while (dir && (e = readdir(dir)) != NULL)
            if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
                !known(ctx, e->d_name + sizeof PREFIX - 1))
                remove_named(o, e->d_name);
        if (dir)
            (void)closedir(dir);
    }
}
