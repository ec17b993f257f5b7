/* SPDX-License-Identifier: MIT */
/* What of the keeper needs no sandbox: its options, who is there and who has ended, the kernels'
 * output, rights. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/tmpdir.h"
#include "base/fd.h"
#include "keeper/errnos.h"
#include "keeper/hoard.h"
#include "keeper/options.h"
#include "keeper/privileges.h"
#include "keeper/relay.h"
#include "keeper/sandboxes.h"

#define KERNEL "0f0f0f0f-1111-2222-3333-444444444444"

static struct keeper_options o;
static struct ucred self; /* who passes the descriptors */

static int
set_up(void **state)
{
    char dir[PATH_MAX];
    struct err err = ERR_INIT;
    (void)state;
    tmpdir_make(dir);
    self = (struct ucred){.uid = getuid(), .gid = getgid()};
    (void)snprintf(o.run_dir, sizeof(o.run_dir), "%.200s", dir);
    return sandboxes_prepare(&o, &err);
}

static int
tear_down(void **state)
{
    (void)state;
    tmpdir_remove(o.run_dir);
    return 0;
}

static void
t_kernel_ids_are_bounded(void **state)
{
    static const struct {
        const char *id;
        bool valid;
    } ids[] = {
        {KERNEL, true},       {"12345678", true},
        {"1234567", false},   {"", false},
        {"1234567A", false},  {"../../12", false},
        {"1234567\n", false}, {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
    };
    char all[WIRE_KERNEL_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        char id[WIRE_KERNEL_MAX] = "";
        memcpy(id, ids[i].id, strlen(ids[i].id));
        assert_int_equal(kernel_id_valid(id), ids[i].valid);
    }
    memset(all, 'a', sizeof(all)); /* no NUL behind it */
    assert_false(kernel_id_valid(all));
}

static int
options_of(const char *text, struct err *err)
{
    struct settings s;
    struct keeper_options out;
    settings_defaults(&s);
    int rc = settings_parse(text, strlen(text), "f", &s, err);
    if (rc == 0)
        rc = keeper_options_of(&s, "/usr/share/husk", &out, err);
    settings_done(&s);
    if (rc == 0) {
        assert_string_equal(out.state_dir, "/var/lib/husk-keeper");
        assert_string_equal(out.run_dir, "/run/husk-keeper");
        assert_int_equal(out.limits.cpu_milli, 1500);
        assert_int_equal(out.egress, EGRESS_PUBLIC);
        assert_true(out.first_slot > 0 && out.first_slot < SLOTS_MAX);
        assert_int_equal(out.gateway_uid, getuid());
        assert_int_equal(out.worker_uid, getuid());
    }
    return rc;
}

static void
t_options_come_from_the_settings_and_name_what_does_not_fit(void **state)
{
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(
        options_of("SANDBOX_CPUS=1.5\nSANDBOX_EGRESS=public\nSANDBOX_GATEWAY_USER=\n", &err), 0);
    assert_int_equal(options_of("SANDBOX_GATEWAY_USER=no-such-user-here\n", &err), -1);
    assert_non_null(strstr(err.msg, "SANDBOX_GATEWAY_USER"));
    assert_int_equal(options_of("SANDBOX_GATEWAY_USER=\nSANDBOX_USER=no-such-user-here\n", &err),
                     -1);
    assert_non_null(strstr(err.msg, "SANDBOX_USER"));
    if (getuid() != 0) {
        assert_int_equal(options_of("SANDBOX_GATEWAY_USER=root\n", &err), -1);
        assert_non_null(strstr(err.msg, "its own user only"));
    }
}

static void
t_a_name_is_taken_once_and_seen_only_when_it_listens(void **state)
{
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    bool dead = true;
    (void)state;
    assert_false(sandbox_lives(&o, KERNEL));
    int fd = sandbox_listen(&o, KERNEL, &err);
    assert_true(fd >= 0);
    assert_true(sandbox_lives(&o, KERNEL));
    assert_int_equal(sandbox_listen(&o, KERNEL, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    (void)close(fd);
    assert_false(sandbox_lives(&o, KERNEL));
    assert_int_equal(sandbox_connect(&o, KERNEL, deadline_in(100), &dead, &err), -1);
    assert_true(dead);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    /* a killed monitor's name is not free either */
    assert_int_equal(sandbox_listen(&o, KERNEL, &err), -1);
    sandbox_forget(&o, KERNEL);
    assert_int_equal(sandbox_connect(&o, KERNEL, deadline_in(100), &dead, &err), -1);
    assert_false(dead);
    (void)snprintf(path, sizeof(path), "%s/m/.%d", o.run_dir, (int)getpid());
    assert_int_equal(access(path, F_OK), -1);
}

static void
t_an_end_is_remembered_and_forbids_a_second_life(void **state)
{
    const struct wire_counters c = {1, 2, 3, 4, 5, 6};
    struct wire_counters got = {0};
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    (void)state;
    assert_int_equal(ended_read(&o, KERNEL, &got), 0);
    assert_int_equal(ended_write(&o, KERNEL, &c), 0);
    assert_int_equal(ended_read(&o, KERNEL, &got), 1);
    assert_memory_equal(&got, &c, sizeof(c));
    assert_int_equal(sandbox_listen(&o, KERNEL, &err), -1);
    assert_non_null(strstr(err.msg, "has ended"));
    assert_false(sandbox_lives(&o, KERNEL));
    (void)snprintf(path, sizeof(path), "%s/ended/%s", o.run_dir, KERNEL);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(ended_read(&o, KERNEL, &got), 0);
    assert_int_equal(unlink(path), 0);
}

static void
t_sandboxes_are_listed_in_order_and_other_names_passed_over(void **state)
{
    static const char *const names[] = {"bbbbbbbb", "aaaaaaaa", "cccccccc-1"};
    static const char *const others[] = {".123", "short", "UPPERCASE", "with space"};
    char path[PATH_MAX], id[WIRE_KERNEL_MAX] = "";
    struct err err = ERR_INIT;
    int64_t count = 0;
    int fds[3];
    (void)state;
    assert_int_equal(sandboxes_next(&o, "", id, &count), 0);
    assert_int_equal(count, 0);
    for (int i = 0; i < 3; i++)
        assert_true((fds[i] = sandbox_listen(&o, names[i], &err)) >= 0);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "%s/m/%s", o.run_dir, others[i]);
        assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    }
    assert_int_equal(sandboxes_next(&o, "", id, &count), 1);
    assert_string_equal(id, "aaaaaaaa");
    assert_int_equal(count, 3);
    assert_int_equal(sandboxes_next(&o, id, id, NULL), 1);
    assert_int_equal(sandboxes_next(&o, id, id, NULL), 1);
    assert_string_equal(id, "cccccccc-1");
    assert_int_equal(sandboxes_next(&o, id, id, NULL), 0);
    for (int i = 0; i < 3; i++) {
        sandbox_forget(&o, names[i]);
        (void)close(fds[i]);
    }
}

/* Everything that is in a pipe now. */
static size_t
drain(int fd, char *last, size_t room)
{
    char piece[4096];
    size_t n = 0;
    ssize_t r;
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    while ((r = read(fd, piece, sizeof(piece))) > 0) {
        n += (size_t)r;
        if (last && (size_t)r < room) {
            memcpy(last, piece, (size_t)r);
            last[r] = '\0';
        }
    }
    return n;
}

static void
t_output_is_relayed_within_bounds_and_never_waited_for(void **state)
{
    struct relay r;
    struct err err = ERR_INIT;
    char piece[4096], last[8192] = "";
    int ends[2];
    (void)state;
    memset(piece, 'x', sizeof(piece));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int in = relay_open(&r, dup(ends[1]), &self, &err);
    assert_true(in >= 0);
    assert_int_equal(write(in, "hello", 5), 5);
    relay_move(&r);
    assert_int_equal(drain(ends[0], last, sizeof(last)), 5);
    assert_string_equal(last, "hello");
    /* the gateway's own way of writing is as it was */
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    size_t passed = 0;
    for (int i = 0; i < 64; i++) {
        assert_int_equal(write(in, piece, sizeof(piece)), sizeof(piece));
        relay_move(&r);
        passed += drain(ends[0], NULL, 0);
    }
    assert_true(passed >= RELAY_BURST / 2 && passed <= RELAY_BURST + 4096);
    assert_true(r.dropped > 0);
    assert_true(relay_wait_ms(&r) > 0);
    /* nobody reads, and the pipe is full */
    r.tokens = RELAY_BURST;
    (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], piece, sizeof(piece)) > 0)
        continue;
    assert_int_equal(write(in, piece, sizeof(piece)), sizeof(piece));
    relay_move(&r);
    assert_true(drain(ends[0], NULL, 0) > 0);
    (void)close(in);
    relay_close(&r);
    assert_non_null(strstr((drain(ends[0], last, sizeof(last)), last), "output dropped"));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void
