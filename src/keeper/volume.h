/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_VOLUME_H
#define HUSK_KEEPER_VOLUME_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Workspaces on disk.  Tier host: a loop image each (state_dir/images/<16 hex>.img), fallocated
 * from a template, mounted only in the keeper's own mount namespace, owned by an on-disk uid of its
 * own, and seen by others through id-mapped clones.  Tier rootless: a folder each.  Tier container:
 * a folder each, moved into the kernel's placeholder for the time it is bound.  All waits are
 * bounded; nothing here is called from the keeper's loop but in a forked child (mounting and
 * unmounting can take long).
 */
/* At the keeper's start, in its private mount namespace and before anything is forked: folders, the
 * template (the one moment a program is run: mkfs.ext4), and what a predecessor left. Sets
 * o->images and o->disk_detail. ERR_UNAVAILABLE: workspaces cannot be kept here at all. */
int volume_prepare(struct keeper_options *o, struct err *err);
/* For a monitor, first of all: a mount namespace of its own without the images, which it would keep
 * mounted, when its keeper is gone, as long as it lives. */
int volume_leave(const struct keeper_options *o, struct err *err);
/* Every half minute, in a forked child: unmounts what nobody has held or used for a minute. */
void volume_sweep(const struct keeper_options *o);
/* Makes the workspace; there already is fine. ERR_LIMIT (errno ENOSPC): the host's disk is full. */
int volume_make(const struct keeper_options *o, uint64_t id, bool *ret_existed, struct err *err);
/* A detached clone for a sandbox of this uid (nosuid, nodev). ERR_NOT_FOUND: no such workspace. */
int volume_tree(const struct keeper_options *o, uint64_t id, uid_t seen_as, struct err *err);
/* An O_PATH descriptor of its root as the workers' uid sees it (nosuid, nodev, noexec). */
int volume_root(const struct keeper_options *o, uint64_t id, struct err *err);
/* A shared lock on the workspace, which a monitor keeps while it is bound: volume_remove() is then
 * ERR_CONFLICT (errno EBUSY). Dies with its holder. Returns the descriptor or -1. */
int volume_hold(const struct keeper_options *o, uint64_t id, struct err *err);
/* Tier container: the folder goes to `home`/workspace (an empty folder) and belongs to `uid`, or
 * back, which is done when nobody of the sandbox lives any more and before `home` is removed.
 * volume_prepare() brings back those that nobody holds. Elsewhere nothing. */
int volume_lend(const struct keeper_options *o, uint64_t id, const char *home, uid_t uid,
                struct err *err);
void volume_return(const struct keeper_options *o, uint64_t id);
/* There was none is fine; ERR_CONFLICT (errno EBUSY): somebody holds it. */
int volume_remove(const struct keeper_options *o, uint64_t id, struct err *err);
/* Bytes on the host's disk, or -1; ERR_NOT_FOUND. */
int64_t volume_usage(const struct keeper_options *o, uint64_t id, struct err *err);

#endif
