/* SPDX-License-Identifier: MIT */
/* Workspaces without images: folders, the host's or lent to a container's kernel. */
#include "volume_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "keeper/volume_private.h"
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

/* A host without loop devices. */
static void
test_folder_on_the_host(void **state)
{
    struct volume_fixture *f = *state;
    struct err err = ERR_INIT;

    f->o.images = false;
    make_volume(f, ID);
    _cleanup_close_ int tree = tree_of(f, ID, KERNEL);
    _cleanup_close_ int root = root_of(f, ID);
    assert_true(as_user(KERNEL, tree, kernel_works));
    assert_true(as_user(WORKER, root, worker_works));
    assert_true(as_user(KERNEL, tree, kernel_reads_workers));
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
    struct volume_fixture *f = *state;
    struct err err = ERR_INIT;
    char home[PATH_MAX], workspace[PATH_MAX];
    struct stat st;

    f->o.tier = TIER_CONTAINER;
    f->o.images = false;
    assert_int_equal(volume_prepare(&f->o, &err), 0);
    make_volume(f, ID);
    {
        _cleanup_close_ int root = root_of(f, ID); /* before any kernel has it */
        assert_true(as_user(WORKER, root, write_marker));
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
            assert_true(as_user(uid, root, kernel_works));
            assert_false(as_user(uid + 1, root, has_marker));
            assert_true(as_user(uid, root, lock_up));
        }
        assert_true(as_user(uid, root, has_marker));
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
    struct volume_fixture *f = *state;
    struct err err = ERR_INIT;
    char home[PATH_MAX], workspace[PATH_MAX], aside[PATH_MAX];

    f->o.tier = TIER_CONTAINER;
    f->o.images = false;
    make_volume(f, ID);
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
    struct volume_fixture *f = *state;
    struct err err = ERR_INIT;
    char home[PATH_MAX], workspace[PATH_MAX];
    int hold;

    f->o.tier = TIER_CONTAINER;
    f->o.images = false;
    make_volume(f, ID);
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
    assert_true(as_user(KERNEL, root, write_marker));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(test_folder_on_the_host),
        ONE(test_lent_folder),
        ONE(test_swapped_folder_is_not_followed),
        ONE(test_loan_of_the_dead_is_brought_back),
    };
    int skip = volume_namespace();

    return skip ? skip : cmocka_run_group_tests(tests, NULL, NULL);
}