t_output_goes_to_files_and_sockets_and_nowhere(void **state)
{
    struct relay r;
    struct err err = ERR_INIT;
    struct stat st;
    char path[PATH_MAX];
    int ends[2];
    (void)state;
    (void)tmpdir_path(path, o.run_dir, "log");
    int in = relay_open(&r, open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), &self, &err);
    assert_int_equal(write(in, "to a file", 9), 9);
    (void)close(in);
    relay_move(&r);
    relay_move(&r);
    assert_int_equal(relay_wait_ms(&r), -1);
    relay_close(&r);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 9);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    in = relay_open(&r, ends[1], &self, &err);
    assert_int_equal(write(in, "to a socket", 11), 11);
    relay_move(&r);
    assert_int_equal(drain(ends[0], NULL, 0), 11);
    (void)close(ends[0]);
    assert_int_equal(write(in, "to nobody", 9), 9);
    relay_move(&r);
    assert_int_equal(r.dropped, 9);
    (void)close(in);
    relay_close(&r);
    in = relay_open(&r, open(o.run_dir, O_RDONLY | O_CLOEXEC), &self, &err);
    assert_int_equal(write(in, "to a folder", 11), 11);
    relay_move(&r);
    assert_int_equal(r.dropped, 11);
    (void)close(in);
    relay_close(&r);
}

