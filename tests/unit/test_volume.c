/* SPDX-License-Identifier: MIT */
#include "keeper/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/cleanup.h"
#include "keeper/image.h"
#include "keeper/volume_private.h"
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

/* Everything happens in a mount namespace of this program's own. */
#define SKIPPED 77
#define MIB INT64_C(1048576)
#define WORKER 64990
#define KERNEL (KERNEL_UID_BASE + 7)
#define ID UINT64_C(0x123456789abcdef)

struct fixture {
    char dir[PATH_MAX];
    struct keeper_options o;
};

static void
options(struct keeper_options *o, const char *dir)
{
    *o = (struct keeper_options){.tier = TIER_HOST,
                                 .limits = {.disk_bytes = 16 * MIB},
                                 .worker_uid = WORKER,
                                 .worker_gid = WORKER};
    assert_true(snprintf(o->state_dir, sizeof o->state_dir, "%s", dir) < KEEPER_PATH_MAX);
}

static int
setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct err err = ERR_INIT;

    tmpdir_make(f->dir);
    options(&f->o, f->dir);
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
    const struct fixture *f = ctx;
    uint64_t id;

    (void)dir_fd;
    if (volume_id(name, "", &id))
        image_unmount(&f->o, id);
}

/* Loop devices that have a file of ours behind them. */
static int
loops(const struct fixture *f)
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
static int
loops_at_last(const struct fixture *f, int wanted)
{
    int n = loops(f);

    for (int i = 0; i < 200 && n != wanted; i++) {
        (void)usleep(10000);
        n = loops(f);
    }
    return n;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;
    char path[PATH_MAX];

    volume_names(&f->o, VOLUME_MOUNTS, unmount_one, f);
    assert_int_equal(loops_at_last(f, 0), 0);
    (void)umount2(tmpdir_path(path, f->dir, "mnt"), MNT_DETACH);
    tmpdir_remove(f->dir);
    free(f);
    return 0;
}

/* Runs fn as another user in a folder; true if it said so. */
static bool
as(uid_t uid, int dir_fd, bool (*fn)(int dir_fd))
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

static bool
write_file(int dir_fd, const char *name, const char *text, int flags)
{
    _cleanup_close_ int fd = openat(dir_fd, name, flags | O_WRONLY | O_CLOEXEC, 0666);
    size_t n = strlen(text);

    return fd >= 0 && write(fd, text, n) == (ssize_t)n;
}

static bool
read_is(int dir_fd, const char *name, const char *text)
{
    char got[64] = "";
    _cleanup_close_ int fd = beneath_open(dir_fd, name, O_RDONLY | O_NONBLOCK, LINKS_INSIDE);

    return fd >= 0 && read(fd, got, sizeof got - 1) >= 0 && strcmp(got, text) == 0;
}

static bool
kernel_works(int dir_fd)
{
    struct stat st;

    return fchdir(dir_fd) == 0 && write_file(AT_FDCWD, "of-kernel", "k", O_CREAT | O_EXCL) &&
           mkdir("d", 0755) == 0 && rename("of-kernel", "d/of-kernel") == 0 &&
           link("d/of-kernel", "of-kernel") == 0 && stat("of-kernel", &st) == 0 &&
           st.st_uid == KERNEL && chmod("of-kernel", 0644) == 0;
}

/* What a worker does: read, replace by an unnamed file, look. */
static bool
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

static bool
kernel_reads_workers(int dir_fd)
{
    return read_is(dir_fd, "of-worker", "w") && write_file(dir_fd, "of-worker", "again", O_TRUNC);
}

static void
make(struct fixture *f, uint64_t id)
{
    struct err err = ERR_INIT;
    bool existed = true;

    if (volume_make(&f->o, id, &existed, &err) < 0)
        fail_msg("volume_make: %s", err.msg);
    assert_false(existed);
}

static int
tree_of(struct fixture *f, uint64_t id, uid_t uid)
{
    struct err err = ERR_INIT;
    int fd = volume_tree(&f->o, id, uid, &err);

    if (fd < 0)
        fail_msg("volume_tree: %s", err.msg);
    return fd;
}

static int
root_of(struct fixture *f, uint64_t id)
{
    struct err err = ERR_INIT;
    int fd = volume_root(&f->o, id, &err);

    if (fd < 0)
        fail_msg("volume_root: %s", err.msg);
    return fd;
}

