/* SPDX-License-Identifier: MIT */
#include "workspace/keeper_client.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/cmocka_all.h"
#include "support/fake_keeper.h"
#include "support/tmpdir.h"
#include "workspace/place.h"

#define KERNEL "8e7d6c5b-0000-4000-8000-000000000001"
#define ID INT64_C(0x1234abcd)

static struct fake_keeper k;

static int
setup(void **state)
{
    (void)state;
    fake_keeper_start(&k);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    fake_keeper_done(&k);
    return 0;
}

static void
test_workspaces(void **state)
{
    struct err err = ERR_INIT;
    bool existed = true;
    int64_t bytes = 0;
    int fd = -1;

    (void)state;
    assert_int_equal(keeper_root(k.dir, ID, &fd, &err), -1);
    assert_string_equal(err.slug, "workspace_gone");
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(keeper_make(k.dir, ID, &existed, &err), 0);
    assert_false(existed);
    assert_int_equal(keeper_make(k.dir, ID, &existed, &err), 0);
    assert_true(existed);
    assert_int_equal(keeper_root(k.dir, ID, &fd, &err), 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    (void)close(fd);
    assert_int_equal(keeper_usage(k.dir, ID, &bytes, &err), 0);
    assert_int_equal(bytes, 4096);
    assert_int_equal(keeper_remove(k.dir, ID, &err), 0);
    assert_int_equal(keeper_root(k.dir, ID, &fd, &err), -1);
    assert_string_equal(err.slug, "workspace_gone");
}

static void
test_what_errors_mean(void **state)
{
    struct err err = ERR_INIT;
    int fd = -1;
    int64_t bytes;

    (void)state;
    k.world->error = ENOSPC;
    assert_int_equal(keeper_make(k.dir, ID, NULL, &err), -1);
    assert_string_equal(err.slug, "disk_full");
    k.world->error = EBUSY;
    assert_int_equal(keeper_remove(k.dir, ID, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    k.world->error = ENOENT;
    assert_int_equal(keeper_remove(k.dir, ID, &err), 0);
    assert_int_equal(keeper_usage(k.dir, ID, &bytes, &err), -1);
    assert_string_equal(err.slug, "workspace_gone");
    k.world->error = EIO;
    assert_int_equal(keeper_root(k.dir, ID, &fd, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_int_equal(err.sys_errno, EIO);
    k.world->error = 0;
    k.world->no_fd = true;
    assert_int_equal(keeper_root(k.dir, ID, &fd, &err), -1);
    assert_string_equal(err.slug, "keeper_unavailable");
}

static void
test_kernels(void **state)
{
    struct wire_counters c;
    struct err err = ERR_INIT;
    bool ended = true;
    char longer[WIRE_KERNEL_MAX + 8];

    (void)state;
    k.world->counters = (struct wire_counters){.oom_kills = 3, .disk_free_bytes = 7};
    assert_int_equal(keeper_status(k.dir, KERNEL, &c, &ended, &err), 0);
    assert_false(ended);
    assert_int_equal(c.oom_kills, 3);
    memcpy(k.world->ended, KERNEL, sizeof KERNEL);
    assert_int_equal(keeper_status(k.dir, KERNEL, &c, &ended, &err), 0);
    assert_true(ended);
    assert_int_equal(keeper_bind(k.dir, KERNEL, ID, &err), 0);
    assert_int_equal(keeper_bind(k.dir, KERNEL, ID, &err), 0);
    assert_string_equal(k.world->bound_kernel, KERNEL);
    assert_int_equal(k.world->bound_workspace, ID);
    assert_int_equal(keeper_bind(k.dir, KERNEL, ID + 1, &err), -1);
    assert_string_equal(err.slug, "runtime_gone");
    k.world->no_kernel = true;
    assert_int_equal(keeper_bind(k.dir, KERNEL, ID, &err), -1);
    assert_string_equal(err.slug, "runtime_gone");
    assert_int_equal(keeper_status(k.dir, KERNEL, &c, &ended, &err), -1);
    assert_string_equal(err.slug, "runtime_gone");
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(keeper_status(k.dir, longer, &c, &ended, &err), -1);
    assert_string_equal(err.slug, "runtime_gone");
}

static void
test_info(void **state)
{
    struct wire_info i;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(keeper_info(k.dir, &i, &err), 0);
    assert_string_equal(i.tier, "host");
    assert_int_equal(i.ready, 1);
    k.world->old = true;
    assert_int_equal(keeper_info(k.dir, &i, &err), -1);
    assert_string_equal(err.slug, "keeper_unavailable");
}

static void
test_not_there(void **state)
{
    struct wire_info i;
    struct err err = ERR_INIT;
    char nowhere[PATH_MAX];

    (void)state;
    assert_int_equal(keeper_info(tmpdir_path(nowhere, k.dir, "nowhere"), &i, &err), -1);
    assert_string_equal(err.slug, "keeper_unavailable");
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    fake_keeper_stop(&k);
    assert_int_equal(keeper_info(k.dir, &i, &err), -1);
    assert_string_equal(err.slug, "keeper_unavailable");
    memset(nowhere, 'x', 200);
    nowhere[200] = '\0';
    assert_int_equal(keeper_info(nowhere, &i, &err), -1);
    assert_string_equal(err.slug, "keeper_unavailable");
}

/* Bounded, whatever it does. */
static void
test_hangs(void **state)
{
    struct wire_info i;
    struct err err = ERR_INIT;
    int64_t at = clock_mono_ms();

    (void)state;
    k.world->mute = true;
    assert_int_equal(keeper_info(k.dir, &i, &err), -1);
    assert_string_equal(err.slug, "keeper_unavailable");
    assert_int_equal(err.sys_errno, ETIMEDOUT);
    assert_true(clock_mono_ms() - at >= KEEPER_QUICK_MS);
}

/* One API for both kinds of place. */
static void
test_place(void **state)
{
    char dir[PATH_MAX];
    struct workspace_place kept = {.keeper = k.dir}, plain = {.dir = dir};
    struct workspace w = {.root_fd = -1};
    struct err err = ERR_INIT;
    int64_t bytes = -1;
    bool existed = true;

    (void)state;
    tmpdir_make(dir);
    kept.dir = dir;
    for (int i = 0; i < 2; i++) {
        const struct workspace_place *p = i == 0 ? &kept : &plain;

        assert_int_equal(place_open(p, ID, &w, &err), -1);
        assert_string_equal(err.slug, "workspace_gone");
        assert_int_equal(place_create(p, ID, &existed, &err), 0);
        assert_false(existed);
        assert_int_equal(place_open(p, ID, &w, &err), 0);
        assert_int_equal(mkdirat(w.root_fd, "a", 0770), 0);
        workspace_close(&w);
        assert_int_equal(place_usage(p, ID, 100, &bytes, &err), 0);
        assert_true(bytes >= 0);
        assert_int_equal(place_remove(p, ID, &err), 0);
        assert_int_equal(place_open(p, ID, &w, &err), -1);
    }
    /* One from before there was a keeper goes as well. */
    assert_int_equal(place_create(&plain, ID, NULL, &err), 0);
    assert_int_equal(place_remove(&kept, ID, &err), 0);
    assert_int_equal(place_open(&plain, ID, &w, &err), -1);
    tmpdir_remove(dir);
}

#define ONE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(test_workspaces), ONE(test_what_errors_mean), ONE(test_kernels),
        ONE(test_info),       ONE(test_not_there),        ONE(test_hangs),
        ONE(test_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
