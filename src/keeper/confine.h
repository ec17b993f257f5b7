/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_CONFINE_H
#define HUSK_KEEPER_CONFINE_H

#include "base/err.h"
#include "keeper/box.h"

#include <stdbool.h>

/*
 * What a process of a sandbox gives up, for good.  In the order of the functions: ids and
 * capabilities (init), then in the interpreter's process Landlock, the system call filter
 * (filter.h), RLIMITs.
 */

/* Capabilities out of the bounding set first (it cannot be done any more afterwards), then groups,
 * gid and uid (where `change` says so), all proven; no_new_privs; no capabilities. */
int confine_ids(uid_t uid, bool change, struct err *err);

/* Landlock, as much as the kernel knows. With a root of its own a second fence; in the container
 * tier the only one around files, where a kernel without Landlock is an error. */
int confine_files(const struct box_spec *s, struct err *err);

/* No core dumps: of a process that may write none the kernel still hands one to a handler (a pipe
 * in core_pattern, run as root on the host), but for a limit of exactly 1. The filter keeps it so.
 */
int confine_core(struct err *err);

/* The last step: RLIMIT_DATA may leave no room for anything but the exec. */
int confine_limits(const struct keeper_options *o, struct err *err);

#endif