/* A descriptor gives no more than it was opened for: anybody can have one of a disk with O_PATH,
 * and to open that for writing is the keeper's right, not the gateway's. */
static void
t_output_goes_nowhere_it_may_not_be_written(void **state)
{
    static const int opened_for[] = {O_PATH, O_RDONLY | O_NONBLOCK};
    struct relay r;
    struct err err = ERR_INIT;
    char path[PATH_MAX];

    (void)state;
    assert_int_equal(mkfifo(tmpdir_path(path, o.run_dir, "fifo"), 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    for (size_t i = 0; i < 2; i++) {
        int in = relay_open(&r, open(path, opened_for[i] | O_CLOEXEC), &self, &err);

        assert_int_equal(r.to, -1);
        assert_int_equal(write(in, "x", 1), 1);
        relay_move(&r);
        assert_int_equal(r.dropped, 1);
        (void)close(in);
        relay_close(&r);
        assert_int_equal(drain(reader, NULL, 0), 0);
    }
    (void)close(reader);
    int in = relay_open(&r, open("/proc/self/comm", O_WRONLY | O_CLOEXEC), &self, &err);
    assert_int_equal(r.to, -1);
    (void)close(in);
    relay_close(&r);
}

/* A socket can lead to who looks at the sender's uid. */
static void
t_output_is_sent_in_the_name_of_who_passed_the_socket(void **state)
{
    const struct ucred other = {.uid = getuid() ? getuid() : 65534, .gid = getgid() ?: 65533};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct ucred seen;
    struct relay r;
    struct err err = ERR_INIT;
    char text[16];
    int ends[2], on = 1;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
    int in = relay_open(&r, ends[1], &other, &err);
    assert_int_equal(write(in, "MAINPID=1", 9), 9);
    relay_move(&r);
    struct iovec one = {text, sizeof(text)};
    struct msghdr m = {.msg_iov = &one,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    assert_int_equal(recvmsg(ends[0], &m, MSG_DONTWAIT), 9);
    assert_int_equal(control.head.cmsg_type, SCM_CREDENTIALS);
    memcpy(&seen, CMSG_DATA(&control.head), sizeof(seen));
    assert_int_equal(seen.uid, other.uid);
    assert_int_equal(seen.gid, other.gid);
    (void)close(in);
    relay_close(&r);
    (void)close(ends[0]);
}

static void
t_errors_have_the_number_that_the_wire_promises(void **state)
{
    struct err err = ERR_INIT;
    (void)state;
    (void)err_set(&err, ERR_NOT_FOUND, "x");
    assert_int_equal(errno_of(&err), ENOENT);
    (void)err_sys(&err, ERR_CONFLICT, EEXIST, "x");
    assert_int_equal(errno_of(&err), EBUSY);
    (void)err_sys(&err, ERR_INTERNAL, EROFS, "x");
    assert_int_equal(errno_of(&err), EROFS);
    for (int c = ERR_NONE; c <= ERR_INTERNAL; c++) {
        err = (struct err){.code = (enum err_code)c};
        assert_true(errno_of(&err) > 0);
    }
}

/* In a child of its own: 0 if a monitor's rights are what they should be. */
static int
reduced(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct c[2];
    struct keeper_options host = {.tier = TIER_HOST, .egress = EGRESS_NONE};
    struct err err = ERR_INIT;
    if (privileges_reduce(&host, &err) < 0 || syscall(SYS_capget, &head, c) < 0)
        return 1;
    if (c[0].permitted & (1u << CAP_SETPCAP | 1u << CAP_SYS_MODULE | 1u << CAP_NET_ADMIN |
                          1u << CAP_MKNOD | 1u << CAP_SYS_BOOT | 1u << CAP_SYS_RAWIO))
        return 2;
    if (c[0].permitted != c[0].effective || c[0].inheritable)
        return 3;
    if (getuid() == 0 && !(c[0].permitted & 1u << CAP_KILL))
        return 4;
    c[0].permitted |= 1u << CAP_SYS_BOOT;
    return syscall(SYS_capset, &head, c) == 0 ? 5 : 0;
}

static void
t_a_monitor_keeps_the_rights_it_needs_and_no_other(void **state)
{
    int status = -1;
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(reduced());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define HOARD_SOCKETS 1000
#define HOARD_ANSWERS 1000

/* Answers about the loopback that nobody takes, until the socket's queue is full. */
static int
fill_netlink(void)
{
    const struct {
        struct nlmsghdr head;
        struct ifinfomsg body;
    } ask = {{.nlmsg_len = sizeof ask, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
             {.ifi_index = 1}};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), bytes = 1 << 20;

    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    for (int i = 0; i < HOARD_ANSWERS; i++)
        assert_int_equal(send(fd, &ask, sizeof ask, 0), sizeof ask);
    return fd;
}

static void
t_what_the_kernel_keeps_is_seen_to_grow(void **state)
{
    struct hoard_watch w;
    int fds[HOARD_SOCKETS], n = 0;
    bool grown = false;

    (void)state;
    hoard_open(&w);
    assert_true(w.low_kib > 0);
    while (!grown && n < HOARD_SOCKETS) {
        fds[n++] = fill_netlink();
        grown = hoard_suspected(&w);
    }
    assert_true(grown);
    while (n > 0)
        (void)close(fds[--n]);
    hoard_close(&w);
    /* without sandboxes there is nobody to end */
    hoard_end(&o, 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_kernel_ids_are_bounded),
        cmocka_unit_test(t_options_come_from_the_settings_and_name_what_does_not_fit),
        cmocka_unit_test(t_a_name_is_taken_once_and_seen_only_when_it_listens),
        cmocka_unit_test(t_an_end_is_remembered_and_forbids_a_second_life),
        cmocka_unit_test(t_sandboxes_are_listed_in_order_and_other_names_passed_over),
        cmocka_unit_test(t_output_is_relayed_within_bounds_and_never_waited_for),
        cmocka_unit_test(t_output_goes_to_files_and_sockets_and_nowhere),
        cmocka_unit_test(t_output_goes_nowhere_it_may_not_be_written),
        cmocka_unit_test(t_output_is_sent_in_the_name_of_who_passed_the_socket),
        cmocka_unit_test(t_errors_have_the_number_that_the_wire_promises),
        cmocka_unit_test(t_a_monitor_keeps_the_rights_it_needs_and_no_other),
        cmocka_unit_test(t_what_the_kernel_keeps_is_seen_to_grow),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
