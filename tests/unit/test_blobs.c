/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manager/blobs.h"

static char dir[PATH_MAX], blobs[PATH_MAX];
static int dir_fd;

static int
setup(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    tmpdir_make(dir);
    dir_fd = blobs_open(tmpdir_path(blobs, dir, "artifacts"), &err);
    return dir_fd < 0 ? -1 : 0;
}

static int
teardown(void **state)
{
    (void)state;
    (void)close(dir_fd);
    tmpdir_remove(dir);
    return 0;
}

static const char *
put(const char *text, int64_t max, char ret_sha256[SHA256_HEX_SIZE])
{
    int fd = memfd_create("source", MFD_CLOEXEC);
    struct err err = ERR_INIT;
    int64_t size = -1;
    int rc;

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    rc = blobs_put(dir_fd, fd, max, DEADLINE_NEVER, ret_sha256, &size, &err);
    (void)close(fd);
    if (rc < 0)
        return err.slug;
    assert_int_equal(size, strlen(text));
    return NULL;
}

static void
t_by_their_digest(void **state)
{
    char sha256[SHA256_HEX_SIZE], want[SHA256_HEX_SIZE], got[8] = "";
    struct err err = ERR_INIT;
    int fd;

    (void)state;
    sha256_hex_of("abc", 3, want);
    assert_null(put("abc", 3, sha256));
    assert_string_equal(sha256, want);
    assert_null(put("abc", 3, sha256)); /* there already */
    assert_int_equal(blobs_get(dir_fd, sha256, &fd, &err), 0);
    assert_int_equal(read(fd, got, sizeof(got)), 3);
    assert_string_equal(got, "abc");
    (void)close(fd);
    assert_true(blobs_there(dir_fd, sha256));
    assert_int_equal(blobs_remove(dir_fd, sha256), 0);
    assert_false(blobs_there(dir_fd, sha256));
    assert_int_equal(blobs_get(dir_fd, sha256, &fd, &err), -1);
    assert_null(put("", 3, sha256));
    assert_true(blobs_there(dir_fd, sha256));
}

static int
entries(void)
{
    char command[PATH_MAX + 32];
    int n = -1;
    FILE *p;

    (void)snprintf(command, sizeof(command), "find '%s' -type f | wc -l", blobs);
    p = popen(command, "r");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%d", &n), 1);
    (void)pclose(p);
    return n;
}

static void
t_a_failure_leaves_nothing(void **state)
{
    char sha256[SHA256_HEX_SIZE];

    (void)state;
    assert_string_equal(put("abcd", 3, sha256), "file_too_large");
    assert_int_equal(entries(), 0);
}

static void
age(const char *name)
{
    const struct timespec long_ago[2] = {{1000, 0}, {1000, 0}};

    assert_int_equal(utimensat(dir_fd, name, long_ago, 0), 0);
}

static void
on_old(void *ctx, const char *sha256)
{
    char *found = ctx;

    assert_string_equal(found, ""); /* one only */
    memcpy(found, sha256, SHA256_HEX_SIZE);
}

static void
t_old_ones_are_found(void **state)
{
    char old[SHA256_HEX_SIZE], fresh[SHA256_HEX_SIZE], name[80], found[SHA256_HEX_SIZE] = "";

    (void)state;
    assert_null(put("old", 9, old));
    assert_null(put("fresh", 9, fresh));
    (void)snprintf(name, sizeof(name), "%.2s/%s", old, old + 2);
    age(name);
    (void)close(openat(dir_fd, ".tmp-1", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    (void)close(openat(dir_fd, ".tmp-2", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    age(".tmp-1");
    blobs_old(dir_fd, clock_wall_ms() - 60000, DEADLINE_NEVER, on_old, found);
    assert_string_equal(found, old);
    assert_int_equal(faccessat(dir_fd, ".tmp-1", F_OK, 0), -1);
    assert_int_equal(faccessat(dir_fd, ".tmp-2", F_OK, 0), 0);
    /* written once more it is not old any longer */
    assert_null(put("old", 9, old));
    found[0] = '\0';
    blobs_old(dir_fd, clock_wall_ms() - 60000, DEADLINE_NEVER, on_old, found);
    assert_string_equal(found, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(t_by_their_digest),
        TEST(t_a_failure_leaves_nothing),
        TEST(t_old_ones_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
