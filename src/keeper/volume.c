/* SPDX-License-Identifier: MIT */
#include "keeper/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/num.h"
#include "keeper/folder.h"
#include "keeper/idmap.h"
#include "keeper/image.h"
#include "keeper/volume_private.h"

/*
 * The lock file is one space of byte offsets: 0 for the count of uids, an id for "bound" (shared:
 * by monitors) or "being removed" (exclusive), the id and LOCK_WORK for who works on it just now.
 */
#define LOCK_FILE "volumes.lock"
#define LOCK_UIDS 0
#define LOCK_WORK (INT64_C(1) << 62)
#define LOCK_WAIT_MS 10000
#define LOCK_STEP_MS 2
#define HOLD_WAIT_MS 2000

#define UIDS_FILE "next-uid"
#define UIDS_MAX 1000000000
#define IDLE_S 60

void
volume_name(uint64_t id, char ret[VOLUME_NAME_SIZE])
{
    (void)snprintf(ret, VOLUME_NAME_SIZE, "%016" PRIx64, id);
}

bool
volume_id(const char *name, const char *suffix, uint64_t *ret)
{
    char again[VOLUME_NAME_SIZE];

    if (strlen(name) < VOLUME_NAME_SIZE - 1 || strcmp(name + VOLUME_NAME_SIZE - 1, suffix) != 0)
        return false;
    *ret = strtoull(name, NULL, 16); /* of 16 digits; what follows them is no digit */
    volume_name(*ret, again);
    return strncmp(name, again, VOLUME_NAME_SIZE - 1) == 0;
}

int
volume_dir(const struct keeper_options *o, const char *sub, struct err *err)
{
    char path[VOLUME_PATH_SIZE];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", o->state_dir, sub);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && (mkdir(path, 0700) == 0 || errno == EEXIST))
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "the folder %s", path);
    return fd;
}

void
volume_names(const struct keeper_options *o, const char *sub,
             void (*fn)(void *ctx, int dir_fd, const char *name), void *ctx)
{
    int fd = volume_dir(o, sub, NULL);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *de;

    if (!dir && fd >= 0)
        (void)close(fd);
    while (dir && (de = readdir(dir)))
        if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
            fn(ctx, dirfd(dir), de->d_name);
    if (dir)
        (void)closedir(dir);
}

static int64_t
hold_offset(uint64_t id)
{
    return (int64_t)(id & (uint64_t)(LOCK_WORK - 1));
}

static int
open_locks(const struct keeper_options *o, struct err *err)
{
    char path[VOLUME_PATH_SIZE];

    (void)snprintf(path, sizeof path, "%s/" LOCK_FILE, o->state_dir);
    return lock_open(path, err);
}

/* Waits for a byte of the lock file; the lock is the descriptor. */
static int
take(const struct keeper_options *o, int64_t offset, int (*try_lock)(int fd, int64_t offset),
     int64_t wait_ms, struct err *err)
{
    struct deadline d = deadline_in(wait_ms);
    _cleanup_close_ int fd = open_locks(o, err);

    if (fd < 0)
        return -1;
    for (;;) {
        int r = try_lock(fd, offset);

        if (r > 0)
            return steal_fd(&fd);
        if (r < 0)
            return err_sys(err, ERR_INTERNAL, errno, "locking a workspace");
        if (deadline_passed(d)) {
            (void)err_set(err, ERR_CONFLICT, "the workspace is in use elsewhere");
            if (err)
                err->sys_errno = EBUSY;
            return -1;
        }
        (void)poll(NULL, 0, LOCK_STEP_MS);
    }
}

static int
take_work(const struct keeper_options *o, uint64_t id, struct err *err)
{
    if (hold_offset(id) == LOCK_UIDS)
        return err_set(err, ERR_INVALID, "no workspace has the id %" PRIu64, id);
    return take(o, hold_offset(id) | LOCK_WORK, lock_try_exclusive, LOCK_WAIT_MS, err);
}

bool
volume_held(const struct keeper_options *o, uint64_t id)
{
    _cleanup_close_ int fd = open_locks(o, NULL);

    return fd < 0 || lock_is_held(fd, hold_offset(id)) != 0;
}

static int
open_uids(const struct keeper_options *o, struct err *err)
{
    char path[VOLUME_PATH_SIZE];
    int fd;

    (void)snprintf(path, sizeof path, "%s/" UIDS_FILE, o->state_dir);
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the count of workspaces' uids");
    return fd;
}

