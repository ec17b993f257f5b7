/* SPDX-License-Identifier: MIT */
#include "keeper/image_template.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "keeper/loop.h"
#include "keeper/volume_private.h"

#define BLOCK 4096
/* The kind of file system, in the template's name: another one gets another name. */
#define KIND "1"
#define TEMPLATE "template-" KIND "-%" PRId64
#define TEMPLATE_NAME_SIZE 48
#define HALF_MADE ".template"
#define MKFS_SECONDS 60
/* In smaller images a journal would leave little room. */
#define JOURNAL_FROM (16 * INT64_C(1048576))

static const char *const mkfs_paths[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"};

int64_t
image_size(const struct keeper_options *o)
{
    return o->limits.disk_bytes / BLOCK * BLOCK;
}

static void
template_name(const struct keeper_options *o, char ret[TEMPLATE_NAME_SIZE])
{
    (void)snprintf(ret, TEMPLATE_NAME_SIZE, TEMPLATE, image_size(o));
}

/* Never returns. The program sees nothing of ours but the file, as its standard input. */
__attribute__((noreturn)) static void
exec_mkfs(int fd, bool journal)
{
    const char *const argv[] = {"mkfs.ext4",
                                "-q",
                                "-F",
                                "-m",
                                "0",
                                "-b",
                                "4096",
                                "-O",
                                journal ? "^resize_inode" : "^resize_inode,^has_journal",
                                "-J",
                                "size=4",
                                "-E",
                                "lazy_itable_init=1,nodiscard,root_owner=0:0",
                                "/proc/self/fd/0",
                                NULL};
    static const char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)alarm(MKFS_SECONDS);
    if (dup2(fd, 0) == 0 && null >= 0 && dup2(null, 1) == 1)
        for (size_t i = 0; i < sizeof mkfs_paths / sizeof *mkfs_paths; i++)
            (void)execve(mkfs_paths[i], (char *const *)(uintptr_t)argv,
                         (char *const *)(uintptr_t)envp);
    _exit(127);
}

static int
run_mkfs(int fd, bool journal, struct err *err)
{
    int status = 0;
    pid_t pid = fork(), got;

    if (pid == 0)
        exec_mkfs(fd, journal);
    if (pid < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "running mkfs.ext4");
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(err, ERR_UNAVAILABLE, "mkfs.ext4 is missing (package e2fsprogs)");
    return err_set(err, ERR_UNAVAILABLE, "mkfs.ext4 failed");
}

int
image_mount_device(const char *dev, const char *point, struct err *err)
{
    /* The inode tables are zeroes already: no thread needs to write them. */
    if (mount(dev, point, "ext4", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME,
              "errors=remount-ro,noinit_itable") < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "mounting an ext4 image from %s", dev);
    return 0;
}

/* A moment in which the template is a mounted file system like any image. */
static int
furnish(int fd, const char *point, struct err *err)
{
    char dev[LOOP_PATH_SIZE];
    _cleanup_close_ int loop = loop_attach(fd, dev, err);
    int rc = 0;

    if (loop < 0)
        return -1;
    if (mkdir(point, 0700) < 0 && errno != EEXIST)
        return err_sys(err, ERR_INTERNAL, errno, "a place to mount the template");
    if (image_mount_device(dev, point, err) < 0)
        return -1;
    _cleanup_close_ int root = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || unlinkat(root, "lost+found", AT_REMOVEDIR) < 0 || fchmod(root, 0700) < 0)
        rc = err_sys(err, ERR_INTERNAL, errno, "furnishing the template");
    cleanup_close(&root);
    root = -1;
    if (umount2(point, UMOUNT_NOFOLLOW) < 0 && rc == 0)
        rc = err_sys(err, ERR_INTERNAL, errno, "unmounting the template");
    (void)rmdir(point);
    return rc;
}

static bool
all_zero(const char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Calls fn for each block of a file's data that is not all zeroes (or is). 0, or -1 errno. */
static int
each_block(int fd, bool zero, int (*fn)(int to, const char *block, off_t at), int to)
{
    char block[BLOCK];
    off_t at = 0;

    while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(fd, at, SEEK_HOLE);

        if (end < 0)
            return -1;
        for (at = at / BLOCK * BLOCK; at < end; at += BLOCK)
            if (fd_pread_all(fd, block, sizeof block, at) < 0 ||
                (all_zero(block, sizeof block) == zero && fn(to, block, at) < 0))
                return -1;
    }
    return errno == ENXIO ? 0 : -1;
}

static int
punch(int fd, const char *block, off_t at)
{
    (void)block;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, BLOCK) == 0 ||
        errno == EOPNOTSUPP)
        return 0;
    return -1;
}

static int
copy(int fd, const char *block, off_t at)
{
    ssize_t n = pwrite(fd, block, BLOCK, at);

    if (n >= 0 && n != BLOCK)
        errno = ENOSPC;
    return n == BLOCK ? 0 : -1;
}

static void
drop_other(void *ctx, int dir_fd, const char *name)
{
    if (strncmp(name, "template-", strlen("template-")) == 0 && strcmp(name, ctx) != 0)
        (void)unlinkat(dir_fd, name, 0);
}

int
image_template(const struct keeper_options *o, int dir_fd, const char *point, struct err *err)
{
    char name[TEMPLATE_NAME_SIZE];
    _cleanup_close_ int fd = -1;

    template_name(o, name);
    volume_names(o, VOLUME_IMAGES, drop_other, name);
    fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return 0;
    fd = openat(dir_fd, HALF_MADE, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, image_size(o)) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "making the template of images");
    if (run_mkfs(fd, image_size(o) >= JOURNAL_FROM, err) < 0 || furnish(fd, point, err) < 0)
        return -1;
    if (each_block(fd, true, punch, fd) < 0 || fsync(fd) < 0 ||
        renameat(dir_fd, HALF_MADE, dir_fd, name) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "making the template of images");
    return 0;
}

int
image_fill(const struct keeper_options *o, int dir_fd, int fd, struct err *err)
{
    char name[TEMPLATE_NAME_SIZE];
    _cleanup_close_ int from = -1;
    int r;

    template_name(o, name);
    from = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the template of images");
    r = o->sparse ? ftruncate(fd, image_size(o)) : fallocate(fd, 0, 0, image_size(o));
    if (r == 0)
        r = each_block(from, false, copy, fd);
    if (r < 0)
        return err_sys(err, errno == ENOSPC ? ERR_LIMIT : ERR_INTERNAL, errno,
                       "an image for a workspace");
    return 0;
}

bool
image_is_blank(int fd)
{
    char block[BLOCK];

    return fd_pread_all(fd, block, sizeof block, 0) == 0 && all_zero(block, sizeof block);
}
