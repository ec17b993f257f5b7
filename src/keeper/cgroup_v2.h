/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_CGROUP_V2_H
#define HUSK_KEEPER_CGROUP_V2_H

#include "base/err.h"
#include "keeper/cgroup_file.h"
#include "keeper/keeper.h"
#include "keeper/wire.h"

/*
 * The one hierarchy: a folder in o->cgroup_dir[0], into which init is born.
 */

/* Where a group `name` for sandboxes belongs, given our own: there, or, when that is the leaf to
 * which a predecessor moved us and whoever may start us again, above. */
void cgroup_v2_home(const char *own, const char *name, char ret[CGROUP_PATH_MAX]);

/* Makes a group fit to have others below: one whose children have controllers may hold no
 * processes, so that we, or everybody who is in it, go to a leaf; then hands memory, pids and cpu
 * down. ERR_UNAVAILABLE says what is missing. */
int cgroup_v2_open(const char *dir, bool everybody, struct err *err);
/* The same for a group in it that has no processes. */
int cgroup_v2_hand_down(const char *dir, struct err *err);

int cgroup_v2_limit(const char *dir, const struct keeper_limits *l, struct err *err);
/* Returns the folder's descriptor for CLONE_INTO_CGROUP, or -1. */
int cgroup_v2_make(const struct keeper_options *o, const char *name, struct err *err);
void cgroup_v2_counters(const struct keeper_options *o, const char *name,
                        struct wire_counters *ret);
void cgroup_v2_remove(const struct keeper_options *o, const char *name);

#endif
