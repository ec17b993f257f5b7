/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

/* The real husk-master of this build directory with workers of support/fake_worker.c. */

#define WAIT_MS 20000

struct fixture {
    char dir[32];
    pid_t master;
    int notify_fd;
};

struct answer {
    int pid, generation, slot;
};

static const char *
in_dir(const struct fixture *f, const char *name)
{
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    (void)snprintf(path, sizeof paths[0], "%s/%s", f->dir, name);
    return path;
}

static void
write_config(const struct fixture *f, const char *more)
{
    FILE *out = fopen(in_dir(f, "conf"), "we");

    assert_non_null(out);
    (void)fprintf(out,
                  "SANDBOX_STATE_DIR=%s\nSANDBOX_RUNTIME_DIR=%s/run\nSANDBOX_WORKERS_EXEC=1\n"
                  "SANDBOX_WORKERS_API=2\nSANDBOX_WORKERS_BULK=1\nSANDBOX_WORKERS_CTL=1\n%s",
                  f->dir, f->dir, more);
    assert_int_equal(fclose(out), 0);
}

/* husk-master in the background; its environment is complete here. */
static pid_t
spawn_master(const struct fixture *f)
{
    char cwd[PATH_MAX], fake[PATH_MAX + 32];
    pid_t pid;

    assert_non_null(getcwd(cwd, sizeof cwd));
    (void)snprintf(fake, sizeof fake, "%s/fake_worker", cwd);
    pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setenv("HUSK_WORKER_PROGRAM", fake, 1);
    (void)setenv("HUSK_REAPER_PROGRAM", fake, 1);
    (void)setenv("HUSK_FAKE_SCOREBOARD", in_dir(f, "run/scoreboard"), 1);
    (void)setenv("HUSK_FAKE_CRASHES", in_dir(f, "crashes"), 1);
    (void)setenv("NOTIFY_SOCKET", in_dir(f, "notify"), 1);
    int log = open(in_dir(f, "log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)dup2(log, STDERR_FILENO);
    (void)execl("./husk-master", "husk-master", "--config", in_dir(f, "conf"), (char *)NULL);
    _exit(127);
}

/* Waits for a notification that begins so. */
static void
await_notice(const struct fixture *f, const char *what)
{
    struct deadline d = deadline_in(WAIT_MS);
    char text[256];

    for (;;) {
        assert_int_equal(fd_wait(f->notify_fd, POLLIN, d), 1);
        ssize_t n = recv(f->notify_fd, text, sizeof text - 1, 0);
        assert_true(n >= 0);
        text[n] = '\0';
        if (strncmp(text, what, strlen(what)) == 0)
            return;
    }
}

static int
set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    (void)snprintf(f->dir, sizeof f->dir, "/tmp/husk-master-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    write_config(f, "");
    f->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", in_dir(f, "notify"));
    if (bind(f->notify_fd, (const struct sockaddr *)&at, sizeof at) < 0)
        return -1;
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    static const char *const names[] = {"run/husk.pid", "run/scoreboard", "run/exec.sock",
                                        "run/api.sock", "run/bulk.sock",  "run/ctl.sock",
                                        "run",          "conf",           "notify",
                                        "log",          "crashes"};
    struct fixture *f = *state;

    if (f->master > 0) {
        (void)kill(f->master, SIGTERM);
        (void)kill(f->master, SIGTERM);
        (void)waitpid(f->master, NULL, 0);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)remove(in_dir(f, names[i]));
    (void)close(f->notify_fd);
    int r = rmdir(f->dir);
    free(f);
    return r;
}

static void
start(struct fixture *f)
{
    f->master = spawn_master(f);
    await_notice(f, "READY=1");
}

static int
status_within(pid_t pid, int64_t ms)
{
    struct deadline d = deadline_in(ms);
    int status = -1;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        assert_false(deadline_passed(d));
        (void)poll(NULL, 0, 5);
    }
    return status;
}

static void
stop(struct fixture *f)
{
    assert_int_equal(kill(f->master, SIGTERM), 0);
    assert_int_equal(status_within(f->master, WAIT_MS), 0);
    f->master = 0;
}

/* -1 if nobody listens. */
static int
dial(const struct fixture *f, const char *sock)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", in_dir(f, sock));
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int
send_command(const struct fixture *f, const char *sock, char what)
{
    int fd = dial(f, sock);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, &what, 1), 0);
    return fd;
}

