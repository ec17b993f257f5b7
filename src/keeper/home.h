/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_HOME_H
#define HUSK_KEEPER_HOME_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Tier container: a kernel's folder on the host, state_dir/homes/<kernel id>, which it has instead
 * of a root of its own, with `workspace` in it.  In the other tiers all of this does nothing.
 */

/* At the keeper's start, after the tier is known. */
int home_prepare(const struct keeper_options *o, struct err *err);
/* Makes it, the uid's own; ret (KEEPER_PATH_MAX bytes) is its path, "" in other tiers. */
int home_make(const struct keeper_options *o, const char *kernel, uid_t uid, char *ret,
              struct err *err);
/* The workspace becomes its `workspace`. Errors as of volume_lend(). */
int home_lend(const struct keeper_options *o, const char *kernel, uint64_t workspace, uid_t uid,
              struct err *err);
/* Gives the workspace it has back and removes the rest. Nothing of the kernel may run any more. */
void home_remove(const struct keeper_options *o, const char *kernel);
/* The same for all whose kernel is not known (its monitor was killed). */
void home_sweep(const struct keeper_options *o, bool (*known)(void *ctx, const char *kernel),
                void *ctx);

#endif
