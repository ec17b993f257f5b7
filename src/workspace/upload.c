/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "workspace/beneath.h"
#include "workspace/folder.h"

#define UPLOAD_MODE 0660
/* How long a conditional replacement waits for another one in the same folder. */
#define COMMIT_LOCK_MS 2000
#define COMMIT_LOCK_STEP_MS 5

struct upload {
    int root_fd; /* our own, to take folders back */
    int dir_fd;  /* O_PATH of the target's folder */
    int fd;
    struct beneath_path path;
    size_t made_from;
    char tmp[WORKSPACE_OWN_NAME_SIZE]; /* "" while the file has no name */
};

static void
upload_free(struct upload *u)
{
    if (!u)
        return;
    if (u->tmp[0])
        (void)unlinkat(u->dir_fd, u->tmp, 0);
    if (u->fd >= 0)
        (void)close(u->fd);
    if (u->dir_fd >= 0)
        (void)close(u->dir_fd);
    if (u->root_fd >= 0)
        (void)close(u->root_fd);
    free(u);
}

void
upload_abort(struct upload *u)
{
    if (!u)
        return;
    if (u->tmp[0]) { /* or its folder would not be empty */
        (void)unlinkat(u->dir_fd, u->tmp, 0);
        u->tmp[0] = '\0';
    }
    if (u->root_fd >= 0)
        folder_unmake(u->root_fd, u->path.folder, u->made_from);
    upload_free(u);
}

static void
upload_abortp(struct upload **u)
{
    upload_abort(*u);
}

/* What making something in the target's folder says once the folder is removed differs by file
 * system (ENOENT, EPERM): its link count tells. */
static int
target_err(const struct upload *u, int sys_errno, struct err *err)
{
    struct stat st;

    if (fstat(u->dir_fd, &st) < 0 || st.st_nlink > 0)
        return beneath_err(err, sys_errno, u->path.whole);
    if (!u->path.folder[0])
        return err_slug(err, ERR_NOT_FOUND, "workspace_gone", "the session's files are gone");
    return err_slug(err, ERR_CONFLICT, "file_busy",
                    "%.200s: its folder was removed during the upload", u->path.whole);
}

