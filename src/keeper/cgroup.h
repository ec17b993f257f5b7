/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_CGROUP_H
#define HUSK_KEEPER_CGROUP_H

#include "base/err.h"
#include "keeper/keeper.h"
#include "keeper/wire.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * The control group of a sandbox: v2 (one folder, CLONE_INTO_CGROUP, cgroup.kill) or v1 (a folder
 * in each of memory, pids, cpu).  Where there are none all calls succeed and count nothing (-1).
 */
#define CGROUP_NAME_MAX 64

struct cgroup {
    const struct keeper_options *o;
    char name[CGROUP_NAME_MAX]; /* "husk-" and the kernel id */
    int v2_fd;                  /* for CLONE_INTO_CGROUP, or -1 */
    bool made;
};

#define CGROUP_INIT                                                                                \
    {                                                                                              \
        NULL, "", -1, false                                                                        \
    }

/* At the keeper's start: finds the hierarchy, makes our own group with the controllers (v2: moves
 * ourselves into a leaf first). Sets o->cgroups, o->cgroup_v2 and o->cgroup_dir. ERR_UNAVAILABLE
 * says what is missing, and nothing is set then but o->cgroups = false. */
int cgroup_prepare(struct keeper_options *o, struct err *err);
/* Undoes it where no sandbox is left: the keeper's last act, and tests'. */
void cgroup_release(const struct keeper_options *o);
/* ERR_CONFLICT: there is a group of this kernel already. */
int cgroup_make(struct cgroup *cg, const struct keeper_options *o, const char *kernel,
                struct err *err);
/* v1: moves a process in (v2: it was born there). The first such move of a while costs about 9 ms.
 */
int cgroup_enter(const struct cgroup *cg, pid_t pid, struct err *err);
/* Fills oom_kills, fork_refusals, memory_bytes, memory_peak_bytes; leaves the rest. */
void cgroup_counters(const struct cgroup *cg, struct wire_counters *ret);
/* What the kernel's group counts as its sockets' memory; 0 where none does. */
int64_t cgroup_socket_bytes(const struct keeper_options *o, const char *kernel);
/* Kills what is left in it, waits (bounded) until it is empty and removes it. */
void cgroup_remove(struct cgroup *cg);
/* Removes groups that no monitor owns; `known` says whether a kernel id has one. */
void cgroup_sweep(const struct keeper_options *o, bool (*known)(void *ctx, const char *kernel),
                  void *ctx);

#endif
