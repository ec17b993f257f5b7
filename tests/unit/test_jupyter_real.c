/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sig.h"
#include "support/runtime.h"

/* The backend against a real jupyter-server with the kernelspec of deployment/sandbox. */

static char dir[] = "/tmp/husk-jup-XXXXXX";
static char url[64];
static pid_t gateway;

static int
free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return -1;
    (void)close(fd);
    return ntohs(a.sin_port);
}

static void
gateway_child(int port)
{
    char text[128];

    sig_reset_all();
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)setsid();
    (void)snprintf(text, sizeof text, "%d", port);
    (void)setenv("HUSK_GATEWAY_PORT", text, 1);
    (void)setenv("SANDBOX_GATEWAY_AUTH_TOKEN", "sesame", 1);
    (void)setenv("HUSK_GATEWAY_STATE", dir, 1);
    (void)snprintf(text, sizeof text, "%s/run", dir);
    (void)setenv("JUPYTER_RUNTIME_DIR", text, 1);
    if (freopen("/dev/null", "r", stdin) == NULL)
        _exit(126);
    (void)snprintf(text, sizeof text, "%s/log", dir);
    if (freopen(text, "w", stdout) == NULL || dup2(1, 2) < 0)
        _exit(126);
    execl(SRCDIR "/deployment/sandbox/gateway-launch.sh", "gateway-launch.sh", (char *)NULL);
    _exit(127);
}

static int
group_setup(void **state)
{
    struct runtime t;
    struct deadline d = deadline_in(30000);
    int port = free_port();
    int rc = -1;

    (void)state;
    sig_ignore_pipe();
    if (port < 0 || mkdtemp(dir) == NULL)
        return -1;
    gateway = fork();
    if (gateway == 0)
        gateway_child(port);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    if (runtime_backend(&t, url, "sesame") < 0)
        return -1;
    while (rc < 0 && !deadline_passed(d)) {
        rc = t.sb->ops->ping(t.sb, deadline_in(1000), &t.err);
        (void)usleep(100000);
    }
    if (rc < 0)
        print_message("gateway: %s\n", t.err.msg);
    runtime_done(&t);
    return rc;
}

static int
group_teardown(void **state)
{
    struct deadline d = deadline_in(8000);
    char command[64];

    (void)state;
    (void)kill(gateway, SIGTERM);
    while (waitpid(gateway, NULL, WNOHANG) == 0) {
        if (deadline_passed(d))
            (void)kill(gateway, SIGKILL);
        (void)usleep(20000);
    }
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) == 0 ? 0 : -1;
}

static int
setup(void **state)
{
    struct runtime *t = calloc(1, sizeof *t);

    if (t == NULL || runtime_backend(t, url, "sesame") < 0)
        return -1;
    if (runtime_open(t) < 0) {
        print_message("open: %s\n", t->err.msg);
        return -1;
    }
    *state = t;
    return 0;
}

static int
teardown(void **state)
{
    runtime_done(*state);
    free(*state);
    return 0;
}

static void
expect_run(struct runtime *t, const char *code, int64_t timeout_ms, enum exec_reason reason)
{
    int rc = runtime_run(t, code, timeout_ms);

    if (rc != 0 || t->r.reason != reason)
        print_message("%s: rc %d %s, reason %s, took %lld ms\n", code, rc, t->err.msg,
                      exec_reason_name(t->r.reason), (long long)t->took_ms);
    assert_int_equal(rc, 0);
    assert_int_equal(t->r.reason, reason);
}

static void
expect_out(struct runtime *t, const char *code, const char *out)
{
    expect_run(t, code, 20000, REASON_COMPLETED);
    assert_string_equal(t->r.out, out);
    assert_true(t->r.ok);
    assert_false(t->r.incomplete);
}

static void
test_state_is_kept(void **state)
{
    struct runtime *t = *state;

    expect_out(t, "x = 41", "");
    expect_out(t, "x += 1\nprint(x)", "42\n");
    expect_run(t, "1/0", 20000, REASON_EXCEPTION);
    assert_string_equal(t->r.error_name, "ZeroDivisionError");
    expect_run(t, "raise KeyboardInterrupt", 20000, REASON_EXCEPTION);
    expect_out(t, "print(x)", "42\n");
}

