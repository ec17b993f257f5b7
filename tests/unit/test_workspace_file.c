/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit/workspace_fixture.h"

/* The slug that opening gives, or "open". */
static const char *
opened(const struct fixture *f, const char *path)
{
    struct err err = ERR_INIT;
    struct file_info info;
    _cleanup_close_ int fd = -1;

    if (workspace_open_file(&f->w, path, strlen(path), &fd, &info, &err) < 0) {
        assert_int_equal(fd, -1);
        assert_non_null(err.slug);
        return err.slug;
    }
    assert_int_equal(info.type, FILE_REGULAR);
    return "open";
}

static void
t_regular_files_open(void **state)
{
    struct fixture *f = *state;

    fixture_write(f, "a+b %.txt", "x");
    fixture_write(f, "\xff\xfe", "x");
    assert_string_equal(opened(f, "a+b %.txt"), "open");
    assert_string_equal(opened(f, "\xff\xfe"), "open");
    assert_string_equal(opened(f, "none"), "file_not_found");
    assert_string_equal(opened(f, "a+b %.txt/x"), "file_not_found");
    assert_string_equal(opened(f, "../outside/secret"), "bad_path");
}

static void
t_links_are_followed_inside_only(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(mkdir(fixture_path(f, "d"), 0770), 0);
    fixture_write(f, "d/x", "x");
    assert_int_equal(symlink("d/x", fixture_path(f, "in")), 0);
    assert_int_equal(symlink("../d/x", fixture_path(f, "d/up")), 0);
    assert_int_equal(symlink("d", fixture_path(f, "folder")), 0);
    assert_string_equal(opened(f, "in"), "open");
    assert_string_equal(opened(f, "d/up"), "open");
    assert_string_equal(opened(f, "folder/x"), "open");

    assert_int_equal(symlink(f->outside, fixture_path(f, "abs")), 0);
    assert_int_equal(symlink("../outside", fixture_path(f, "rel")), 0);
    assert_int_equal(symlink("/etc/passwd", fixture_path(f, "pw")), 0);
    assert_int_equal(symlink("loop", fixture_path(f, "loop")), 0);
    assert_int_equal(symlink("/proc/self/root", fixture_path(f, "magic")), 0);
    assert_string_equal(opened(f, "abs/secret"), "outside_workspace");
    assert_string_equal(opened(f, "rel/secret"), "outside_workspace");
    assert_string_equal(opened(f, "pw"), "outside_workspace");
    assert_string_equal(opened(f, "loop"), "outside_workspace");
    assert_string_equal(opened(f, "magic/etc/passwd"), "outside_workspace");
}

/* A program that waits in open(2) would be ended by the alarm. */
static void
t_what_is_no_file_is_refused_at_once(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    _cleanup_close_ int s = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)alarm(5);
    assert_int_equal(mkfifo(fixture_path(f, "fifo"), 0666), 0);
    assert_string_equal(opened(f, "fifo"), "not_a_file");
    strncpy(sa.sun_path, fixture_path(f, "sock"), sizeof(sa.sun_path) - 1);
    assert_int_equal(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_string_equal(opened(f, "sock"), "not_a_file");
    assert_int_equal(mkdir(fixture_path(f, "dir"), 0770), 0);
    assert_string_equal(opened(f, "dir"), "not_a_file");
    if (mknod(fixture_path(f, "null"), S_IFCHR | 0666, makedev(1, 3)) == 0) {
        const char *slug = opened(f, "null");

        assert_true(strcmp(slug, "not_a_file") == 0 || strcmp(slug, "file_unreadable") == 0);
    }
    (void)alarm(0);
}

/* Leases are taken by another process, as a session's code would. */
static void
t_a_lease_is_busy_and_does_not_block(void **state)
{
    struct fixture *f = *state;
    int ready[2];
    char c;

    fixture_write(f, "leased", "x");
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(fixture_path(f, "leased"), O_RDWR);

        (void)signal(SIGIO, SIG_IGN);
        c = fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &c, 1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    const char *slug = "file_busy";
    if (c == 'y') {
        (void)alarm(5);
        slug = opened(f, "leased");
        (void)alarm(0);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
    assert_string_equal(slug, "file_busy");
}

static void
t_stat_tells_types_and_big_sizes(void **state)
{
    struct fixture *f = *state;
    const int64_t big = (INT64_C(5) << 30) + 1;
    struct file_info info;
    struct err err = ERR_INIT;
    _cleanup_close_ int fd = open(fixture_path(f, "big"), O_CREAT | O_RDWR, 0660);
    _cleanup_close_ int opened_fd = -1;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, big), 0);
    assert_int_equal(workspace_stat(&f->w, "big", 3, &info, &err), 0);
    assert_true(info.size == big);
    assert_int_equal(info.type, FILE_REGULAR);
    assert_int_equal(workspace_open_file(&f->w, "big", 3, &opened_fd, &info, &err), 0);
    assert_true(info.size == big);

    assert_int_equal(symlink("/etc/passwd", fixture_path(f, "l")), 0);
    assert_int_equal(workspace_stat(&f->w, "l", 1, &info, &err), 0);
    assert_int_equal(info.type, FILE_SYMLINK);
    assert_int_equal(mkdir(fixture_path(f, "d"), 0770), 0);
    assert_int_equal(workspace_stat(&f->w, "d", 1, &info, &err), 0);
    assert_int_equal(info.type, FILE_DIRECTORY);
    assert_int_equal(mkfifo(fixture_path(f, "p"), 0660), 0);
    assert_int_equal(workspace_stat(&f->w, "p", 1, &info, &err), 0);
    assert_int_equal(info.type, FILE_OTHER);
    assert_int_equal(workspace_stat(&f->w, "l/x", 3, &info, &err), -1);
    assert_string_equal(err.slug, "outside_workspace");
}

static void
t_etags_move_with_the_file(void **state)
{
    (void)state;
    const int64_t now = INT64_C(1800000000000);
    struct file_info a = {.inode = 1, .size = 2, .mtime_ns = (now - 2000) * 1000000};
    struct file_info b;
    char x[FILE_ETAG_SIZE], y[FILE_ETAG_SIZE];

    a.ctime_ns = a.mtime_ns;
    file_etag(&a, now, x);
    assert_int_equal(x[0], '"');
    assert_int_equal(x[strlen(x) - 1], '"');
    file_etag(&a, now - 1, y);
    assert_memory_equal(y, "W/\"", 3);
    assert_string_equal(y + 2, x);

    b = a;
    b.size++;
    file_etag(&b, now, y);
    assert_string_not_equal(x, y);
    b = a;
    b.inode++;
    file_etag(&b, now, y);
    assert_string_not_equal(x, y);
    b = a;
    b.mtime_ns -= 1;
    file_etag(&b, now, y);
    assert_string_not_equal(x, y);
    b = a; /* somebody set the mtime back */
    b.ctime_ns += 1;
    file_etag(&b, now + 1, y);
    assert_string_not_equal(x, y);
    b.ctime_ns = now * 1000000;
    file_etag(&b, now, y);
    assert_memory_equal(y, "W/", 2);

    b = (struct file_info){FILE_REGULAR, -1, -1, UINT64_MAX, -1};
    file_etag(&b, 0, y);
    assert_int_equal(y[strlen(y) - 1], '"');
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_regular_files_open),
        T(t_links_are_followed_inside_only),
        T(t_what_is_no_file_is_refused_at_once),
        T(t_a_lease_is_busy_and_does_not_block),
        T(t_stat_tells_types_and_big_sizes),
        cmocka_unit_test(t_etags_move_with_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
