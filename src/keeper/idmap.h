/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_IDMAP_H
#define HUSK_KEEPER_IDMAP_H

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * Clones of a folder's mount, detached, with other attributes and, where asked for, with one owner
 * on disk seen as another.  Spec: open_tree(2), mount_setattr(2).
 */
struct idmap {
    uid_t disk_uid, seen_uid;
    gid_t disk_gid, seen_gid;
};

/* set and clear are MOUNT_ATTR_*; map NULL: ids as they are. The folder's mount must be one of our
 * own namespace, and itself unmapped. Returns the clone or -1; ERR_UNAVAILABLE where the file
 * system or the kernel cannot map ids. */
int idmap_clone(int dir_fd, uint64_t set, uint64_t clear, const struct idmap *map, struct err *err);

#endif