static int64_t
read_count(int fd)
{
    char text[16];
    ssize_t n = pread(fd, text, sizeof text, 0);
    int64_t count;

    return n > 0 && num_i64(text, (size_t)n, 0, UIDS_MAX, &count) == 1 ? count : 0;
}

static int
write_count(int fd, int64_t count, struct err *err)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%" PRId64, count % UIDS_MAX);

    if (pwrite(fd, text, (size_t)n, 0) == n && ftruncate(fd, n) == 0)
        return 0;
    return err_sys(err, errno == ENOSPC ? ERR_LIMIT : ERR_INTERNAL, errno,
                   "the count of workspaces' uids");
}

/* The next uid on disk. The count need not be on disk before the uid is used: at its start the
 * keeper takes up behind the highest that it finds in use. */
static int
next_uid(const struct keeper_options *o, uid_t *ret, struct err *err)
{
    _cleanup_close_ int lock = take(o, LOCK_UIDS, lock_try_exclusive, LOCK_WAIT_MS, err);
    _cleanup_close_ int fd = -1;
    int64_t count;

    if (lock < 0 || (fd = open_uids(o, err)) < 0)
        return -1;
    count = read_count(fd);
    *ret = (uid_t)(WORKSPACE_UID_BASE + count);
    return write_count(fd, count + 1, err);
}

static void
note_uid(void *ctx, int dir_fd, const char *name)
{
    int64_t *highest = ctx;
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid >= WORKSPACE_UID_BASE &&
        st.st_uid - WORKSPACE_UID_BASE < UIDS_MAX && st.st_uid - WORKSPACE_UID_BASE >= *highest)
        *highest = (int64_t)st.st_uid - WORKSPACE_UID_BASE + 1;
}

static int
prepare_uids(const struct keeper_options *o, struct err *err)
{
    _cleanup_close_ int lock = take(o, LOCK_UIDS, lock_try_exclusive, LOCK_WAIT_MS, err);
    _cleanup_close_ int fd = -1;
    int64_t count;

    if (lock < 0 || (fd = open_uids(o, err)) < 0)
        return -1;
    count = read_count(fd);
    volume_names(o, VOLUME_IMAGES, note_uid, &count);
    volume_names(o, VOLUME_FOLDERS, note_uid, &count);
    return write_count(fd, count, err);
}

static const char *
no_images_because(const struct keeper_options *o)
{
    return o->tier == TIER_ROOTLESS
               ? "an ordinary user cannot mount images: run husk-keeper as root"
               : "a container cannot mount images: run husk-keeper on the host";
}

int
volume_prepare(struct keeper_options *o, struct err *err)
{
    struct err why = ERR_INIT;

    o->images = o->tier == TIER_HOST && image_prepare(o, &why) == 0;
    (void)snprintf(o->disk_detail, sizeof o->disk_detail, "%.199s",
                   o->images              ? ""
                   : o->tier == TIER_HOST ? why.msg
                                          : no_images_because(o));
    if (!o->images)
        log_warning("workspaces are not bounded: %s", o->disk_detail);
    if (o->images)
        return prepare_uids(o, err);
    return folder_prepare(o, err) < 0 || prepare_uids(o, err) < 0 ? -1 : 0;
}

int
volume_make(const struct keeper_options *o, uint64_t id, bool *ret_existed, struct err *err)
{
    _cleanup_close_ int lock = take_work(o, id, err);
    uid_t uid;

    if (lock < 0)
        return -1;
    *ret_existed = image_there(o, id) || folder_there(o, id);
    if (*ret_existed)
        return 0;
    if (next_uid(o, &uid, err) < 0)
        return -1;
    return o->images ? image_make(o, id, uid, err) : folder_make(o, id, uid, err);
}

/* Its root as it is on disk. */
static int
open_plain(const struct keeper_options *o, uint64_t id, struct err *err)
{
    if (!image_there(o, id))
        return folder_open(o, id, err);
    if (!o->images)
        return err_set(err, ERR_UNAVAILABLE, "the workspace is an image: %s", o->disk_detail);
    return image_root(o, id, err);
}