/* A worker has the request when this returns, and keeps it until receive_slow(). */
static int
send_slow(const struct fixture *f, const char *sock)
{
    int fd = send_command(f, sock, 's');
    char space;

    assert_int_equal(fd_wait(fd, POLLIN, deadline_in(WAIT_MS)), 1);
    assert_int_equal(fd_read_all(fd, &space, 1), 0);
    return fd;
}

static struct answer
receive(int fd)
{
    char text[100] = "";
    size_t n = 0;
    struct answer a = {0, 0, 0};

    while (n < sizeof text - 1) {
        assert_int_equal(fd_wait(fd, POLLIN, deadline_in(WAIT_MS)), 1);
        ssize_t r = read(fd, text + n, sizeof text - 1 - n);
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    (void)close(fd);
    assert_int_equal(sscanf(text, "%d %d %d", &a.pid, &a.generation, &a.slot), 3);
    return a;
}

static struct answer
receive_slow(int fd)
{
    assert_int_equal(fd_write_all(fd, "!", 1), 0);
    return receive(fd);
}

static struct answer
ask(const struct fixture *f, const char *sock, char what)
{
    return receive(send_command(f, sock, what));
}

static bool
log_has(const struct fixture *f, const char *what)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);

    return fd_read_file(in_dir(f, "log"), &text, NULL) == 0 && strstr(buf_str(&text), what);
}

static void
await_gone(pid_t pid)
{
    struct deadline d = deadline_in(WAIT_MS);

    while (kill(pid, 0) == 0) {
        assert_false(deadline_passed(d));
        (void)poll(NULL, 0, 5);
    }
}

static void
starts_answers_and_stops(void **state)
{
    struct fixture *f = *state;
    static const char *const socks[] = {"run/exec.sock", "run/api.sock", "run/bulk.sock",
                                        "run/ctl.sock"};
    struct stat st;

    start(f);
    for (size_t i = 0; i < 4; i++) {
        struct answer a = ask(f, socks[i], 'p');
        assert_int_equal(a.generation, 1);
        assert_int_not_equal(a.pid, f->master);
        assert_int_equal(stat(in_dir(f, socks[i]), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0660);
    }
    stop(f);
    assert_int_equal(dial(f, "run/api.sock"), -1);
}

static void
crashed_worker_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct answer before, after;

    start(f);
    before = ask(f, "run/exec.sock", 'p');
    (void)close(send_command(f, "run/exec.sock", 'x'));
    after = ask(f, "run/exec.sock", 'p'); /* waits in the backlog till the new one is there */
    assert_int_not_equal(after.pid, before.pid);
    assert_int_equal(kill(after.pid, SIGKILL), 0);
    before = ask(f, "run/exec.sock", 'p');
    assert_int_not_equal(before.pid, after.pid);
    stop(f);
}