/* An unnamed file, or where the file system has none a hidden one. */
static int
open_unnamed(struct upload *u, struct err *err)
{
    u->fd = openat(u->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, UPLOAD_MODE);
    if (u->fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return target_err(u, errno, err);

    char name[WORKSPACE_OWN_NAME_SIZE];
    beneath_make_own_name(name);
    u->fd =
        openat(u->dir_fd, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, UPLOAD_MODE);
    if (u->fd < 0)
        return target_err(u, errno, err);
    memcpy(u->tmp, name, sizeof(name));
    return 0;
}

int
upload_begin(const struct workspace *w, const char *path, size_t n, struct upload **ret,
             struct err *err)
{
    _cleanup_(upload_abortp) struct upload *u = xcalloc(1, sizeof(*u));
    struct stat st;

    u->root_fd = u->dir_fd = u->fd = -1;
    if (beneath_split(path, n, &u->path, err) < 0)
        return -1;
    u->made_from = strlen(u->path.folder) + 1;
    u->root_fd = beneath_folder(w->root_fd, "", err);
    if (u->root_fd < 0)
        return -1;
    u->dir_fd = folder_open_making(u->root_fd, u->path.folder, &u->made_from, err);
    if (u->dir_fd < 0)
        return -1;
    if (fstatat(u->dir_fd, u->path.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return err_slug(err, ERR_CONFLICT, "not_a_folder", "%.200s: there is a folder of that name",
                        u->path.whole);
    if (open_unnamed(u, err) < 0)
        return -1;
    *ret = steal_ptr(u);
    return 0;
}

int
upload_write(struct upload *u, const void *p, size_t n, struct err *err)
{
    if (fd_write_all(u->fd, p, n) < 0)
        return beneath_err(err, errno, u->path.whole);
    return 0;
}

/* Gives the file a hidden name beside its target, so that it can be renamed over it. */
static int
give_name(struct upload *u, struct err *err)
{
    char proc[40];
    char name[WORKSPACE_OWN_NAME_SIZE];

    if (u->tmp[0])
        return 0;
    beneath_make_own_name(name);
    (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", u->fd);
    if (linkat(AT_FDCWD, proc, u->dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
        return target_err(u, errno, err);
    memcpy(u->tmp, name, sizeof(name));
    return 0;
}

/* Two conditional replacements of one file must not both pass their check: they take turns by a
 * lock on the folder. Code in the session may hold that lock too, so the wait has an end. */
static int
lock_folder(const struct upload *u, struct err *err)
{
    struct deadline d = deadline_in(COMMIT_LOCK_MS);
    const struct timespec step = {0, COMMIT_LOCK_STEP_MS * 1000000L};
    _cleanup_close_ int fd =
        openat(u->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return beneath_err(err, errno, u->path.whole);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return beneath_err(err, errno, u->path.whole);
        if (deadline_passed(d))
            return err_slug(err, ERR_CONFLICT, "file_busy", "%.200s: its folder stays locked",
                            u->path.whole);
        (void)nanosleep(&step, NULL);
    }
    return steal_fd(&fd);
}

static bool
same_state(const struct stat *st, const struct file_info *expected)
{
    struct file_info now;

    beneath_info(st, &now);
    return now.type == expected->type && now.inode == expected->inode &&
           now.size == expected->size && now.mtime_ns == expected->mtime_ns &&
           now.ctime_ns == expected->ctime_ns;
}

static int
replace(struct upload *u, const struct file_info *expected, bool *ret_created, struct err *err)
{
    struct stat st;
    bool exists;
    _cleanup_close_ int lock_fd = -1;

    if (expected) {
        lock_fd = lock_folder(u, err);
        if (lock_fd < 0)
            return -1;
    }
    if (give_name(u, err) < 0)
        return -1;
    exists = fstatat(u->dir_fd, u->path.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (expected && (!exists || !same_state(&st, expected)))
        return err_slug(err, ERR_CONFLICT, "precondition_failed",
                        "%.200s: it has changed since it was looked at", u->path.whole);
    if (renameat(u->dir_fd, u->tmp, u->dir_fd, u->path.name) < 0)
        return beneath_err(err, errno, u->path.whole);
    u->tmp[0] = '\0';
    *ret_created = !exists;
    return 0;
}

/* A hard link to the final name fails where the name is taken: no window between test and use. */
static int
create(struct upload *u, struct err *err)
{
    if (give_name(u, err) < 0)
        return -1;
    if (linkat(u->dir_fd, u->tmp, u->dir_fd, u->path.name, 0) < 0)
        return beneath_err(err, errno, u->path.whole);
    return 0;
}

int
upload_commit(struct upload *u_taken, enum upload_mode mode, const struct file_info *expected,
              bool *ret_created, struct file_info *ret, struct err *err)
{
    _cleanup_(upload_abortp) struct upload *u = u_taken;
    bool created = true;
    struct stat st;

    if (fchmod(u->fd, UPLOAD_MODE) < 0)
        return beneath_err(err, errno, u->path.whole);
    if (mode == UPLOAD_CREATE ? create(u, err) : replace(u, expected, &created, err))
        return -1;
    u->made_from = strlen(u->path.folder) + 1; /* the folders stay now */
    if (u->tmp[0]) {                           /* before the stat: it moves the ctime */
        (void)unlinkat(u->dir_fd, u->tmp, 0);
        u->tmp[0] = '\0';
    }
    if (fstat(u->fd, &st) < 0)
        return beneath_err(err, errno, u->path.whole);
    if (ret)
        beneath_info(&st, ret);
    if (ret_created)
        *ret_created = created;
    return 0;
}
