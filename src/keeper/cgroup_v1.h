/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_CGROUP_V1_H
#define HUSK_KEEPER_CGROUP_V1_H

#include "base/err.h"
#include "keeper/cgroup_file.h"
#include "keeper/keeper.h"
#include "keeper/wire.h"

/*
 * The old interface: a folder of the same name in each of memory, pids and cpu, below
 * o->cgroup_dir. cpu may be missing ("").
 */
int cgroup_v1_make(const struct keeper_options *o, const char *name, struct err *err);
int cgroup_v1_enter(const struct keeper_options *o, const char *name, pid_t pid, struct err *err);
void cgroup_v1_counters(const struct keeper_options *o, const char *name,
                        struct wire_counters *ret);
void cgroup_v1_remove(const struct keeper_options *o, const char *name);

#endif
