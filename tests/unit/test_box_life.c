/* SPDX-License-Identifier: MIT */
/* Limits and their counters, signals, ends, attached workspaces; slots and the choice of a tier. */
#include "unit/box_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/home.h"
#include "keeper/slot.h"
#include "keeper/tier.h"
#include "support/tmpdir.h"

static void
test_memory_is_bounded_and_counted(void **state)
{
    struct trial t = trial_of(TIER_HOST, "b=[]\n"
                                         "for i in range(400): b.append(b'x' * (1 << 20))\n"
                                         "print('all of it')\n");

    (void)state;
    run_trial(&t);
    assert_null(strstr(outcome->out, "all of it"));
    assert_int_equal(outcome->value, -SIGKILL);
    assert_true(outcome->counters.oom_kills >= 1);
}

static void
test_a_child_over_memory_leaves_the_kernel(void **state)
{
    struct trial t = trial_of(
        TIER_HOST, "import subprocess, sys\n"
                   "r = subprocess.run([sys.executable, '-c', 'b=[b\"x\" * (1 << 20) for i in "
                   "range(400)]'])\n"
                   "print(r.returncode)\n");

    (void)state;
    run_trial(&t);
    has("-9");
    assert_int_equal(outcome->value, 0);
    assert_true(outcome->counters.oom_kills >= 1);
}

#define FORK_BOMB                                                                                  \
    "import os, time\n"                                                                            \
    "n = 0\n"                                                                                      \
    "try:\n"                                                                                       \
    "    while n < 500:\n"                                                                         \
    "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"                                     \
    "        n += 1\n"                                                                             \
    "    print('all of them')\n"                                                                   \
    "except OSError as e: print('stopped', 20 < n < 41, e.errno)\n"

static void
test_processes_are_bounded_and_counted(void **state)
{
    struct trial t = trial_of(TIER_HOST, FORK_BOMB);

    (void)state;
    run_trial(&t);
    assert_string_equal(outcome->out, "stopped True 11\n");
    assert_true(outcome->counters.fork_refusals >= 1);
}

static void
test_processes_are_bounded_without_cgroups(void **state)
{
    static const enum tier tiers[] = {TIER_ROOTLESS, TIER_CONTAINER};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct trial t = trial_of(tiers[i], FORK_BOMB);

        run_trial(&t);
        assert_string_equal(outcome->out, "stopped True 11\n");
        renew_folder();
    }
}

static void
test_memory_is_bounded_without_cgroups(void **state)
{
    struct trial t = trial_of(TIER_ROOTLESS, "try: b = b'x' * (400 << 20); print('all of it')\n"
                                             "except MemoryError: print('refused')\n");

    (void)state;
    run_trial(&t);
    assert_string_equal(outcome->out, "refused\n");
}

/* How many processes of this uid there are: the marks of a sandbox's end. */
static int
processes_of(uid_t uid)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    struct stat st;
    int n = 0;

    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
            fstatat(dirfd(dir), e->d_name, &st, 0) == 0 && st.st_uid == uid)
            n++;
    (void)closedir(dir);
    return n;
}

static void
kill_now(struct box *b, struct outcome *o)
{
    struct cgroup none = CGROUP_INIT;
    int64_t begin = clock_mono_us();

    text(o->note, sizeof o->note, "%d", processes_of(b->uid) > 4);
    box_kill(b, &none);
    text(o->note + 1, sizeof o->note - 1, " %d %d", processes_of(b->uid),
         clock_mono_us() - begin < 2000000);
    box_kill(b, &none); /* twice is fine */
}

static void
test_killing_leaves_nothing(void **state)
{
    static const enum tier tiers[] = {TIER_HOST, TIER_CONTAINER, TIER_ROOTLESS};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct trial t = trial_of(tiers[i], "import os, time\n"
                                            "for i in range(5):\n"
                                            "    if os.fork() == 0:\n"
                                            "        os.setsid()\n"
                                            "        if os.fork(): os._exit(0)\n"
                                            "        time.sleep(60)\n"
                                            "time.sleep(0.1); print('ready', flush=True)\n"
                                            "time.sleep(60)\n");

        t.act = kill_now;
        run_trial(&t);
        /* Rootless: this test's own process has the same uid. */
        assert_string_equal(outcome->note, tiers[i] == TIER_ROOTLESS ? "1 1 1" : "1 0 1");
        renew_folder();
    }
}