static void
test_kept_channel_is_quick(void **state)
{
    struct runtime *t = *state;
    int64_t best = INT64_MAX;

    for (int i = 0; i < 10; i++) {
        expect_out(t, "print(1)", "1\n");
        if (t->took_ms < best)
            best = t->took_ms;
    }
    assert_in_range(best, 0, 25); /* a delayed ACK alone is 40 */
}

static void
test_timeouts(void **state)
{
    static const struct {
        const char *code;
        enum { DIES, SURVIVES, EITHER } fate; /* of the kernel */
    } cases[] = {
        {"import time\ntry:\n    time.sleep(99)\nfinally:\n    time.sleep(1); print('tail')",
         SURVIVES},
        {"import asyncio; await asyncio.sleep(999)", EITHER},
        {"import time\nwhile True:\n  try:\n    time.sleep(1)\n  except BaseException: pass", DIES},
        {"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", DIES},
        {"n = 9**(9**9)", EITHER},
    };
    struct runtime *t = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_run(t, cases[i].code, 1000, REASON_TIMEOUT);
        assert_false(t->r.ok);
        assert_in_range(t->took_ms, 1000, 11500);
        if (cases[i].fate != EITHER && t->r.runtime_invalidated != (cases[i].fate == DIES))
            fail_msg("the kernel's fate is not as expected after %s", cases[i].code);
        assert_in_range(t->longest_pause_ms, 0, 400);
        if (t->r.runtime_invalidated) {
            assert_int_equal(runtime_run(t, "print(1)", 5000), -1);
            assert_string_equal(t->err.slug, "runtime_gone");
            assert_int_equal(runtime_open(t), 0);
        }
        expect_out(t, "print('two')", "two\n");
        expect_out(t, "print('three')", "three\n");
    }
}

static void
test_death_is_noticed(void **state)
{
    static const char *const codes[] = {
        "print('before', flush=True)\nimport os; os._exit(1)",
        "import os, signal; os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
    };
    struct runtime *t = *state;

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        expect_run(t, codes[i], 60000, REASON_KERNEL_DIED);
        assert_true(t->r.runtime_invalidated);
        assert_in_range(t->took_ms, 0, 9000);
        if (t->sb->ops->close(t->sb, t->made.handle, deadline_in(10000), &t->err) < 0)
            fail_msg("close after %s: %s", codes[i], t->err.msg);
        if (runtime_open(t) < 0)
            fail_msg("open after %s: %s", codes[i], t->err.msg);
    }
    expect_out(t, "print('lives')", "lives\n");
}

static void
test_interrupts(void **state)
{
    struct runtime *t = *state;

    t->verdict_after_ms = 500;
    t->verdict = HOOK_INTERRUPT;
    expect_run(t, "import time; time.sleep(60)", 60000, REASON_INTERRUPTED);
    assert_in_range(t->took_ms, 500, 3000);
    t->verdict = HOOK_CLIENT_GONE;
    expect_run(t, "import time; time.sleep(60)", 60000, REASON_CLIENT_GONE);
    assert_in_range(t->took_ms, 500, 3000);
    t->verdict_after_ms = 0;
    expect_out(t, "print('next')", "next\n");
}

static void
test_large_output(void **state)
{
    struct runtime *t = *state;

    expect_run(t, "print('A'*3_700_000)", 20000, REASON_COMPLETED);
    assert_int_equal(t->r.bytes_stdout, 3700001);
    assert_true(t->r.truncated);
    assert_in_range(t->r.out_len, 60000, 66000);
    expect_run(
        t, "from IPython.display import display\ndisplay({'text/html':'x'*5_000_000}, raw=True)",
        20000, REASON_COMPLETED);
    expect_out(t, "print('S')", "S\n");
}

