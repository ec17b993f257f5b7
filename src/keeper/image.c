/* SPDX-License-Identifier: MIT */
#include "keeper/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "keeper/image_template.h"
#include "keeper/loop.h"
#include "keeper/volume_private.h"

#define SUFFIX ".img"
#define USED ".used" /* beside the mount point: its mtime is the last use */
#define NAME_SIZE (VOLUME_NAME_SIZE + 8)
/* This much of the host's disk stays free: a twentieth, at most 256 MiB. */
#define FLOOR_MAX (256 * INT64_C(1048576))
#define FLOOR_PART 20

static void
image_name(uint64_t id, const char *suffix, char ret[NAME_SIZE])
{
    char name[VOLUME_NAME_SIZE];

    volume_name(id, name);
    (void)snprintf(ret, NAME_SIZE, "%s%s", name, suffix);
}

static void
mount_point(const struct keeper_options *o, uint64_t id, const char *suffix,
            char ret[VOLUME_PATH_SIZE])
{
    char name[NAME_SIZE];

    image_name(id, suffix, name);
    (void)snprintf(ret, VOLUME_PATH_SIZE, "%s/" VOLUME_MOUNTS "/%s", o->state_dir, name);
}

bool
image_there(const struct keeper_options *o, uint64_t id)
{
    char name[NAME_SIZE];
    struct stat st;
    _cleanup_close_ int dir = volume_dir(o, VOLUME_IMAGES, NULL);

    image_name(id, SUFFIX, name);
    return dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Would the host's disk be too full with another image? */
static int
check_room(const struct keeper_options *o, int dir_fd, struct err *err)
{
    struct statvfs vfs;
    int64_t unit, avail, least, wanted = o->sparse ? 0 : image_size(o);

    if (fstatvfs(dir_fd, &vfs) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the room for images");
    unit = (int64_t)vfs.f_frsize;
    avail = (int64_t)vfs.f_bavail * unit;
    least = (int64_t)vfs.f_blocks / FLOOR_PART * unit;
    if (least > FLOOR_MAX)
        least = FLOOR_MAX;
    if (avail - wanted >= least)
        return 0;
    (void)err_set(err, ERR_LIMIT,
                  "the host's disk is too full for another workspace: %" PRId64
                  " MiB are free, %" PRId64 " are needed and %" PRId64 " stay free",
                  avail >> 20, wanted >> 20, least >> 20);
    if (err)
        err->sys_errno = ENOSPC;
    return -1;
}

int
image_make(const struct keeper_options *o, uint64_t id, uid_t owner, struct err *err)
{
    char name[NAME_SIZE], proc[40];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_IMAGES, err);
    _cleanup_close_ int fd = -1;

    if (dir < 0 || check_room(o, dir, err) < 0)
        return -1;
    /* Without a name until it is whole: whoever is killed on the way leaves nothing. */
    fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || image_fill(o, dir, fd, err) < 0)
        return fd < 0 ? err_sys(err, errno == ENOSPC ? ERR_LIMIT : ERR_INTERNAL, errno,
                                "making an image")
                      : -1;
    image_name(id, SUFFIX, name);
    (void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    if (fchown(fd, owner, owner) < 0 ||
        (linkat(AT_FDCWD, proc, dir, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST))
        return err_sys(err, errno == ENOSPC ? ERR_LIMIT : ERR_INTERNAL, errno, "naming an image");
    return 0;
}

/* Takes the image's owner over for its root, where the template's is still there. */
static int
own_root(int root_fd, int image_fd, struct err *err)
{
    struct stat root, image;

    if (fstat(root_fd, &root) < 0 || fstat(image_fd, &image) < 0 ||
        (root.st_uid == 0 && fchown(root_fd, image.st_uid, image.st_gid) < 0))
        return err_sys(err, ERR_INTERNAL, errno, "giving an image's root to its workspace");
    return 0;
}

static int
open_point(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Is something mounted where this descriptor was opened? */
static bool
is_mounted(const struct keeper_options *o, int point_fd)
{
    char path[VOLUME_PATH_SIZE];
    struct stat here, above;

    (void)snprintf(path, sizeof path, "%s/" VOLUME_MOUNTS, o->state_dir);
    return fstat(point_fd, &here) == 0 && stat(path, &above) == 0 && here.st_dev != above.st_dev;
}

static void
note_use(const struct keeper_options *o, uint64_t id)
{
    char path[VOLUME_PATH_SIZE];

    mount_point(o, id, USED, path);
    _cleanup_close_ int fd =
        open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd >= 0)
        (void)futimens(fd, NULL);
}

/* Mounts an image at `point` and returns its root. */
static int
mount_at(const struct keeper_options *o, int image_fd, const char *point, struct err *err)
{
    char dev[LOOP_PATH_SIZE];
    _cleanup_close_ int loop = loop_attach(image_fd, dev, err);
    _cleanup_close_ int root = -1;

    if (loop < 0 || image_mount_device(dev, point, err) < 0)
        return -1;
    root = open_point(point);
    if (root < 0 || !is_mounted(o, root))
        return err_sys(err, ERR_INTERNAL, errno, "opening a mounted image");
    return steal_fd(&root);
}

static int
open_image(const struct keeper_options *o, int dir_fd, uint64_t id, struct err *err)
{
    char name[NAME_SIZE];
    int fd;

    image_name(id, SUFFIX, name);
    fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, errno, "the image %s",
                       name);
    if (image_is_blank(fd) && image_fill(o, dir_fd, fd, err) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

int
image_root(const struct keeper_options *o, uint64_t id, struct err *err)
{
    char point[VOLUME_PATH_SIZE];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_IMAGES, err);
    _cleanup_close_ int image = dir < 0 ? -1 : open_image(o, dir, id, err);
    _cleanup_close_ int root = -1;

    if (image < 0)
        return -1;
    mount_point(o, id, "", point);
    if (mkdir(point, 0700) < 0 && errno != EEXIST)
        return err_sys(err, ERR_INTERNAL, errno, "a place to mount an image");
    note_use(o, id);
    root = open_point(point);
    if (root < 0)
        return err_sys(err, ERR_INTERNAL, errno, "a place to mount an image");
    if (!is_mounted(o, root)) {
        (void)close(root);
        root = mount_at(o, image, point, err);
    }
    /* Whoever mounted it may have been killed before it had come to this. */
    return root < 0 || own_root(root, image, err) < 0 ? -1 : steal_fd(&root);
}

void
image_unmount(const struct keeper_options *o, uint64_t id)
{
    char path[VOLUME_PATH_SIZE];

    mount_point(o, id, "", path);
    if (umount2(path, UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT)
        return;
    (void)rmdir(path);
    mount_point(o, id, USED, path);
    (void)unlink(path);
}

int
image_remove(const struct keeper_options *o, uint64_t id, struct err *err)
{
    char name[NAME_SIZE], point[VOLUME_PATH_SIZE];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_IMAGES, err);

    if (dir < 0)
        return -1;
    /* What a worker has open in it stays until it closes that, but without a name. */
    mount_point(o, id, "", point);
    (void)umount2(point, UMOUNT_NOFOLLOW | MNT_DETACH);
    image_unmount(o, id);
    image_name(id, SUFFIX, name);
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return err_sys(err, ERR_INTERNAL, errno, "removing the image %s", name);
    return 0;
}

int64_t
image_usage(const struct keeper_options *o, uint64_t id, struct err *err)
{
    char name[NAME_SIZE];
    struct stat st;
    _cleanup_close_ int dir = volume_dir(o, VOLUME_IMAGES, err);

    if (dir < 0)
        return -1;
    image_name(id, SUFFIX, name);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, errno, "the image %s",
                       name);
    return (int64_t)st.st_blocks * 512;
}

struct idle {
    time_t before;
    void (*fn)(void *ctx, uint64_t id);
    void *ctx;
};

static void
if_idle(void *ctx, int dir_fd, const char *name)
{
    const struct idle *i = ctx;
    struct stat st;
    uint64_t id;

    if (volume_id(name, USED, &id) && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_mtime < i->before)
        i->fn(i->ctx, id);
}

void
image_idle(const struct keeper_options *o, int64_t idle_s, void (*fn)(void *ctx, uint64_t id),
           void *ctx)
{
    struct idle i = {.before = time(NULL) - (time_t)idle_s, .fn = fn, .ctx = ctx};

    volume_names(o, VOLUME_MOUNTS, if_idle, &i);
}

static void
drop_half_made(void *ctx, int dir_fd, const char *name)
{
    (void)ctx;
    if (name[0] == VOLUME_HALF_MADE)
        (void)unlinkat(dir_fd, name, 0);
}

/* The mount points are in memory and of our namespace, so that nothing of them outlives us. */
static int
mount_points(const struct keeper_options *o, struct err *err)
{
    char path[VOLUME_PATH_SIZE];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_MOUNTS, err);

    if (dir < 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/" VOLUME_MOUNTS, o->state_dir);
    if (mount("husk", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=4m") < 0 ||
        mount(NULL, path, NULL, MS_PRIVATE, NULL) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "a tmpfs to mount images in");
    return 0;
}

/* One image from end to end. A host that is full is none without images. */
static int
probe(const struct keeper_options *o, int dir_fd, const char *point, struct err *err)
{
    struct keeper_options small = *o;
    struct err why = ERR_INIT;
    _cleanup_close_ int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    _cleanup_close_ int root = -1;

    small.sparse = true;
    if (fd < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "an unnamed file in %s", o->state_dir);
    if (mkdir(point, 0700) < 0 && errno != EEXIST)
        return err_sys(err, ERR_UNAVAILABLE, errno, "a place to mount an image");
    if (image_fill(&small, dir_fd, fd, &why) == 0)
        root = mount_at(o, fd, point, &why);
    cleanup_close(&root);
    (void)umount2(point, UMOUNT_NOFOLLOW);
    (void)rmdir(point);
    if (root >= 0 || why.sys_errno == ENOSPC) {
        root = -1;
        return 0;
    }
    if (err)
        *err = why;
    return -1;
}

int
image_prepare(const struct keeper_options *o, struct err *err)
{
    char point[VOLUME_PATH_SIZE];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_IMAGES, err);

    if (dir < 0)
        return -1;
    volume_names(o, VOLUME_IMAGES, drop_half_made, NULL);
    if (mount_points(o, err) < 0)
        return -1;
    (void)snprintf(point, sizeof point, "%s/" VOLUME_MOUNTS "/template", o->state_dir);
    return image_template(o, dir, point, err) < 0 || probe(o, dir, point, err) < 0 ? -1 : 0;
}
