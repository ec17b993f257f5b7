/* SPDX-License-Identifier: MIT */
#include "workspace/removal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "workspace/beneath.h"
#include "workspace/workspace.h"

/* One descriptor and one directory stream a level. */
#define REMOVAL_DEPTH 32
/* A program that makes files as fast as we remove them wins after this many passes. */
#define REMOVAL_PASSES 3

struct removal {
    int top_fd;
    char prefix[WORKSPACE_OWN_NAME_SIZE]; /* of the names of what was moved up */
    uint64_t moved;
    int64_t looked_at;
    int first_errno;
};

static void
note(struct removal *r, int sys_errno)
{
    if (r->first_errno == 0)
        r->first_errno = sys_errno;
}

static void
moved_name(const struct removal *r, uint64_t i, char out[64])
{
    (void)snprintf(out, 64, "%s-%llu", r->prefix, (unsigned long long)i);
}

/* Opens a folder to empty it. One of ours that was locked by mode is unlocked, through a descriptor
 * that is known to be that folder and not what a link in its place names. */
static DIR *
open_folder(int parent_fd, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK;
    int fd = beneath_open(parent_fd, name, flags, LINKS_NONE);

    if (fd < 0 && errno == EACCES) {
        char proc[40];
        _cleanup_close_ int path_fd =
            beneath_open(parent_fd, name, O_PATH | O_DIRECTORY, LINKS_NONE);

        if (path_fd < 0)
            return NULL;
        (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path_fd);
        if (chmod(proc, 02770) == 0)
            fd = beneath_open(parent_fd, name, flags, LINKS_NONE);
        else
            errno = EACCES;
    }
    if (fd < 0)
        return NULL;
    (void)fchmod(fd, 02770); /* a folder of ours without w or x */

    DIR *dir = fdopendir(fd);
    if (!dir)
        (void)close(fd);
    return dir;
}

static void remove_entry(struct removal *r, int parent_fd, const char *name, int depth);

static void
empty_folder(struct removal *r, DIR *dir, int depth)
{
    struct dirent *de;

    for (;;) {
        errno = 0;
        de = readdir(dir);
        if (!de) {
            if (errno)
                note(r, errno);
            return;
        }
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        if (++r->looked_at > REMOVAL_MAX_ENTRIES) {
            note(r, E2BIG);
            return;
        }
        remove_entry(r, dirfd(dir), de->d_name, depth);
    }
}

static void
remove_folder(struct removal *r, int parent_fd, const char *name, int depth)
{
    DIR *dir;

    if (depth >= REMOVAL_DEPTH) {
        char up[64];

        moved_name(r, r->moved, up);
        if (renameat(parent_fd, name, r->top_fd, up) == 0)
            r->moved++;
        else
            note(r, errno);
        return;
    }
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return;
    dir = open_folder(parent_fd, name);
    if (!dir) {
        if (errno != ENOENT)
            note(r, errno);
        return;
    }
    for (int pass = 0;; pass++) {
        empty_folder(r, dir, depth + 1);
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            break;
        if (errno != ENOTEMPTY || r->first_errno || pass + 1 == REMOVAL_PASSES) {
            note(r, errno);
            break;
        }
        rewinddir(dir);
    }
    (void)closedir(dir);
}

static void
remove_entry(struct removal *r, int parent_fd, const char *name, int depth)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno == EISDIR || errno == EPERM)
        remove_folder(r, parent_fd, name, depth);
    else
        note(r, errno);
}

int
removal_run(int top_fd, int parent_fd, const char *name, const char *shown, struct err *err)
{
    struct removal r = {.top_fd = top_fd};

    beneath_make_own_name(r.prefix);
    remove_entry(&r, parent_fd, name, 0);
    for (uint64_t i = 0; i < r.moved; i++) {
        char up[64];

        moved_name(&r, i, up);
        remove_entry(&r, top_fd, up, 0);
    }
    if (r.first_errno == E2BIG)
        return err_slug(err, ERR_LIMIT, "limit_exceeded",
                        "%.200s: more than %d entries at once; run it again", shown,
                        REMOVAL_MAX_ENTRIES);
    if (r.first_errno)
        return beneath_err(err, r.first_errno, shown);
    return 0;
}

int
workspace_unlink(const struct workspace *w, const char *path, size_t n, bool recursive,
                 struct err *err)
{
    struct beneath_path p;

    if (beneath_split(path, n, &p, err) < 0)
        return -1;
    _cleanup_close_ int fd = beneath_folder(w->root_fd, p.folder, err);
    if (fd < 0)
        return -1;
    if (unlinkat(fd, p.name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return beneath_err(err, errno, p.whole);
    if (unlinkat(fd, p.name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == ENOTEMPTY && recursive)
        return removal_run(w->root_fd, fd, p.name, p.whole, err);
    if (errno == ENOTEMPTY)
        return err_slug(err, ERR_CONFLICT, "folder_not_empty",
                        "%.200s: it is a folder with something in it; ask for recursive removal",
                        p.whole);
    return beneath_err(err, errno, p.whole);
}
