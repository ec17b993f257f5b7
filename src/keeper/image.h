/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_IMAGE_H
#define HUSK_KEEPER_IMAGE_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Workspaces as loop images, state_dir/images/<16 hex>.img: an ext4 file system with a small
 * journal, copied from a template and allocated whole, so that its size is the quota and a full
 * host cannot spoil what is in it.  Mounted below state_dir/mnt, a tmpfs of the keeper's own mount
 * namespace.  After a power cut the journal is replayed by the mount itself.  The file's owner on
 * the host is the workspace's uid, and so is that of its root inside.  Callers of all but
 * image_prepare() have the volume's lock.
 */
/* Makes the template if there is none for this size, mounts the tmpfs, and tries one image from
 * end to end. ERR_UNAVAILABLE says what is missing: no images are to be had here. */
int image_prepare(const struct keeper_options *o, struct err *err);
bool image_there(const struct keeper_options *o, uint64_t id);
/* ERR_LIMIT (errno ENOSPC) where the host's disk would be too full. */
int image_make(const struct keeper_options *o, uint64_t id, uid_t owner, struct err *err);
/* Its root, mounted if it was not, for reading; nosuid, nodev, noexec, ids as on disk. */
int image_root(const struct keeper_options *o, uint64_t id, struct err *err);
int image_remove(const struct keeper_options *o, uint64_t id, struct err *err);
int64_t image_usage(const struct keeper_options *o, uint64_t id, struct err *err);
/* Calls fn for each image that is mounted and was last used before `idle_s` seconds. */
void image_idle(const struct keeper_options *o, int64_t idle_s, void (*fn)(void *ctx, uint64_t id),
                void *ctx);
/* Not while something is open in it: then it stays mounted. */
void image_unmount(const struct keeper_options *o, uint64_t id);

#endif
