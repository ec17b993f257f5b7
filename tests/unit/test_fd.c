/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sig.h"

static char dir[] = "/tmp/husk-fd-XXXXXX";

static int
set_up(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int
tear_down(void **state)
{
    (void)state;
    return rmdir(dir);
}

static void
flags(void **state)
{
    (void)state;
    int p[2];

    assert_int_equal(pipe(p), 0);
    assert_int_equal(fd_set_cloexec(p[0], true), 0);
    assert_true(fcntl(p[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fd_set_cloexec(p[0], false), 0);
    assert_false(fcntl(p[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fd_set_nonblock(p[0], true), 0);
    assert_true(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_cloexec(-1, true), -1);
    assert_int_equal(fd_set_nonblock(-1, true), -1);
    (void)close(p[0]);
    (void)close(p[1]);
}

static void
read_and_wait(void **state)
{
    (void)state;
    char got[4] = {0};
    int p[2];

    assert_int_equal(pipe(p), 0);
    assert_int_equal(fd_wait(p[0], POLLIN, deadline_in(5)), 0);
    assert_int_equal(fd_write_all(p[1], "abc", 3), 0);
    assert_int_equal(fd_wait(p[0], POLLIN, deadline_in(0)), 1);
    (void)close(p[1]);
    assert_int_equal(fd_read_all(p[0], got, 4), -1);
    assert_int_equal(errno, ENODATA);
    assert_memory_equal(got, "abc", 3);
    (void)close(p[0]);
    assert_int_equal(fd_wait(p[0], POLLIN, deadline_in(10)), -1);
    assert_int_equal(errno, EBADF);
}

static void
peer_gone(void **state)
{
    (void)state;
    int s[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    assert_false(fd_peer_gone(s[0]));
    assert_int_equal(fd_write_all(s[1], "x", 1), 0);
    assert_false(fd_peer_gone(s[0]));
    (void)close(s[1]);
    assert_true(fd_peer_gone(s[0])); /* although a byte is still to be read */
    (void)close(s[0]);
}

static void
files_and_directories(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct buf b = BUF_INIT(5);
    char path[128], byte = 0;
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(fd_mkdirs(path, 0700, &err), 0);
    assert_int_equal(fd_mkdirs(path, 0700, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(fd_mkdirs("", 0700, &err), -1);
    (void)snprintf(path, sizeof path, "%s/a/b/file", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, "12345", 5), 0);
    assert_int_equal(fd_read_file(path, &b, &err), 0);
    assert_string_equal(buf_str(&b), "12345");
    assert_int_equal(fd_write_all(fd, "6", 1), 0);
    assert_int_equal(fd_read_file(path, &b, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    (void)close(fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fd_pread_all(fd, &byte, 1, 5), 0);
    assert_int_equal(byte, '6');
    assert_int_equal(fd_pread_all(fd, &byte, 1, 6), -1);
    assert_int_equal(errno, ENODATA);
    (void)close(fd);
    assert_int_equal(fd_mkdirs(path, 0700, &err), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fd_read_file(path, &b, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(rmdir(path), 0);
    (void)snprintf(path, sizeof path, "%s/a", dir);
    assert_int_equal(rmdir(path), 0);
    buf_done(&b);
}

static void
signals_become_bytes(void **state)
{
    (void)state;
    const int signals[] = {SIGUSR1, SIGUSR2, 0};
    int fd = sig_pipe(signals);

    assert_true(fd >= 0);
    assert_int_equal(sig_next(fd), 0);
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(fd_wait(fd, POLLIN, deadline_in(1000)), 1);
    assert_int_equal(sig_next(fd), SIGUSR2);
    assert_int_equal(sig_next(fd), SIGUSR1);
    assert_int_equal(sig_next(fd), 0);
    for (int i = 0; i < 70000; i++) /* more than a pipe holds must not block */
        assert_int_equal(raise(SIGUSR1), 0);
    sig_reset_all();
    (void)close(fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags),
        cmocka_unit_test(read_and_wait),
        cmocka_unit_test(peer_gone),
        cmocka_unit_test(files_and_directories),
        cmocka_unit_test(signals_become_bytes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
