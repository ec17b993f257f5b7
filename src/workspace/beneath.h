/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_BENEATH_H
#define HUSK_WORKSPACE_BENEATH_H

#include "base/beneath.h"
#include "base/err.h"
#include "base/walk.h"
#include "workspace/workspace.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Longest path and component of a workspace, in bytes; the workers' own names begin so. */
#define WORKSPACE_PATH_MAX 1024
#define WORKSPACE_NAME_MAX 255
#define WORKSPACE_OWN_PREFIX ".husk-"
#define WORKSPACE_OWN_NAME_SIZE 32

/* Fills err by what an errno of a call on `path` means to a caller. Returns -1. */
int beneath_err(struct err *err, int sys_errno, const char *path);

/* True for names that the workers keep for themselves. */
bool beneath_own_name(const char *name, size_t n);
/* A fresh name of that kind. */
void beneath_make_own_name(char out[WORKSPACE_OWN_NAME_SIZE]);

/* A checked path as C strings: the folder ("" for the root) and the last component. */
struct beneath_path {
    char whole[WORKSPACE_PATH_MAX + 1];
    char folder[WORKSPACE_PATH_MAX + 1];
    const char *name; /* inside whole */
};
int beneath_split(const char *path, size_t n, struct beneath_path *ret, struct err *err);

/* An O_PATH descriptor of an existing folder ("" is the root itself), no links followed. */
int beneath_folder(int root_fd, const char *folder, struct err *err);

/* walk() with what it meets put as an error of ours. */
int workspace_walk(int root_fd, const char *folder, int64_t max_entries, struct deadline d,
                   walk_fn fn, void *ctx, struct err *err);

void beneath_info(const struct stat *st, struct file_info *ret);

#endif
