/* SPDX-License-Identifier: MIT */
#include "notify_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "keeper/egress.h"
#include "keeper/notify.h"

struct keeper_options session_options = {
    .tier = TIER_CONTAINER, .egress = EGRESS_PUBLIC, .egress_dns = NET_RESOLVER};
char session_home[] = "/tmp/husk-notify-XXXXXX";

/* Starts f as a session, with its supervisor, both left to be reaped. */
pid_t
start_session(void (*f)(void), pid_t *ret_supervisor)
{
    struct err err = ERR_INIT;
    int up[2], down[2], number;
    char byte;

    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(setresgid(SESSION_UID, SESSION_UID, SESSION_UID) == 0);
        CHECK(setresuid(SESSION_UID, SESSION_UID, SESSION_UID) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && chdir(session_home) == 0);
        CHECK(c && notify_rules(c) == 0 && seccomp_load(c) == 0);
        number = seccomp_notify_fd(c);
        CHECK(fd_write_all(up[1], &number, sizeof number) == 0);
        CHECK(fd_read_all(down[0], &byte, 1) == 0);
        (void)close(number);
        f();
        _exit(0);
    }
    assert_int_equal(fd_read_all(up[0], &number, sizeof number), 0);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int notify_fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
    assert_true(notify_fd >= 0);
    pid_t supervisor =
        egress_supervise(&session_options, SESSION_UID, session_home, notify_fd, &err);
    if (supervisor < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(fd_write_all(down[1], "g", 1), 0);
    (void)close(notify_fd);
    (void)close(pidfd);
    for (int i = 0; i < 2; i++) {
        (void)close(up[i]);
        (void)close(down[i]);
    }
    *ret_supervisor = supervisor;
    return pid;
}

void
run_session(void (*f)(void))
{
    int status;
    pid_t supervisor, pid = start_session(f, &supervisor);

    assert_int_equal(waitpid(pid, &status, 0), pid);
    /* with the last process of the session it ends by itself */
    assert_int_equal(waitpid(supervisor, NULL, 0), supervisor);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int
connect_to(int type, const char *address, uint16_t port)
{
    struct sockaddr_storage to;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    socklen_t n = sizeof v6;

    if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1) {
        memcpy(&to, &v6, sizeof v6);
    } else {
        n = sizeof(struct sockaddr_in);
        memset(&to, 0, sizeof to);
        to.ss_family = AF_INET;
        ((struct sockaddr_in *)&to)->sin_port = htons(port);
        CHECK(inet_pton(AF_INET, address, &((struct sockaddr_in *)&to)->sin_addr) == 1);
    }
    int fd = socket(to.ss_family, type, 0);
    CHECK(fd >= 0);
    int rc = connect(fd, (struct sockaddr *)&to, n);
    int saved = errno;
    (void)close(fd);
    return rc == 0 ? 0 : saved;
}

static int
set_up(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    if (egress_prepare(&session_options, &err) < 0) {
        (void)fprintf(stderr, "egress_prepare: %s\n", err.msg);
        return -1;
    }
    return mkdtemp(session_home) && chown(session_home, SESSION_UID, SESSION_UID) == 0 ? 0 : -1;
}

static int
tear_down(void **state)
{
    char path[64];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/root.sock", session_home);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/own.sock", session_home);
    (void)unlink(path);
    return rmdir(session_home);
}

int
notify_tests_run(const struct CMUnitTest *tests, size_t n)
{
    struct net_world world = {0};
    int status = net_world_make(&world);

    if (status == 0)
        status = _cmocka_run_group_tests("notify", tests, n, set_up, tear_down) != 0;
    net_world_end(&world);
    return status;
}