/* A clone in which the workspace's owner on disk is seen as another. */
static int
clone_as(const struct keeper_options *o, uint64_t id, uid_t uid, gid_t gid, uint64_t set,
         uint64_t clear, struct err *err)
{
    _cleanup_close_ int lock = take_work(o, id, err);
    _cleanup_close_ int plain = -1;
    struct idmap map = {.seen_uid = uid, .seen_gid = gid};
    struct stat st;

    if (lock < 0 || (plain = open_plain(o, id, err)) < 0)
        return -1;
    if (fstat(plain, &st) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the root of a workspace");
    if (o->tier != TIER_HOST)
        return idmap_clone(plain, set, clear, NULL, err);
    if (st.st_uid < WORKSPACE_UID_BASE || st.st_gid < WORKSPACE_UID_BASE)
        return err_set(err, ERR_INTERNAL, "the root of a workspace has another owner");
    map.disk_uid = st.st_uid;
    map.disk_gid = st.st_gid;
    return idmap_clone(plain, set, clear, &map, err);
}

int
volume_tree(const struct keeper_options *o, uint64_t id, uid_t seen_as, struct err *err)
{
    return clone_as(o, id, seen_as, (gid_t)seen_as, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                    MOUNT_ATTR_NOEXEC, err);
}

/* Nothing is mounted in the container tier: the folder itself, which an ACL opens to the workers.
 */
static int
container_root(const struct keeper_options *o, uint64_t id, struct err *err)
{
    _cleanup_close_ int lock = take_work(o, id, err);

    return lock < 0 ? -1 : open_plain(o, id, err);
}

int
volume_root(const struct keeper_options *o, uint64_t id, struct err *err)
{
    _cleanup_close_ int tree = -1;
    int fd;

    if (o->tier == TIER_CONTAINER)
        return container_root(o, id, err);
    tree = clone_as(o, id, o->worker_uid, o->worker_gid,
                    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 0, err);
    if (tree < 0)
        return -1;
    fd = openat(tree, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the root of a workspace");
    return fd;
}

int
volume_hold(const struct keeper_options *o, uint64_t id, struct err *err)
{
    if (hold_offset(id) == LOCK_UIDS)
        return err_set(err, ERR_INVALID, "no workspace has the id %" PRIu64, id);
    return take(o, hold_offset(id), lock_try_shared, HOLD_WAIT_MS, err);
}

int
volume_lend(const struct keeper_options *o, uint64_t id, const char *home, uid_t uid,
            struct err *err)
{
    _cleanup_close_ int lock = -1;

    if (o->tier != TIER_CONTAINER)
        return 0;
    lock = take_work(o, id, err);
    return lock < 0 ? -1 : folder_lend(o, id, home, uid, err);
}

void
volume_return(const struct keeper_options *o, uint64_t id)
{
    struct err err = ERR_INIT;
    _cleanup_close_ int lock = -1;

    if (o->tier != TIER_CONTAINER)
        return;
    lock = take_work(o, id, &err);
    if (lock < 0)
        log_warning("a workspace stays where its kernel had it: %s", err.msg);
    else
        folder_return(o, id);
}

int
volume_remove(const struct keeper_options *o, uint64_t id, struct err *err)
{
    _cleanup_close_ int lock = take_work(o, id, err);
    int r;

    if (lock < 0)
        return -1;
    r = lock_try_exclusive(lock, hold_offset(id));
    if (r == 0) {
        (void)err_set(err, ERR_CONFLICT, "a kernel has the workspace");
        if (err)
            err->sys_errno = EBUSY;
        return -1;
    }
    if (r < 0)
        return err_sys(err, ERR_INTERNAL, errno, "locking a workspace");
    if (image_there(o, id))
        return image_remove(o, id, err);
    return folder_there(o, id) ? folder_remove(o, id, err) : 0;
}

int64_t
volume_usage(const struct keeper_options *o, uint64_t id, struct err *err)
{
    _cleanup_close_ int lock = take_work(o, id, err);

    if (lock < 0)
        return -1;
    return image_there(o, id) ? image_usage(o, id, err) : folder_usage(o, id, err);
}

static void
unmount_idle(void *ctx, uint64_t id)
{
    const struct keeper_options *o = ctx;
    _cleanup_close_ int lock = -1;

    if (volume_held(o, id))
        return;
    lock = take(o, hold_offset(id) | LOCK_WORK, lock_try_exclusive, 0, NULL);
    if (lock >= 0)
        image_unmount(o, id);
}

int
volume_leave(const struct keeper_options *o, struct err *err)
{
    char path[VOLUME_PATH_SIZE];

    if (!o->images)
        return 0;
    (void)snprintf(path, sizeof path, "%s/" VOLUME_MOUNTS, o->state_dir);
    if (unshare(CLONE_NEWNS) < 0 || umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "leaving the keeper's mounts");
    return 0;
}

void
volume_sweep(const struct keeper_options *o)
{
    if (o->images)
        image_idle(o, IDLE_S, unmount_idle, (void *)(uintptr_t)o);
}
