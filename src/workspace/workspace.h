/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_WORKSPACE_H
#define HUSK_WORKSPACE_WORKSPACE_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The files of a session, reached only beneath a descriptor of its root (openat2 with BENEATH,
 * NO_MAGICLINKS, NO_XDEV; writing also NO_SYMLINKS), so that no name and no race leads out.  Paths
 * are relative, '/'-separated bytes, (pointer, length); workspace_path_check() says which are
 * refused.
 */
struct workspace {
    int root_fd;
};

/* Refuses empty paths, leading or doubled or trailing '/', "." and ".." components, NUL, control
 * characters (slug "bad_path"), components over 255 and paths over 1024 bytes, and names that begin
 * with ".husk-" (ours). ERR_INVALID. */
int workspace_path_check(const char *path, size_t n, struct err *err);

/* STATE/workspaces/<16 hex digits>: made 2770 with a default ACL so that users `husk` and
 * `husk-kernel` (group husk-files) both reach what either makes; plain 0770 where there is no such
 * group. Already there is fine; *ret_existed says so. */
int workspace_create(const char *base_dir, int64_t workspace_id, bool *ret_existed,
                     struct err *err);
int workspace_open(const char *base_dir, int64_t workspace_id, struct workspace *ret,
                   struct err *err); /* ERR_NOT_FOUND, slug "workspace_gone" */
void workspace_close(struct workspace *w);
/* The absolute path of the directory, for the kernel's chdir. */
int workspace_dir(const char *base_dir, int64_t workspace_id, char *ret, size_t size);
/* Renames it into BASE/.trash/<id> at once, then empties it as far as our uid may; what the
 * kernel's uid locked away is left for that uid's helper. Gone already is fine. */
int workspace_remove(const char *base_dir, int64_t workspace_id, struct err *err);
/* Removes whatever has one of our own names (".husk-…"): what a killed process left of an upload or
 * a removal. Nobody else may be at work in it. */
int workspace_tidy(const struct workspace *w, struct deadline d, struct err *err);
/* Bytes used (st_blocks), walking at most max_entries. */
int workspace_usage(const struct workspace *w, int64_t max_entries, int64_t *ret_bytes,
                    struct err *err);

enum file_type { FILE_REGULAR, FILE_DIRECTORY, FILE_SYMLINK, FILE_OTHER };

struct file_info {
    enum file_type type;
    int64_t size;
    int64_t mtime_ns;
    uint64_t inode;
    int64_t ctime_ns;
};

#define FILE_ETAG_SIZE 64
/* The entity tag of a state of a file (inode, size, mtime, ctime): "…" quoted, with W/ while its
 * last change is less than 2 s before now_wall_ms (the clock's grain cannot tell two writes
 * apart). */
void file_etag(const struct file_info *f, int64_t now_wall_ms, char out[FILE_ETAG_SIZE]);

/* Opens a regular file for reading (O_NONBLOCK; relative links inside are followed). Errors:
 * ERR_NOT_FOUND "file_not_found", ERR_INVALID "not_a_file" (directory, FIFO, device, socket),
 * ERR_INVALID "outside_workspace", ERR_DENIED "file_unreadable", ERR_CONFLICT "file_busy" (a
 * lease). */
int workspace_open_file(const struct workspace *w, const char *path, size_t n, int *ret_fd,
                        struct file_info *ret, struct err *err);
/* lstat beneath the root. */
int workspace_stat(const struct workspace *w, const char *path, size_t n, struct file_info *ret,
                   struct err *err);

/* An upload: bytes go to an unnamed file (O_TMPFILE) in the target's folder, made with its parents;
 * commit links it beside the name and renames it over that. Until then nothing is to be seen; a
 * process killed between those two leaves a hidden file to workspace_tidy(). */
struct upload;
enum upload_mode { UPLOAD_REPLACE, UPLOAD_CREATE /* fail if it exists */ };

int upload_begin(const struct workspace *w, const char *path, size_t n, struct upload **ret,
                 struct err *err);
int upload_write(struct upload *u, const void *p, size_t n, struct err *err); /* ENOSPC: ERR_LIMIT
                                                                               "disk_full" */
/* expected: NULL, or the etag-relevant state the target must still have ("if match", with
 * UPLOAD_REPLACE only), else ERR_CONFLICT "precondition_failed"; of several at once one passes.
 * UPLOAD_CREATE over something: ERR_CONFLICT "precondition_failed". *ret_created: there was none
 * before. Frees u in any case. */
int upload_commit(struct upload *u, enum upload_mode mode, const struct file_info *expected,
                  bool *ret_created, struct file_info *ret, struct err *err);
void upload_abort(struct upload *u); /* NULL is fine */

/* Removes a file, a link (not its target), or a folder (recursive asked for, else ERR_CONFLICT
 * "folder_not_empty"). */
int workspace_unlink(const struct workspace *w, const char *path, size_t n, bool recursive,
                     struct err *err);

/* Lists below `folder` ("" is the root; else ERR_CONFLICT "not_a_folder") in byte order of paths,
 * beginning behind `after`; paths are whole ones, from the root. glob (NULL: all; at most GLOB_MAX
 * bytes, else ERR_INVALID "bad_value") matches the path relative to the folder: * and ? do not
 * cross
 * '/', ** does (and "**" with a '/' behind it also stands for no folder at all), […] and [!…]
 * classes, backslash takes the next byte as it is. Names beginning ".husk-" are left out. At most
 * max_entries found; over 200000 looked at is ERR_LIMIT "limit_exceeded". */
#define GLOB_MAX 512
struct file_entry {
    char *path; /* heap */
    size_t path_len;
    struct file_info info;
};
struct file_list {
    struct file_entry *entries;
    size_t n;
    bool more; /* there are further ones behind the last */
};
int workspace_list(const struct workspace *w, const char *folder, size_t folder_len,
                   const char *glob, bool recursive, const char *after, size_t after_len,
                   size_t max_entries, struct deadline d, struct file_list *ret, struct err *err);
void file_list_done(struct file_list *l);

/* Pattern match as used by lists; time is bounded by pn * n, false over GLOB_MAX. */
bool glob_match(const char *pattern, size_t pn, const char *path, size_t n);

#endif