static void
die(struct box *b, struct outcome *o)
{
    text(o->note, sizeof o->note, "%d", (int)b->uid);
    (void)raise(SIGKILL);
}

static bool
nobody(void *ctx, const char *kernel)
{
    (void)ctx;
    (void)kernel;
    return false;
}

/* A killed monitor takes its sandbox along; its group is for the next keeper to sweep. */
static void
test_a_killed_monitor_takes_it_along(void **state)
{
    struct trial t = trial_of(TIER_HOST, "import os, time\n"
                                         "if os.fork() == 0:\n"
                                         "    os.setsid()\n"
                                         "    if os.fork(): os._exit(0)\n"
                                         "    time.sleep(60)\n"
                                         "print('ready', flush=True); time.sleep(60)\n");
    struct deadline d = deadline_in(5000);
    struct err err = ERR_INIT;

    (void)state;
    t.act = die;
    t.monitor_is_killed = true;
    run_trial(&t);
    while (processes_of(KERNEL_UID_BASE + 1) > 0 && !deadline_passed(d)) {
        (void)waitpid(-1, NULL, WNOHANG); /* we are pid 1 here */
        (void)poll(NULL, 0, 2);
    }
    assert_int_equal(processes_of(KERNEL_UID_BASE + 1), 0);
    assert_false(slot_taken(&t.o, 1));
    assert_int_equal(cgroup_prepare(&t.o, &err), 0);
    cgroup_sweep(&t.o, nobody, NULL);
    cgroup_release(&t.o);
    for (size_t i = 0; i < 3; i++)
        assert_true(t.o.cgroup_dir[i][0] == '\0' || access(t.o.cgroup_dir[i], F_OK) < 0);
}

/* Without a pid namespace its daemons live on: the sweep ends them before their uid is another's.
 */
static void
test_the_sweep_ends_what_a_killed_monitor_left(void **state)
{
    struct trial t = trial_of(TIER_CONTAINER, "import os, time\n"
                                              "if os.fork() == 0:\n"
                                              "    os.setsid()\n"
                                              "    if os.fork(): os._exit(0)\n"
                                              "    time.sleep(60)\n"
                                              "print('ready', flush=True); time.sleep(60)\n");
    struct deadline d = deadline_in(5000);
    char homes[PATH_MAX], home[PATH_MAX];

    (void)state;
    t.act = die;
    t.monitor_is_killed = true;
    run_trial(&t);
    while (slot_taken(&t.o, 1) && !deadline_passed(d))
        (void)poll(NULL, 0, 2); /* init, which has the slot, goes with the monitor */
    assert_true(processes_of(KERNEL_UID_BASE + 1) > 0);
    assert_int_equal(mkdir(tmpdir_path(homes, folder, "homes"), 0711), 0);
    assert_int_equal(mkdir(tmpdir_path(home, homes, BOX_KERNEL), 0700), 0);
    assert_int_equal(chown(home, KERNEL_UID_BASE + 1, KERNEL_UID_BASE + 1), 0);
    home_sweep(&t.o, nobody, NULL);
    d = deadline_in(5000);
    while (processes_of(KERNEL_UID_BASE + 1) > 0 && !deadline_passed(d)) {
        (void)waitpid(-1, NULL, WNOHANG);
        (void)poll(NULL, 0, 2);
    }
    assert_int_equal(processes_of(KERNEL_UID_BASE + 1), 0);
    assert_int_equal(access(home, F_OK), -1);
}

static void
test_a_filter_without_clone3_is_no_hindrance(void **state)
{
    static const enum tier tiers[] = {TIER_HOST, TIER_CONTAINER};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct trial t = trial_of(tiers[i], "print('hello')\n");

        t.no_clone3 = true;
        run_trial(&t);
        has("hello");
        renew_folder();
    }
}

