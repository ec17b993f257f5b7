/* SPDX-License-Identifier: MIT */
/* Workspaces of a keeper: who may do what there, their size, and their end. */
#include "volume_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "keeper/image.h"
#include "keeper/volume_private.h"
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

static void
test_kernel_and_worker_share_it(void **state)
{
    struct volume_fixture *f = *state;
    bool existed = false;
    struct stat st;
    struct statvfs vfs;

    make_volume(f, ID);
    assert_int_equal(volume_make(&f->o, ID, &existed, NULL), 0);
    assert_true(existed);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    _cleanup_close_ int root = root_of(f, ID);
    assert_true(as_user(KERNEL, tree, kernel_works));
    assert_true(as_user(WORKER, root, worker_works));
    assert_true(as_user(KERNEL, tree, kernel_reads_workers));
    /* A second workspace is another owner's on disk, and so is a third after a new start. */
    make_volume(f, ID + 1);
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
    struct volume_fixture *f = *state;

    make_volume(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_true(as_user(KERNEL, tree, kernel_works));
    assert_false(as_user(KERNEL + 1, tree, kernel_reads_workers));
    assert_false(as_user(WORKER, tree, worker_works));
}

static void
test_none_of_that_id(void **state)
{
    struct volume_fixture *f = *state;
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
    struct volume_fixture *f = *state;

    make_volume(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_in_range(free_bytes(tree), 8 * MIB, 16 * MIB);
    assert_true(as_user(KERNEL, tree, fill));
    assert_in_range(free_bytes(tree), 0, 65535);
    assert_true(as_user(KERNEL, tree, drop_big));
    assert_in_range(free_bytes(tree), 8 * MIB, 16 * MIB);
    /* It takes its whole size on the host from the first. */
    assert_in_range(volume_usage(&f->o, ID, NULL), 16 * MIB, 17 * MIB);
}

static void
test_full_host(void **state)
{
    struct volume_fixture *f = *state;
    struct keeper_options o = f->o;
    struct err err = ERR_INIT;
    char dir[PATH_MAX], mnt[PATH_MAX];
    bool existed;
    int n = 0;

    tmpdir_make(dir);
    assert_int_equal(mount("husk", dir, "tmpfs", 0, "size=40m"), 0);
    volume_options(&o, dir);
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
    assert_true(tree >= 0 && as_user(KERNEL, tree, fill));
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

static void
test_sparse_takes_little(void **state)
{
    struct volume_fixture *f = *state;

    f->o.sparse = true;
    make_volume(f, ID);
    assert_in_range(volume_usage(&f->o, ID, NULL), 1, MIB);
}

static void
test_sweep_unmounts_the_idle(void **state)
{
    struct volume_fixture *f = *state;
    char used[PATH_MAX + 64];
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

    make_volume(f, ID);
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
    struct volume_fixture *f = *state;
    struct err err = ERR_INIT;
    char path[PATH_MAX + 64];

    make_volume(f, ID);
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
test_leaving_lets_go(void **state)
{
    struct volume_fixture *f = *state;
    int ready[2], go[2];
    char c;
    pid_t pid;

    make_volume(f, ID);
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(test_kernel_and_worker_share_it),
        ONE(test_nobody_of_another_uid_gets_in),
        ONE(test_none_of_that_id),
        ONE(test_size_is_a_bound),
        ONE(test_full_host),
        ONE(test_sparse_takes_little),
        ONE(test_sweep_unmounts_the_idle),
        ONE(test_removed_without_a_trace),
        ONE(test_leaving_lets_go),
    };
    int skip = volume_namespace();

    return skip ? skip : cmocka_run_group_tests(tests, NULL, NULL);
}