static void
test_kernel_and_worker_share_it(void **state)
{
    struct fixture *f = *state;
    bool existed = false;
    struct stat st;
    struct statvfs vfs;

    make(f, ID);
    assert_int_equal(volume_make(&f->o, ID, &existed, NULL), 0);
    assert_true(existed);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    _cleanup_close_ int root = root_of(f, ID);
    assert_true(as(KERNEL, tree, kernel_works));
    assert_true(as(WORKER, root, worker_works));
    assert_true(as(KERNEL, tree, kernel_reads_workers));
    /* A second workspace is another owner's on disk, and so is a third after a new start. */
    make(f, ID + 1);
    _cleanup_close_ int plain = image_root(&f->o, ID, NULL);
    _cleanup_close_ int other = image_root(&f->o, ID + 1, NULL);
    assert_int_equal(fstat(plain, &st), 0);
    assert_int_equal(st.st_uid, WORKSPACE_UID_BASE);
    assert_int_equal(fstatat(plain, "of-worker", &st, 0), 0);
    assert_int_equal(st.st_uid, WORKSPACE_UID_BASE);
    assert_int_equal(fstat(other, &st), 0);
    assert_int_equal(st.st_uid, WORKSPACE_UID_BASE + 1);
    /* What may be done through each. */
    assert_int_equal(fstatvfs(tree, &vfs), 0);
    assert_int_equal(vfs.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC), ST_NOSUID | ST_NODEV);
    assert_int_equal(fstatvfs(root, &vfs), 0);
    assert_int_equal(vfs.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC),
                     ST_NOSUID | ST_NODEV | ST_NOEXEC);
    assert_int_equal(fcntl(root, F_GETFL) & O_PATH, O_PATH);
}

