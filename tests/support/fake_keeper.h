/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_FAKE_KEEPER_H
#define HUSK_TESTS_SUPPORT_FAKE_KEEPER_H

#include "keeper/wire.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * A keeper without sandboxes: a child that answers the workers' questions on files.sock in a
 * folder.  Workspaces are plain folders there.  What it says stands in memory that the test shares.
 */
struct fake_keeper_world {
    struct wire_info info;         /* version and op are filled */
    struct wire_counters counters; /* of every kernel, while `step` is not due */
    struct wire_counters later;    /* from the second STATUS on, when `stepped` */
    bool stepped;
    char ended[WIRE_KERNEL_MAX]; /* STATUS says so of this kernel */
    bool no_kernel;              /* it knows none */
    bool no_fd;                  /* ROOT forgets its descriptor */
    bool mute;                   /* takes questions and does not answer */
    bool old;                    /* answers in another version */
    int error;                   /* of MAKE, ROOT, REMOVE, USAGE: an errno, 0 none */
    char bound_kernel[WIRE_KERNEL_MAX];
    uint64_t bound_workspace;
    atomic_int infos, makes, roots, binds, statuses, removes;
};

struct fake_keeper {
    char dir[PATH_MAX];
    struct fake_keeper_world *world;
    pid_t pid; /* 0 stopped */
};

/* Ready, tier host, in a fresh folder; ends with the test program. Aborts when it cannot start. */
void fake_keeper_start(struct fake_keeper *k);
/* Killed, its world and workspaces kept; and started again. */
void fake_keeper_stop(struct fake_keeper *k);
void fake_keeper_again(struct fake_keeper *k);
void fake_keeper_done(struct fake_keeper *k);

#endif
