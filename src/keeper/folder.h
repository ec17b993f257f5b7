/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_FOLDER_H
#define HUSK_KEEPER_FOLDER_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Workspaces as plain folders, state_dir/folders/<16 hex>, where images are not to be had: no
 * quota.  In the container tier, where nothing can be mounted, a folder is lent: it moves into the
 * home of the kernel that has it, belongs to that kernel's uid, and an ACL lets the workers in;
 * beside its place a link "<16 hex>.at" says where it went.  Callers of all but folder_prepare()
 * have the volume's lock.
 */
int folder_prepare(const struct keeper_options *o, struct err *err);
bool folder_there(const struct keeper_options *o, uint64_t id);
int folder_make(const struct keeper_options *o, uint64_t id, uid_t owner, struct err *err);
/* An O_PATH descriptor of it, wherever it is. */
int folder_open(const struct keeper_options *o, uint64_t id, struct err *err);
int folder_remove(const struct keeper_options *o, uint64_t id, struct err *err);
int64_t folder_usage(const struct keeper_options *o, uint64_t id, struct err *err);
/* To home/workspace, which is an empty folder, and back. */
int folder_lend(const struct keeper_options *o, uint64_t id, const char *home, uid_t uid,
                struct err *err);
void folder_return(const struct keeper_options *o, uint64_t id);

#endif
