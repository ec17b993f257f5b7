/* SPDX-License-Identifier: MIT */
#include "volume_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/cleanup.h"
#include "keeper/image.h"
#include "keeper/volume.h"
#include "keeper/volume_private.h"
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

#define SKIPPED 77

void
volume_options(struct keeper_options *o, const char *dir)
{
    *o = (struct keeper_options){.tier = TIER_HOST,
                                 .limits = {.disk_bytes = 16 * MIB},
                                 .worker_uid = WORKER,
                                 .worker_gid = WORKER};
    assert_true(snprintf(o->state_dir, sizeof o->state_dir, "%s", dir) < KEEPER_PATH_MAX);
}

int
volume_set_up(void **state)
{
    struct volume_fixture *f = xcalloc(1, sizeof *f);
    struct err err = ERR_INIT;

    tmpdir_make(f->dir);
    volume_options(&f->o, f->dir);
    if (volume_prepare(&f->o, &err) < 0 || !f->o.images) {
        (void)fprintf(stderr, "volume_prepare: %s %s\n", err.msg, f->o.disk_detail);
        return -1;
    }
    *state = f;
    return 0;
}

static void
unmount_one(void *ctx, int dir_fd, const char *name)
{
    const struct volume_fixture *f = ctx;
    uint64_t id;

    (void)dir_fd;
    if (volume_id(name, "", &id))
        image_unmount(&f->o, id);
}

/* Loop devices that have a file of ours behind them. */
int
loops(const struct volume_fixture *f)
{
    DIR *dir = opendir("/sys/block");
    struct dirent *de;
    int n = 0;

    assert_non_null(dir);
    while ((de = readdir(dir))) {
        char path[300], text[PATH_MAX] = "";

        (void)snprintf(path, sizeof path, "/sys/block/%.40s/loop/backing_file", de->d_name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strstr(text, f->dir))
            n++;
    }
    (void)closedir(dir);
    return n;
}

/* A device is let go of a moment after its last user. */
int
loops_at_last(const struct volume_fixture *f, int wanted)
{
    int n = loops(f);

    for (int i = 0; i < 200 && n != wanted; i++) {
        (void)usleep(10000);
        n = loops(f);
    }
    return n;
}

int
volume_tear_down(void **state)
{
    struct volume_fixture *f = *state;
    char path[PATH_MAX];

    volume_names(&f->o, VOLUME_MOUNTS, unmount_one, f);
    assert_int_equal(loops_at_last(f, 0), 0);
    (void)umount2(tmpdir_path(path, f->dir, "mnt"), MNT_DETACH);
    tmpdir_remove(f->dir);
    free(f);
    return 0;
}

/* Runs fn as another user in a folder; true if it said so. */
bool
as_user(uid_t uid, int dir_fd, bool (*fn)(int dir_fd))
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
            _exit(2);
        (void)umask(022);
        _exit(fn(dir_fd) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool
write_file(int dir_fd, const char *name, const char *text, int flags)
{
    _cleanup_close_ int fd = openat(dir_fd, name, flags | O_WRONLY | O_CLOEXEC, 0666);
    size_t n = strlen(text);

    return fd >= 0 && write(fd, text, n) == (ssize_t)n;
}

bool
read_is(int dir_fd, const char *name, const char *text)
{
    char got[64] = "";
    _cleanup_close_ int fd = beneath_open(dir_fd, name, O_RDONLY | O_NONBLOCK, LINKS_INSIDE);

    return fd >= 0 && read(fd, got, sizeof got - 1) >= 0 && strcmp(got, text) == 0;
}

bool
kernel_works(int dir_fd)
{
    struct stat st;

    return fchdir(dir_fd) == 0 && write_file(AT_FDCWD, "of-kernel", "k", O_CREAT | O_EXCL) &&
           mkdir("d", 0755) == 0 && rename("of-kernel", "d/of-kernel") == 0 &&
           link("d/of-kernel", "of-kernel") == 0 && stat("of-kernel", &st) == 0 &&
           st.st_uid == KERNEL && chmod("of-kernel", 0644) == 0;
}

/* What a worker does: read, replace by an unnamed file, look. */
bool
worker_works(int dir_fd)
{
    struct stat st;
    char proc[40];
    _cleanup_close_ int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0660);

    (void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    return fd >= 0 && write(fd, "w", 1) == 1 &&
           linkat(AT_FDCWD, proc, dir_fd, "of-worker", AT_SYMLINK_FOLLOW) == 0 &&
           fstatat(dir_fd, "of-worker", &st, 0) == 0 && st.st_uid == WORKER &&
           read_is(dir_fd, "d/of-kernel", "k") &&
           beneath_open(dir_fd, "..", O_PATH, LINKS_INSIDE) < 0;
}

bool
kernel_reads_workers(int dir_fd)
{
    return read_is(dir_fd, "of-worker", "w") && write_file(dir_fd, "of-worker", "again", O_TRUNC);
}

void
make_volume(struct volume_fixture *f, uint64_t id)
{
    struct err err = ERR_INIT;
    bool existed = true;

    if (volume_make(&f->o, id, &existed, &err) < 0)
        fail_msg("volume_make: %s", err.msg);
    assert_false(existed);
}

int
tree_of(struct volume_fixture *f, uint64_t id, uid_t uid)
{
    struct err err = ERR_INIT;
    int fd = volume_tree(&f->o, id, uid, &err);

    if (fd < 0)
        fail_msg("volume_tree: %s", err.msg);
    return fd;
}

int
root_of(struct volume_fixture *f, uint64_t id)
{
    struct err err = ERR_INIT;
    int fd = volume_root(&f->o, id, &err);

    if (fd < 0)
        fail_msg("volume_root: %s", err.msg);
    return fd;
}

bool
write_marker(int dir_fd)
{
    _cleanup_close_ int fd = openat(dir_fd, "marker", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd >= 0 && write(fd, "kept", 4) == 4 && fsync(fd) == 0;
}

bool
has_marker(int dir_fd)
{
    return read_is(dir_fd, "marker", "kept");
}

void
count_name(void *ctx, int dir_fd, const char *name)
{
    int *n = ctx;

    (void)dir_fd;
    *n += strncmp(name, "template-", 9) != 0;
}

int
volume_namespace(void)
{
    if (geteuid() != 0) {
        (void)fprintf(stderr, "skipped: mounting needs root\n");
        return SKIPPED;
    }
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        (void)fprintf(stderr, "skipped: no mount namespace of its own: %s\n", strerror(errno));
        return SKIPPED;
    }
    if (access("/dev/loop-control", F_OK) < 0) {
        (void)fprintf(stderr, "skipped: this machine has no loop devices\n");
        return SKIPPED;
    }
    return 0;
}