static void
test_flood_is_ended(void **state)
{
    struct runtime *t = *state;

    expect_run(t, "while True: print('x'*100000)", 60000, REASON_OUTPUT_LIMIT);
    assert_true(t->r.truncated);
    if (t->r.runtime_invalidated) /* a slow machine did not get through it in time */
        assert_int_equal(runtime_open(t), 0);
    expect_out(t, "print('clean')", "clean\n");
}

static void
test_large_code(void **state)
{
    struct runtime *t = *state;
    size_t n = 7 * 1000 * 1000;
    char *code = malloc(n + 16);

    assert_non_null(code);
    memset(code, 'a', n);
    memcpy(code, "#", 1);
    (void)snprintf(code + n, 16, "\nprint(7)");
    expect_out(t, code, "7\n");
    free(code);
}

static void
test_input_fails_at_once(void **state)
{
    expect_run(*state, "input('n? ')", 20000, REASON_EXCEPTION);
    assert_string_equal(((struct runtime *)*state)->r.error_name, "StdinNotImplementedError");
}

static void
test_bind_changes_directory(void **state)
{
    struct runtime *t = *state;
    struct runtime_ref rt = {.handle = t->made.handle, .kernel_session = t->made.kernel_session};
    char path[128], expected[140];

    (void)snprintf(path, sizeof path, "%s/it's \"\xc3\xa4\"", dir);
    assert_int_equal(fd_mkdirs(path, 0700, &t->err), 0);
    assert_int_equal(t->sb->ops->bind(t->sb, &rt, path, deadline_in(5000), &t->err), 0);
    (void)snprintf(expected, sizeof expected, "%s\n", path);
    expect_out(t, "import os; print(os.getcwd())", expected);
    expect_out(t, "print(len(In), sorted(n for n in globals() if n in ('os', '_h')))",
               "3 ['os']\n");
    assert_int_equal(t->sb->ops->bind(t->sb, &rt, "/nowhere/at/all", deadline_in(5000), &t->err),
                     -1);
}

/* Ends the kernel's process from outside, behind the gateway's back. */
static void
kill_kernel(struct runtime *t)
{
    expect_run(t, "import os; print(os.getpid())", 5000, REASON_COMPLETED);
    assert_int_equal(kill((pid_t)strtol(t->r.out, NULL, 10), SIGKILL), 0);
}

static void
test_silent_restart_is_noticed(void **state)
{
    struct runtime *t = *state;
    enum alive a = ALIVE_UNKNOWN;

    kill_kernel(t);
    t->sb->ops->forget(t->sb, t->made.handle);
    (void)sleep(5); /* the gateway restarts it under the same id */
    assert_int_equal(t->sb->ops->alive(t->sb, t->made.handle, deadline_in(5000), &a, &t->err), 0);
    assert_int_equal(a, ALIVE_YES);
    assert_int_equal(runtime_run(t, "print('must not run')", 10000), -1);
    assert_string_equal(t->err.slug, "runtime_gone");
}

static void
test_restart_on_kept_channel_is_noticed(void **state)
{
    struct runtime *t = *state;
    struct pollfd fds[8];

    kill_kernel(t);
    assert_int_equal(t->sb->ops->idle_fds(t->sb, fds, 8), 1);
    for (int i = 0; i < 50; i++) {
        (void)usleep(100000);
        t->sb->ops->idle(t->sb);
    }
    assert_int_equal(t->sb->ops->idle_fds(t->sb, fds, 8), 0);
    assert_int_equal(runtime_run(t, "print('must not run')", 10000), -1);
    assert_string_equal(t->err.slug, "runtime_gone");
}

static bool
is_running(pid_t pid)
{
    char path[64];
    struct buf b = BUF_INIT(4096);
    bool running;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    running = fd_read_file(path, &b, NULL) == 0 && strstr(buf_str(&b), ") Z ") == NULL;
    buf_done(&b);
    return running;
}