static void
test_nobody_of_another_uid_gets_in(void **state)
{
    struct fixture *f = *state;

    make(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_true(as(KERNEL, tree, kernel_works));
    assert_false(as(KERNEL + 1, tree, kernel_reads_workers));
    assert_false(as(WORKER, tree, worker_works));
}

static void
test_none_of_that_id(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;

    assert_int_equal(volume_tree(&f->o, ID, KERNEL, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(volume_root(&f->o, ID, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(volume_usage(&f->o, ID, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(volume_remove(&f->o, ID, &err), 0);
    assert_int_equal(volume_make(&f->o, 0, &(bool){false}, &err), -1);
    assert_int_equal(volume_make(&f->o, UINT64_C(1) << 62, &(bool){false}, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static bool
fill(int dir_fd)
{
    static char block[1 << 16];
    _cleanup_close_ int fd = openat(dir_fd, "big", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ssize_t n;

    memset(block, 'x', sizeof block);
    if (fd < 0)
        return false;
    do
        n = write(fd, block, sizeof block);
    while (n > 0);
    return errno == ENOSPC;
}

static bool
drop_big(int dir_fd)
{
    return unlinkat(dir_fd, "big", 0) == 0 && write_file(dir_fd, "small", "s", O_CREAT);
}

static int64_t
free_bytes(int fd)
{
    struct statvfs vfs;

    assert_int_equal(fstatvfs(fd, &vfs), 0);
    return (int64_t)vfs.f_bavail * (int64_t)vfs.f_frsize;
}

static void
test_size_is_a_bound(void **state)
{
    struct fixture *f = *state;

    make(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_in_range(free_bytes(tree), 8 * MIB, 16 * MIB);
    assert_true(as(KERNEL, tree, fill));
    assert_in_range(free_bytes(tree), 0, 65535);
    assert_true(as(KERNEL, tree, drop_big));
    assert_in_range(free_bytes(tree), 8 * MIB, 16 * MIB);
    /* It takes its whole size on the host from the first. */
    assert_in_range(volume_usage(&f->o, ID, NULL), 16 * MIB, 17 * MIB);
}

static void
test_sparse_takes_little(void **state)
{
    struct fixture *f = *state;

    f->o.sparse = true;
    make(f, ID);
    assert_in_range(volume_usage(&f->o, ID, NULL), 1, MIB);
}

static bool
write_marker(int dir_fd)
{
    _cleanup_close_ int fd = openat(dir_fd, "marker", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd >= 0 && write(fd, "kept", 4) == 4 && fsync(fd) == 0;
}

static bool
has_marker(int dir_fd)
{
    return read_is(dir_fd, "marker", "kept");
}

/* A keeper that ends while a sandbox has the workspace: the next one finds the device. */
static void
test_never_on_two_devices(void **state)
{
    struct fixture *f = *state;

    make(f, ID);
    int tree = tree_of(f, ID, KERNEL);
    assert_true(as(KERNEL, tree, write_marker));
    image_unmount(&f->o, ID);
    assert_int_equal(loops(f), 1);
    {
        _cleanup_close_ int root = root_of(f, ID);
        assert_int_equal(loops(f), 1);
        assert_true(as(WORKER, root, has_marker));
    }
    (void)close(tree);
    image_unmount(&f->o, ID);
    assert_int_equal(loops_at_last(f, 0), 0);
    _cleanup_close_ int root = root_of(f, ID);
    assert_true(as(WORKER, root, has_marker));
}

static void
test_sweep_unmounts_the_idle(void **state)
{
    struct fixture *f = *state;
    char used[PATH_MAX + 64];
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

    make(f, ID);
    (void)close(root_of(f, ID));
    volume_sweep(&f->o);
    assert_int_equal(loops(f), 1);
    (void)snprintf(used, sizeof used, "%s/mnt/%016" PRIx64 ".used", f->dir, ID);
    assert_int_equal(utimensat(AT_FDCWD, used, old, 0), 0);
    int hold = volume_hold(&f->o, ID, NULL);
    assert_true(hold >= 0);
    volume_sweep(&f->o);
    assert_int_equal(loops(f), 1);
    (void)close(hold);
    volume_sweep(&f->o);
    assert_int_equal(loops_at_last(f, 0), 0);
    assert_int_equal(access(used, F_OK), -1);
}

static void
test_removed_without_a_trace(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    char path[PATH_MAX + 64];

    make(f, ID);
    int root = root_of(f, ID);
    int hold = volume_hold(&f->o, ID, NULL);
    assert_int_equal(volume_remove(&f->o, ID, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(err.sys_errno, EBUSY);
    (void)close(hold);
    /* What a worker still has open does not hinder it. */
    assert_int_equal(volume_remove(&f->o, ID, &err), 0);
    (void)snprintf(path, sizeof path, "%s/images/%016" PRIx64 ".img", f->dir, ID);
    assert_int_equal(access(path, F_OK), -1);
    (void)close(root);
    assert_int_equal(loops_at_last(f, 0), 0);
    assert_int_equal(volume_root(&f->o, ID, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void
copy_image(const struct fixture *f, uint64_t from, uint64_t to)
{
    char path[PATH_MAX + 64];
    off_t size;
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/images/%016" PRIx64 ".img", f->dir, from);
    _cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof path, "%s/images/%016" PRIx64 ".img", f->dir, to);
    _cleanup_close_ int out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(fstat(in, &st), 0);
    for (size = st.st_size; size > 0;) {
        ssize_t n = copy_file_range(in, NULL, out, NULL, (size_t)size, 0);

        assert_true(n > 0);
        size -= n;
    }
    assert_int_equal(fchown(out, st.st_uid, st.st_gid), 0);
}

/* A copy of an image that is in use is what a power cut leaves. */
static void
test_power_cut(void **state)
{
    struct fixture *f = *state;

    make(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_true(as(KERNEL, tree, write_marker));
    copy_image(f, ID, ID + 1);
    _cleanup_close_ int root = root_of(f, ID + 1);
    assert_true(as(WORKER, root, has_marker));
}

/* The name was on disk before the content. */
static void
test_blank_image_is_made_anew(void **state)
{
    struct fixture *f = *state;
    char path[PATH_MAX + 64];

    make(f, ID);
    (void)snprintf(path, sizeof path, "%s/images/%016" PRIx64 ".img", f->dir, ID);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, 16 * MIB), 0);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_true(as(KERNEL, tree, kernel_works));
}

static void
count_name(void *ctx, int dir_fd, const char *name)
{
    int *n = ctx;

    (void)dir_fd;
    *n += strncmp(name, "template-", 9) != 0;
}

static void
test_full_host(void **state)
{
    struct fixture *f = *state;
    struct keeper_options o = f->o;
    struct err err = ERR_INIT;
    char dir[PATH_MAX], mnt[PATH_MAX];
    bool existed;
    int n = 0;

    tmpdir_make(dir);
    assert_int_equal(mount("husk", dir, "tmpfs", 0, "size=40m"), 0);
    options(&o, dir);
    assert_int_equal(volume_prepare(&o, &err), 0);
    assert_true(o.images);
    for (uint64_t id = 1; id < 10 && err.code == ERR_NONE; id++)
        (void)volume_make(&o, id, &existed, &err);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(err.sys_errno, ENOSPC);
    volume_names(&o, VOLUME_IMAGES, count_name, &n);
    assert_int_equal(n, 2);
    /* Those that are there go on. */
    _cleanup_close_ int tree = volume_tree(&o, 1, KERNEL, NULL);
    assert_true(tree >= 0 && as(KERNEL, tree, fill));
    cleanup_close(&tree);
    tree = -1;
    assert_int_equal(volume_remove(&o, 1, &err), 0);
    err = (struct err)ERR_INIT;
    assert_int_equal(volume_make(&o, 3, &existed, &err), 0);
    assert_int_equal(volume_remove(&o, 2, &err), 0);
    assert_int_equal(volume_remove(&o, 3, &err), 0);
    (void)umount2(tmpdir_path(mnt, dir, "mnt"), MNT_DETACH);
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Whoever makes and mounts is killed at any moment: what stands is whole or not there. */
static void
test_killed_at_any_line(void **state)
{
    struct fixture *f = *state;
    int n = 0;

    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        bool existed;

        if (pid == 0) {
            (void)volume_make(&f->o, ID + (uint64_t)i, &existed, NULL);
            (void)volume_root(&f->o, ID + (uint64_t)i, NULL);
            (void)volume_remove(&f->o, ID + (uint64_t)i / 2, NULL);
            (void)pause();
            _exit(0);
        }
        (void)usleep((useconds_t)(i * 251));
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    for (uint64_t id = ID; id < ID + 40; id++) {
        struct err err = ERR_INIT;
        bool existed = false;

        assert_int_equal(volume_make(&f->o, id, &existed, &err), 0);
        (void)close(root_of(f, id));
    }
    for (uint64_t id = ID; id < ID + 40; id++)
        assert_int_equal(volume_remove(&f->o, id, NULL), 0);
    volume_names(&f->o, VOLUME_IMAGES, count_name, &n);
    assert_int_equal(n, 0);
    assert_int_equal(loops_at_last(f, 0), 0);
}

/* Several at once want the same workspace: one image, one device. */
static void
test_many_at_once(void **state)
{
    struct fixture *f = *state;
    pid_t pids[8];

    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            bool existed;
            int fd = volume_make(&f->o, ID, &existed, NULL) < 0 ? -1 : volume_root(&f->o, ID, NULL);

            _exit(fd >= 0 ? 0 : 1);
        }
    }
    for (int i = 0; i < 8; i++) {
        int status = 1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(loops(f), 1);
}

static void
test_uids_go_on_after_a_lost_count(void **state)
{
    struct fixture *f = *state;
    char path[PATH_MAX], mnt[PATH_MAX];
    struct stat st;

    make(f, ID);
    make(f, ID + 1);
    assert_int_equal(truncate(tmpdir_path(path, f->dir, "next-uid"), 0), 0);
    (void)umount2(tmpdir_path(mnt, f->dir, "mnt"), MNT_DETACH);
    assert_int_equal(volume_prepare(&f->o, NULL), 0);
    make(f, ID + 2);
    _cleanup_close_ int root = image_root(&f->o, ID + 2, NULL);
    assert_int_equal(fstat(root, &st), 0);
    assert_int_equal(st.st_uid, WORKSPACE_UID_BASE + 2);
}

static void
test_leaving_lets_go(void **state)
{
    struct fixture *f = *state;
    int ready[2], go[2];
    char c;
    pid_t pid;

    make(f, ID);
    (void)close(root_of(f, ID));
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(go[1]);
        if (volume_leave(&f->o, NULL) < 0 || write(ready[1], "r", 1) != 1)
            _exit(1);
        _exit(read(go[0], &c, 1) == 0 ? 0 : 1);
    }
    (void)close(go[0]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    image_unmount(&f->o, ID);
    assert_int_equal(loops_at_last(f, 0), 0); /* though the monitor lives */
    (void)close(go[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

/* A host without loop devices. */
static void
test_folder_on_the_host(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;

    f->o.images = false;
    make(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    _cleanup_close_ int root = root_of(f, ID);
    assert_true(as(KERNEL, tree, kernel_works));
    assert_true(as(WORKER, root, worker_works));
    assert_true(as(KERNEL, tree, kernel_reads_workers));
    assert_true(volume_usage(&f->o, ID, NULL) > 0);
    assert_int_equal(volume_remove(&f->o, ID, &err), 0);
    assert_int_equal(volume_root(&f->o, ID, &err), -1);
}

static bool
lock_up(int dir_fd)
{
    return fchdir(dir_fd) == 0 && mkdir("locked", 0700) == 0 &&
           write_file(AT_FDCWD, "locked/f", "x", O_CREAT) && chmod("locked", 0) == 0;
}

static void
test_lent_folder(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    char home[PATH_MAX], workspace[PATH_MAX];
    struct stat st;

    f->o.tier = TIER_CONTAINER;
    f->o.images = false;
    assert_int_equal(volume_prepare(&f->o, &err), 0);
    make(f, ID);
    {
        _cleanup_close_ int root = root_of(f, ID); /* before any kernel has it */
        assert_true(as(WORKER, root, write_marker));
    }
    (void)tmpdir_path(home, f->dir, "home");
    (void)tmpdir_path(workspace, home, "workspace");
    for (uid_t uid = KERNEL; uid < KERNEL + 2; uid++) {
        assert_int_equal(mkdir(home, 0700), 0);
        assert_int_equal(chown(home, uid, uid), 0);
        assert_int_equal(mkdir(workspace, 0700), 0);
        if (volume_lend(&f->o, ID, home, uid, &err) < 0)
            fail_msg("volume_lend: %s", err.msg);
        _cleanup_close_ int root = root_of(f, ID);
        assert_int_equal(fstat(root, &st), 0);
        assert_int_equal(st.st_uid, uid);
        if (uid == KERNEL) {
            assert_true(as(uid, root, kernel_works));
            assert_false(as(uid + 1, root, has_marker));
            assert_true(as(uid, root, lock_up));
        }
        assert_true(as(uid, root, has_marker));
        volume_return(&f->o, ID);
        assert_int_equal(rmdir(home), 0);
        assert_int_equal(access(workspace, F_OK), -1);
    }
    assert_int_equal(volume_remove(&f->o, ID, &err), 0);
}

/* The session has put something else where its workspace was. */
static void
test_swapped_folder_is_not_followed(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    char home[PATH_MAX], workspace[PATH_MAX], aside[PATH_MAX];

    f->o.tier = TIER_CONTAINER;
    f->o.images = false;
    make(f, ID);
    (void)tmpdir_path(workspace, tmpdir_path(home, f->dir, "home"), "workspace");
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(mkdir(workspace, 0700), 0);
    assert_int_equal(volume_lend(&f->o, ID, home, KERNEL, &err), 0);
    assert_int_equal(rename(workspace, tmpdir_path(aside, home, "aside")), 0);
    assert_int_equal(symlink("/etc", workspace), 0);
    assert_int_equal(volume_root(&f->o, ID, &err), -1);
    volume_return(&f->o, ID);
    assert_int_equal(volume_root(&f->o, ID, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(volume_remove(&f->o, ID, &err), 0);
}

/* The monitor was killed: the next keeper brings the folder back. */
static void
test_loan_of_the_dead_is_brought_back(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    char home[PATH_MAX], workspace[PATH_MAX];
    int hold;

    f->o.tier = TIER_CONTAINER;
    f->o.images = false;
    make(f, ID);
    (void)tmpdir_path(workspace, tmpdir_path(home, f->dir, "home"), "workspace");
    assert_int_equal(mkdir(home, 0700), 0);
    assert_int_equal(mkdir(workspace, 0700), 0);
    hold = volume_hold(&f->o, ID, &err);
    assert_int_equal(volume_lend(&f->o, ID, home, KERNEL, &err), 0);
    assert_int_equal(volume_prepare(&f->o, &err), 0);
    assert_int_equal(access(workspace, F_OK), 0);
    (void)close(hold);
    assert_int_equal(volume_prepare(&f->o, &err), 0);
    assert_int_equal(access(workspace, F_OK), -1);
    _cleanup_close_ int root = root_of(f, ID);
    assert_true(as(KERNEL, root, write_marker));
}

#define ONE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(test_kernel_and_worker_share_it),
        ONE(test_nobody_of_another_uid_gets_in),
        ONE(test_none_of_that_id),
        ONE(test_size_is_a_bound),
        ONE(test_sparse_takes_little),
        ONE(test_never_on_two_devices),
        ONE(test_sweep_unmounts_the_idle),
        ONE(test_removed_without_a_trace),
        ONE(test_power_cut),
        ONE(test_blank_image_is_made_anew),
        ONE(test_full_host),
        ONE(test_killed_at_any_line),
        ONE(test_many_at_once),
        ONE(test_uids_go_on_after_a_lost_count),
        ONE(test_leaving_lets_go),
        ONE(test_folder_on_the_host),
        ONE(test_lent_folder),
        ONE(test_swapped_folder_is_not_followed),
        ONE(test_loan_of_the_dead_is_brought_back),
    };

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
    return cmocka_run_group_tests(tests, NULL, NULL);
}
