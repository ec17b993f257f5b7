/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_SNAPSHOT_H
#define HUSK_WORKSPACE_SNAPSHOT_H

#include "base/clock.h"
#include "base/err.h"
#include "workspace/workspace.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Which files a run made or changed, by the file system's own evidence: path, inode, size, mtime
 * and ctime in nanoseconds before and after.  Nothing is read.  Left out are what begins with a
 * dot, at any depth, and the folders "inputs" and "tmp" of the root.
 */
#define SNAPSHOT_ENTRIES_MAX 100000

struct snapshot;

/* As it is now. ERR_LIMIT "limit_exceeded" over SNAPSHOT_ENTRIES_MAX, ERR_TIMEOUT. */
int snapshot_take(const struct workspace *w, struct deadline d, struct snapshot **ret,
                  struct err *err);
void snapshot_free(struct snapshot *s); /* NULL is fine */

/* The regular files that are now otherwise than in `before` (NULL: none of these are wanted), and
 * those that match one of the patterns, left-out names included; in byte order of their paths. *ret
 * is freed with file_list_done(); its `more` says that it is cut at SNAPSHOT_ENTRIES_MAX looked at.
 */
int snapshot_changed(const struct workspace *w, const struct snapshot *before,
                     const char *const *globs, size_t n_globs, struct deadline d,
                     struct file_list *ret, struct err *err);

/* The same of lists that somebody else made of all there is, in byte order of the paths, with what
 * evidence they have: what a list does not tell (0) makes no difference.  The first takes the list,
 * also when it fails (`more` counts as over SNAPSHOT_ENTRIES_MAX); the second leaves in it what
 * snapshot_changed() would find. */
int snapshot_of_list(struct file_list *list, struct snapshot **ret, struct err *err);
void snapshot_changed_of_list(struct file_list *list, const struct snapshot *before,
                              const char *const *globs, size_t n_globs);

#endif
