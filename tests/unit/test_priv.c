/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <grp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/priv.h"

static void
lookup(void **state)
{
    (void)state;
    struct priv_ids ids = {.uid = 12345};
    struct err err = ERR_INIT;

    assert_int_equal(priv_lookup("root", &ids, &err), 0);
    assert_int_equal(ids.uid, 0);
    assert_true(ids.n_groups >= 1);
    ids.uid = 12345;
    assert_int_equal(priv_lookup("no-such-user-here", &ids, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(ids.uid, 12345);
}

static void
lookup_of_a_group(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    gid_t gid = 12345;

    assert_int_equal(priv_lookup_group("no-such-group-here", &gid, &err), 0);
    assert_int_equal(gid, 12345);
    assert_int_equal(priv_lookup_group("root", &gid, &err), 1);
    assert_int_equal(gid, 0);
}

static void
dropping_to_oneself_is_nothing(void **state)
{
    (void)state;
    struct priv_ids ids = {.uid = geteuid(), .gid = 54321};
    gid_t gid = getegid();

    assert_int_equal(priv_drop(&ids, NULL), 0);
    assert_int_equal(getegid(), gid);
}

/* What the child found: 0 as it should be. */
static int
dropped_child(void)
{
    struct priv_ids ids = {.uid = 65534, .gid = 65534, .groups = {65534, 100}, .n_groups = 2};
    gid_t groups[8];

    if (priv_drop(&ids, NULL) < 0)
        return 1;
    if (geteuid() != 65534 || getuid() != 65534 || getegid() != 65534 || getgid() != 65534)
        return 2;
    if (getgroups(8, groups) != 2)
        return 3;
    if (setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0)
        return 4;
    ids.uid = 65533; /* and nobody else any more */
    return priv_drop(&ids, NULL) < 0 ? 0 : 5;
}

/* What the child found: 0 as it should be. */
static int
owner_child(const char *folder)
{
    if (priv_become_owner("/no/such/folder", NULL) < 0 || priv_become_owner("/", NULL) < 0 ||
        geteuid() != 0)
        return 1;
    if (chown(folder, 65534, 65534) < 0 || priv_become_owner(folder, NULL) < 0)
        return 2;
    if (getuid() != 65534 || geteuid() != 65534 || getegid() == 0)
        return 3;
    /* an ordinary user stays */
    return priv_become_owner("/", NULL) == 0 && geteuid() == 65534 ? 0 : 4;
}

static void
root_becomes_a_folders_owner(void **state)
{
    char folder[] = "/tmp/husk-priv-XXXXXX";
    int status = -1;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(folder));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(owner_child(folder));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(status, 0);
}

static void
root_is_gone_for_good(void **state)
{
    (void)state;
    int status = -1;

    if (geteuid() != 0)
        skip();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(dropped_child());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup),
        cmocka_unit_test(lookup_of_a_group),
        cmocka_unit_test(dropping_to_oneself_is_nothing),
        cmocka_unit_test(root_is_gone_for_good),
        cmocka_unit_test(root_becomes_a_folders_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
