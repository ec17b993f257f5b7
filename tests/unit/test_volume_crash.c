/* SPDX-License-Identifier: MIT */
/* What a keeper that was killed, or a power cut, leaves of workspaces, and several keepers at once.
 */
#include "volume_fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "keeper/image.h"
#include "keeper/volume_private.h"
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

/* A keeper that ends while a sandbox has the workspace: the next one finds the device. */
static void
test_never_on_two_devices(void **state)
{
    struct volume_fixture *f = *state;

    make_volume(f, ID);
    int tree = tree_of(f, ID, KERNEL);
    assert_true(as_user(KERNEL, tree, write_marker));
    image_unmount(&f->o, ID);
    assert_int_equal(loops(f), 1);
    {
        _cleanup_close_ int root = root_of(f, ID);
        assert_int_equal(loops(f), 1);
        assert_true(as_user(WORKER, root, has_marker));
    }
    (void)close(tree);
    image_unmount(&f->o, ID);
    assert_int_equal(loops_at_last(f, 0), 0);
    _cleanup_close_ int root = root_of(f, ID);
    assert_true(as_user(WORKER, root, has_marker));
}

static void
copy_image(const struct volume_fixture *f, uint64_t from, uint64_t to)
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
    struct volume_fixture *f = *state;

    make_volume(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_true(as_user(KERNEL, tree, write_marker));
    copy_image(f, ID, ID + 1);
    _cleanup_close_ int root = root_of(f, ID + 1);
    assert_true(as_user(WORKER, root, has_marker));
}

/* The name was on disk before the content. */
static void
test_blank_image_is_made_anew(void **state)
{
    struct volume_fixture *f = *state;
    char path[PATH_MAX + 64];

    make_volume(f, ID);
    (void)snprintf(path, sizeof path, "%s/images/%016" PRIx64 ".img", f->dir, ID);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, 16 * MIB), 0);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    assert_true(as_user(KERNEL, tree, kernel_works));
}

/* Whoever makes and mounts is killed at any moment: what stands is whole or not there. */
static void
test_killed_at_any_line(void **state)
{
    struct volume_fixture *f = *state;
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
    struct volume_fixture *f = *state;
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
    struct volume_fixture *f = *state;
    char path[PATH_MAX], mnt[PATH_MAX];
    struct stat st;

    make_volume(f, ID);
    make_volume(f, ID + 1);
    assert_int_equal(truncate(tmpdir_path(path, f->dir, "next-uid"), 0), 0);
    (void)umount2(tmpdir_path(mnt, f->dir, "mnt"), MNT_DETACH);
    assert_int_equal(volume_prepare(&f->o, NULL), 0);
    make_volume(f, ID + 2);
    _cleanup_close_ int root = image_root(&f->o, ID + 2, NULL);
    assert_int_equal(fstat(root, &st), 0);
    assert_int_equal(st.st_uid, WORKSPACE_UID_BASE + 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(test_never_on_two_devices),
        ONE(test_power_cut),
        ONE(test_blank_image_is_made_anew),
        ONE(test_killed_at_any_line),
        ONE(test_many_at_once),
        ONE(test_uids_go_on_after_a_lost_count),
    };
    int skip = volume_namespace();

    return skip ? skip : cmocka_run_group_tests(tests, NULL, NULL);
}
