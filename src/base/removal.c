/* SPDX-License-Identifier: MIT */
#include "base/removal.h"

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
#include "base/beneath.h"

/* One descriptor and one directory stream a level. */
#define REMOVAL_DEPTH 32
/* A program that makes files as fast as we remove them wins after this many passes. */
#define REMOVAL_PASSES 3
#define MOVED_NAME_SIZE 64

struct removal {
    int top_fd;
    const char *prefix; /* of the names of what was moved up */
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
moved_name(const struct removal *r, uint64_t i, char out[MOVED_NAME_SIZE])
{
    (void)snprintf(out, MOVED_NAME_SIZE, "%s-%llu", r->prefix, (unsigned long long)i);
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
        char up[MOVED_NAME_SIZE];

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
removal_run(int top_fd, int parent_fd, const char *name, const char *prefix)
{
    struct removal r = {.top_fd = top_fd, .prefix = prefix};

    remove_entry(&r, parent_fd, name, 0);
    for (uint64_t i = 0; i < r.moved; i++) {
        char up[MOVED_NAME_SIZE];

        moved_name(&r, i, up);
        remove_entry(&r, top_fd, up, 0);
    }
    errno = r.first_errno;
    return r.first_errno ? -1 : 0;
}