static void
test_close_ends_left_over_processes(void **state)
{
    struct runtime *t = *state;
    struct deadline d = deadline_in(10000);
    pid_t pid;

    expect_run(t,
               "import subprocess\n"
               "print(subprocess.run(['setsid', 'sh', '-c', 'sleep 600 >/dev/null 2>&1 & echo $!'],"
               " capture_output=True, text=True).stdout)",
               10000, REASON_COMPLETED);
    pid = (pid_t)strtol(t->r.out, NULL, 10);
    assert_true(pid > 1);
    assert_true(is_running(pid));
    assert_int_equal(t->sb->ops->close(t->sb, t->made.handle, deadline_in(10000), &t->err), 0);
    while (is_running(pid) && !deadline_passed(d))
        (void)usleep(50000);
    assert_false(is_running(pid));
    /* A second close finds nothing, which is as good. */
    assert_int_equal(t->sb->ops->close(t->sb, t->made.handle, deadline_in(10000), &t->err), 0);
}

static void
test_environment_holds_no_secret(void **state)
{
    expect_out(*state,
               "import os, glob\n"
               "found = [n for n in os.environ if 'TOKEN' in n or 'HUSK' in n or 'JPY' in n]\n"
               "for p in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n"
               "    try:\n"
               "        if b'sesame' in open(p, 'rb').read(): found.append(p)\n"
               "    except OSError: pass\n"
               "print(found)",
               "[]\n");
}

struct found {
    const char *handle;
    int n;
};

static int
on_kernel(void *ctx, const struct runtime_seen *seen)
{
    struct found *f = ctx;

    f->n += strcmp(seen->handle, f->handle) == 0;
    return 0;
}

static void
test_list_names_it(void **state)
{
    struct runtime *t = *state;
    struct found f = {.handle = t->made.handle};
    const struct runtime_ref ref = {.handle = t->made.handle};

    assert_int_equal(t->sb->ops->list(t->sb, on_kernel, &f, deadline_in(5000), &t->err), 0);
    assert_int_equal(f.n, 1);
    assert_int_equal(t->sb->ops->close(t->sb, t->made.handle, deadline_in(10000), &t->err), 0);
    assert_int_equal(t->sb->ops->list(t->sb, on_kernel, &f, deadline_in(5000), &t->err), 0);
    assert_int_equal(f.n, 1);
    assert_int_equal(t->sb->ops->interrupt(t->sb, &ref, deadline_in(5000), &t->err), -1);
    assert_string_equal(t->err.slug, "runtime_gone");
}

static void
test_late_output_stays_away(void **state)
{
    struct runtime *t = *state;

    expect_run(t,
               "import threading,time\ndef w():\n  for i in range(4): time.sleep(.3); "
               "print('late',i)\nthreading.Thread(target=w).start(); print('one')",
               10000, REASON_COMPLETED);
    assert_in_range(t->took_ms, 0, 1500);
    (void)sleep(2);
    expect_out(t, "print('three')", "three\n");
}

#define WITH_KERNEL(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WITH_KERNEL(test_state_is_kept),
        WITH_KERNEL(test_kept_channel_is_quick),
        WITH_KERNEL(test_timeouts),
        WITH_KERNEL(test_death_is_noticed),
        WITH_KERNEL(test_interrupts),
        WITH_KERNEL(test_large_output),
        WITH_KERNEL(test_flood_is_ended),
        WITH_KERNEL(test_large_code),
        WITH_KERNEL(test_input_fails_at_once),
        WITH_KERNEL(test_bind_changes_directory),
        WITH_KERNEL(test_silent_restart_is_noticed),
        WITH_KERNEL(test_restart_on_kept_channel_is_noticed),
        WITH_KERNEL(test_close_ends_left_over_processes),
        WITH_KERNEL(test_environment_holds_no_secret),
        WITH_KERNEL(test_list_names_it),
        WITH_KERNEL(test_late_output_stays_away),
    };

    if (system("/usr/bin/python3 -c 'import jupyter_server, ipykernel' 2>/dev/null") != 0) {
        print_message("skipped: jupyter-server or ipykernel is not installed\n");
        return 77;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, group_setup, group_teardown) != 0;
}
