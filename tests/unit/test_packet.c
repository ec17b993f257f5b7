/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/tmpdir.h"
#include "base/packet.h"

#define SIZE 16

static int
count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void
t_a_packet_with_descriptors_arrives_whole(void **state)
{
    char dir[PATH_MAX], at[PATH_MAX], out[SIZE] = "fifteen bytes.", in[SIZE];
    struct err err = ERR_INIT;
    struct ucred who;
    struct stat st;
    int fds[2], n = 0, three[3] = {0, 1, 2};
    (void)state;
    tmpdir_make(dir);
    (void)tmpdir_path(at, dir, "s");
    int before = count_open();
    int l = packet_listen(at, getuid(), getgid(), 0600, &err);
    assert_true(l >= 0);
    assert_int_equal(stat(at, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(packet_listen(at, getuid(), getgid(), 0600, &err), -1);
    assert_int_equal(err.sys_errno, EADDRINUSE);
    int a = packet_connect(at, deadline_in(1000), &err), b = accept(l, NULL, NULL);
    assert_true(a >= 0 && b >= 0);
    assert_int_equal(packet_peer(b, &who), 0);
    assert_int_equal(who.uid, getuid());
    assert_int_equal(who.pid, getpid());
    assert_int_equal(packet_receive(b, in, SIZE, fds, 2, &n, deadline_in(20), &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    assert_int_equal(packet_send(a, out, SIZE, three, 2, deadline_in(1000)), 0);
    assert_int_equal(packet_receive(b, in, SIZE, fds, 2, &n, deadline_in(1000), &err), 1);
    assert_int_equal(n, 2);
    assert_string_equal(in, out);
    assert_true((fcntl(fds[1], F_GETFD) & FD_CLOEXEC) != 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(a);
    assert_int_equal(packet_receive(b, in, SIZE, fds, 2, &n, deadline_in(1000), &err), 0);
    (void)close(b);
    (void)close(l);
    assert_int_equal(count_open(), before);
    assert_int_equal(packet_connect(at, deadline_in(100), &err), -1);
    assert_int_equal(err.sys_errno, ECONNREFUSED);
    tmpdir_remove(dir);
}

static void
t_what_has_another_shape_is_refused_and_leaves_nothing_open(void **state)
{
    static const struct {
        size_t size;
        int fds;
    } wrong[] = {{SIZE - 1, 0}, {SIZE + 1, 0}, {SIZE, 3}, {SIZE, PACKET_FDS_MAX}, {1, 2}};
    char out[SIZE + 1] = {0}, in[SIZE];
    int ends[2], fds[2], n, many[PACKET_FDS_MAX] = {0};
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    int before = count_open();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(
            packet_send(ends[0], out, wrong[i].size, many, wrong[i].fds, deadline_in(1000)), 0);
        assert_int_equal(packet_receive(ends[1], in, SIZE, fds, 2, &n, deadline_in(1000), &err),
                         -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(count_open(), before);
    }
    assert_int_equal(packet_send(ends[0], out, SIZE, many, PACKET_FDS_MAX + 1, deadline_in(10)),
                     -1);
    (void)close(ends[1]);
    assert_int_equal(packet_send(ends[0], out, SIZE, NULL, 0, deadline_in(10)), -1);
    assert_int_equal(errno, EPIPE);
    (void)close(ends[0]);
}

static void
t_a_full_backlog_and_a_full_queue_end_at_the_deadline(void **state)
{
    char dir[PATH_MAX], at[PATH_MAX], out[SIZE] = {0};
    struct err err = ERR_INIT;
    int ends[2], waiting[PACKET_BACKLOG + 1];
    (void)state;
    tmpdir_make(dir);
    (void)tmpdir_path(at, dir, "s");
    int l = packet_listen(at, getuid(), getgid(), 0600, &err);
    assert_true(l >= 0);
    for (int i = 0; i <= PACKET_BACKLOG; i++)
        waiting[i] = packet_connect(at, deadline_in(5000), &err);
    assert_int_equal(packet_connect(at, deadline_in(50), &err), -1);
    assert_int_equal(err.sys_errno, EAGAIN);
    for (int i = 0; i <= PACKET_BACKLOG; i++)
        (void)close(waiting[i]);
    (void)close(l);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    int r = 0;
    for (int i = 0; i < 100000 && r == 0; i++)
        r = packet_send(ends[0], out, SIZE, NULL, 0, deadline_in(0));
    assert_int_equal(r, -1);
    (void)close(ends[0]);
    (void)close(ends[1]);
    tmpdir_remove(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_a_packet_with_descriptors_arrives_whole),
        cmocka_unit_test(t_what_has_another_shape_is_refused_and_leaves_nothing_open),
        cmocka_unit_test(t_a_full_backlog_and_a_full_queue_end_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