static void
test_terminals_are_bounded(void **state)
{
    struct trial t = trial_of(TIER_HOST, "import os\n"
                                         "n = 0\n"
                                         "try:\n"
                                         "    while n < 1000: os.open('/dev/ptmx', 2); n += 1\n"
                                         "except OSError as e: print(n, e.errno)\n");

    (void)state;
    run_trial(&t);
    has("64 28");
}

/* What only a descriptor from outside could tell it. */
static void
test_the_listeners_cross_and_nothing_else(void **state)
{
    struct trial t = trial_of(TIER_HOST, "import os\n"
                                         "os.write(5, b'through five\\n')\n"
                                         "print(os.read(0, 1), os.readlink('/proc/self/fd/3'))\n");

    (void)state;
    run_trial(&t);
    assert_string_equal(outcome->out, "through five\nb'' /dev/null\n");
}

/* The listener of the filter has something to read, and when it goes the call fails. */
static void
serve_nothing(struct box *b, struct outcome *o)
{
    struct pollfd p = {.fd = b->notify_fd, .events = POLLIN};
    int r = b->notify_fd >= 0 ? poll(&p, 1, 5000) : -1;

    text(o->note, sizeof o->note, "%d", r == 1 && (p.revents & POLLIN) != 0);
    (void)close(b->notify_fd);
    b->notify_fd = -1;
}

static void
test_supervised_calls_reach_the_monitor(void **state)
{
    static const enum tier tiers[] = {TIER_ROOTLESS, TIER_CONTAINER};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct trial t = trial_of(tiers[i], "import socket\n"
                                            "s = socket.socket()\n"
                                            "print('ready', flush=True)\n"
                                            "try: s.connect(('127.0.0.1', 9))\n"
                                            "except OSError as e: print(e.errno)\n");

        t.o.egress = EGRESS_PUBLIC;
        t.act = serve_nothing;
        run_trial(&t);
        assert_string_equal(outcome->note, "1");
        assert_string_equal(outcome->out, "ready\n38\n");
        renew_folder();
    }
}

static void
interrupt(struct box *b, struct outcome *o)
{
    o->value = box_signal(b, SIGINT);
}

static void
test_signals_reach_the_interpreter(void **state)
{
    static const enum tier tiers[] = {TIER_HOST, TIER_CONTAINER};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct trial t = trial_of(tiers[i], "import time, sys\n"
                                            "try:\n"
                                            "    print('ready', flush=True)\n"
                                            "    time.sleep(20)\n"
                                            "except KeyboardInterrupt:\n"
                                            "    print('interrupted'); sys.exit(7)\n");

        t.act = interrupt;
        run_trial(&t);
        assert_string_equal(outcome->out, "ready\ninterrupted\n");
        assert_int_equal(outcome->value, 7);
        renew_folder();
    }
}

static void
test_the_end_is_the_interpreters(void **state)
{
    struct trial t = trial_of(TIER_HOST, "import os; os.kill(os.getpid(), 11)");

    (void)state;
    run_trial(&t);
    assert_int_equal(outcome->value, -SIGSEGV);
}

/* A folder with a file in it, as a detached mount. */
static int
a_tree(void)
{
    int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), tree;

    assert_true(fs >= 0 && fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0777", 0) == 0 &&
                fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0);
    tree = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    assert_true(tree >= 0);
    (void)close(fs);
    return tree;
}

static void
attach_twice(struct box *b, struct outcome *o)
{
    int first = a_tree(), second = a_tree();
    struct err err = ERR_INIT;
    int r = box_attach(b, first, &err);

    if (r < 0) {
        text(o->note, sizeof o->note, "%s", err.msg);
        return;
    }
    r = box_attach(b, second, &err);
    text(o->note, sizeof o->note, "%d %d", r, err.sys_errno == EBUSY);
    (void)box_signal(b, SIGUSR1);
}

