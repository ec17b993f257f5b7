/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_MONITOR_H
#define HUSK_KEEPER_MONITOR_H

#include "keeper/box.h"
#include "keeper/cgroup.h"
#include "keeper/relay.h"
#include "keeper/wire.h"

/*
 * One sandbox's keeper: a process of its own, forked without an exec, so that it outlives the
 * keeper.  It owns the connection to husk-launch, the uid's slot, the control group, the hold on
 * the workspace and init; its death is the sandbox's.
 */
struct monitor {
    const struct keeper_options *o;
    const char *kernel;
    int shim;    /* -1: the gateway has let go */
    int control; /* listens at run_dir/m/<kernel id> */
    int slot, slot_lock;
    uid_t uid;
    char home[KEEPER_PATH_MAX];
    struct cgroup cgroup;
    struct box box;
    struct relay out, err;
    uint64_t workspace; /* 0: none yet */
    int hold;           /* on the workspace */
    int tree;           /* its mount in the sandbox, -1 where it is none */
    bool killed;        /* the sandbox was ended from outside */
    bool hoarded;       /* for memory that its control group does not count */
};

/* Runs one kernel to its end in this process: takes the shim's connection and the descriptors of
 * START. Everything that concerns the sandbox is gone afterwards. */
void monitor_run(const struct keeper_options *o, int shim, const struct wire_start *start,
                 const int fds[WIRE_START_FDS]);

/* Serves one connection of the keeper's (monitor_control.c); takes it. */
void monitor_answer(struct monitor *m, int fd);
/* What the sandbox uses, or used. */
void monitor_counters(const struct monitor *m, struct wire_counters *ret);

/* Tells husk-launch how it ended, or why nothing began. */
void monitor_tell_exit(int shim, int value, const char *detail);

#endif