static void
crash_loop_is_throttled(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    int fd = open(in_dir(f, "crashes"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    (void)close(fd);
    f->master = spawn_master(f);
    /* 1.6 s hold the starts at 0, 0.1, 0.3, 0.7 and 1.5 s of five workers, not thousands. */
    (void)poll(NULL, 0, 1600);
    assert_int_equal(stat(in_dir(f, "crashes"), &st), 0);
    assert_in_range(st.st_size, 5, 30);
    /* A reload forgets the delay. */
    assert_int_equal(remove(in_dir(f, "crashes")), 0);
    assert_int_equal(kill(f->master, SIGHUP), 0);
    await_notice(f, "READY=1");
    stop(f);
}

static void
reload_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct answer old, during, slow;
    int fd;

    start(f);
    old = ask(f, "run/exec.sock", 'p');
    fd = send_slow(f, "run/exec.sock");
    write_config(f, "SANDBOX_WORKERS_API=3\n");
    assert_int_equal(kill(f->master, SIGHUP), 0);
    during = ask(f, "run/exec.sock", 'p'); /* the old one is busy: a new one answers */
    slow = receive_slow(fd);
    assert_int_equal(slow.pid, old.pid);
    assert_int_equal(during.generation, 2);
    await_notice(f, "READY=1");
    await_gone(old.pid);
    /* An old one may take a last request before it hears the signal; none is lost. */
    struct deadline d = deadline_in(WAIT_MS);
    for (int in_row = 0; in_row < 20;) {
        in_row = ask(f, "run/api.sock", 'p').generation == 2 ? in_row + 1 : 0;
        assert_false(deadline_passed(d));
    }
    stop(f);
}

/* Reloads that come before the last one's workers are ready: those it started are in the way. */
static void
reloads_in_a_row_end_in_the_last(void **state)
{
    struct fixture *f = *state;

    start(f);
    for (int i = 0; i < 150; i++) {
        assert_int_equal(kill(f->master, SIGHUP), 0);
        (void)poll(NULL, 0, 3);
    }
    await_notice(f, "READY=1"); /* the last one's, since none is left to come */
    stop(f);
}

static void
bad_settings_are_refused_at_reload(void **state)
{
    struct fixture *f = *state;
    struct answer old;

    start(f);
    old = ask(f, "run/exec.sock", 'p');
    write_config(f, "SANDBOX_NO_SUCH_THING=1\n");
    assert_int_equal(kill(f->master, SIGHUP), 0);
    struct deadline d = deadline_in(WAIT_MS);
    while (!log_has(f, "SANDBOX_NO_SUCH_THING")) {
        assert_false(deadline_passed(d));
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(ask(f, "run/exec.sock", 'p').pid, old.pid);
    stop(f);
}

static void
drain_finishes_requests_but_not_for_ever(void **state)
{
    struct fixture *f = *state;
    struct answer hung;
    int64_t began;
    int fd;

    write_config(f, "SANDBOX_DRAIN_TIMEOUT=700ms\n");
    start(f);
    hung = ask(f, "run/api.sock", 'i');
    fd = send_slow(f, "run/exec.sock");
    began = clock_mono_ms();
    assert_int_equal(kill(f->master, SIGTERM), 0);
    await_notice(f, "STOPPING=1");
    assert_true(receive_slow(fd).pid > 0);
    assert_int_equal(status_within(f->master, WAIT_MS), 0);
    f->master = 0;
    assert_true(clock_mono_ms() - began >= 690);
    assert_int_equal(kill(hung.pid, 0), -1);
    assert_true(log_has(f, "it has not ended in time"));
}

static void
second_term_kills_at_once(void **state)
{
    struct fixture *f = *state;

    start(f);
    (void)ask(f, "run/api.sock", 'i');
    assert_int_equal(kill(f->master, SIGTERM), 0);
    await_notice(f, "STOPPING=1");
    assert_int_equal(kill(f->master, SIGTERM), 0);
    assert_int_equal(status_within(f->master, 10000), 0); /* the drain would last 30 s */
    f->master = 0;
}

static void
overdue_worker_is_killed(void **state)
{
    struct fixture *f = *state;
    struct answer hung;

    start(f);
    hung = ask(f, "run/exec.sock", 'h');
    await_gone(hung.pid);
    assert_true(log_has(f, "past its deadline"));
    assert_int_not_equal(ask(f, "run/exec.sock", 'p').pid, hung.pid);
    stop(f);
}

static void
second_master_is_refused(void **state)
{
    struct fixture *f = *state;
    _cleanup_buf_ struct buf text = BUF_INIT(100);
    char want[24];

    start(f);
    int status = status_within(spawn_master(f), WAIT_MS);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_true(log_has(f, "another husk-master runs"));
    (void)snprintf(want, sizeof want, "%d\n", (int)f->master);
    assert_int_equal(fd_read_file(in_dir(f, "run/husk.pid"), &text, NULL), 0);
    assert_string_equal(buf_str(&text), want);
    assert_true(ask(f, "run/exec.sock", 'p').pid > 0);
    stop(f);
}

static void
killed_master_takes_its_workers_along(void **state)
{
    struct fixture *f = *state;
    struct answer idle, slow;

    start(f);
    idle = ask(f, "run/api.sock", 'p');
    int fd = send_slow(f, "run/exec.sock");
    assert_int_equal(kill(f->master, SIGKILL), 0);
    (void)waitpid(f->master, NULL, 0);
    start(f); /* at once, while an old worker still answers */
    slow = receive_slow(fd);
    assert_int_equal(slow.generation, 1);
    await_gone(idle.pid);
    await_gone(slow.pid);
    assert_true(ask(f, "run/exec.sock", 'p').pid != slow.pid);
    stop(f);
}

#define WITH_MASTER(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_MASTER(starts_answers_and_stops),
        WITH_MASTER(crashed_worker_is_replaced),
        WITH_MASTER(crash_loop_is_throttled),
        WITH_MASTER(reload_loses_nothing),
        WITH_MASTER(reloads_in_a_row_end_in_the_last),
        WITH_MASTER(bad_settings_are_refused_at_reload),
        WITH_MASTER(drain_finishes_requests_but_not_for_ever),
        WITH_MASTER(second_term_kills_at_once),
        WITH_MASTER(overdue_worker_is_killed),
        WITH_MASTER(second_master_is_refused),
        WITH_MASTER(killed_master_takes_its_workers_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