static void
test_a_workspace_is_attached_once(void **state)
{
    static const enum tier tiers[] = {TIER_HOST, TIER_ROOTLESS};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct trial t = trial_of(
            tiers[i], "import os, signal\n"
                      "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
                      "print('ready', flush=True); signal.sigwait([signal.SIGUSR1])\n"
                      "open('/workspace/a', 'w').write('x'); os.mkdir('/home/workspace/d')\n"
                      "os.rename('/home/workspace/a', '/workspace/d/b')\n"
                      "print(open('/home/workspace/d/b').read())\n");

        t.act = attach_twice;
        run_trial(&t);
        assert_string_equal(outcome->note, "-1 1");
        assert_string_equal(outcome->out, "ready\nx\n");
        renew_folder();
    }
}

static void
test_slots(void **state)
{
    struct trial t = trial_of(TIER_HOST, "");
    struct err err = ERR_INIT;
    int a, b, c, first, second;

    (void)state;
    first = slot_take(&t.o, &a, &err);
    second = slot_take(&t.o, &b, &err);
    assert_true(first >= 0 && second >= 0);
    assert_true(a == 1 && b == 2 && slot_taken(&t.o, 1) && !slot_taken(&t.o, 3));
    (void)close(first);
    assert_false(slot_taken(&t.o, 1));
    first = slot_take(&t.o, &c, &err);
    assert_int_equal(c, 1);
    (void)close(first);
    (void)close(second);
    text(t.o.state_dir, sizeof t.o.state_dir, "%s/none", folder);
    assert_int_equal(slot_take(&t.o, &c, &err), -1);
    assert_true(slot_taken(&t.o, 1));
}

static void
probe_as(enum tier tier, const char *wanted, const char *minimum, struct tier_probe *ret)
{
    struct tier_probe *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct err err = ERR_INIT;
    pid_t pid = fork();

    if (pid == 0) {
        if (tier == TIER_CONTAINER)
            become_container_root();
        if (tier == TIER_ROOTLESS)
            become_ordinary();
        _exit(tier_probe(wanted, minimum, shared, &err) < 0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    *ret = *shared;
    (void)munmap(shared, sizeof *shared);
}

static void
test_the_best_tier_is_found(void **state)
{
    static const enum tier tiers[] = {TIER_HOST, TIER_ROOTLESS, TIER_CONTAINER};
    struct tier_probe p;
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        probe_as(tiers[i], "auto", "container", &p);
        if (p.tier != tiers[i] || !p.enough)
            fail_msg("%s: %s", tier_name(tiers[i]), p.detail);
        assert_int_equal(p.detail[0] == '\0', tiers[i] != TIER_CONTAINER);
    }
    probe_as(TIER_CONTAINER, "auto", "host", &p);
    assert_false(p.enough);
    assert_non_null(strstr(p.detail, "--privileged"));
    probe_as(TIER_CONTAINER, "host", "none", &p);
    assert_true(p.tier == TIER_NONE && !p.enough);
    probe_as(TIER_HOST, "none", "none", &p);
    assert_true(p.tier == TIER_NONE && p.enough);
    probe_as(TIER_HOST, "none", "container", &p);
    assert_false(p.enough);
    assert_int_equal(tier_probe("best", "none", &p, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(test_memory_is_bounded_and_counted),
        BOX_TEST(test_a_child_over_memory_leaves_the_kernel),
        BOX_TEST(test_processes_are_bounded_and_counted),
        BOX_TEST(test_processes_are_bounded_without_cgroups),
        BOX_TEST(test_memory_is_bounded_without_cgroups),
        BOX_TEST(test_killing_leaves_nothing),
        BOX_TEST(test_a_killed_monitor_takes_it_along),
        BOX_TEST(test_the_sweep_ends_what_a_killed_monitor_left),
        BOX_TEST(test_a_filter_without_clone3_is_no_hindrance),
        BOX_TEST(test_terminals_are_bounded),
        BOX_TEST(test_the_listeners_cross_and_nothing_else),
        BOX_TEST(test_supervised_calls_reach_the_monitor),
        BOX_TEST(test_signals_reach_the_interpreter),
        BOX_TEST(test_the_end_is_the_interpreters),
        BOX_TEST(test_a_workspace_is_attached_once),
        BOX_TEST(test_slots),
        BOX_TEST(test_the_best_tier_is_found),
    };

    enter_namespaces();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
