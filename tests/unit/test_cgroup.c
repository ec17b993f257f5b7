/* SPDX-License-Identifier: MIT */
/* Control groups: where they are, both interfaces' files, what is left.  v1 is the machine's where
 * it has it; v2 is a hierarchy mounted here, and files where that one has no controllers. */
#include "unit/box_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "keeper/cgroup_v2.h"
#include "support/tmpdir.h"

static void
parse(const char *mountinfo, const char *cgroup, const char *v2, const char *memory,
      const char *pids, const char *cpu)
{
    struct cgroup_place p;

    cgroup_place_parse(mountinfo, cgroup, &p);
    assert_string_equal(p.v2, v2);
    assert_string_equal(p.v1[CGROUP_MEMORY], memory);
    assert_string_equal(p.v1[CGROUP_PIDS], pids);
    assert_string_equal(p.v1[CGROUP_CPU], cpu);
}

#define V1(root, dir, options)                                                                     \
    "40 30 0:1 " root " /sys/fs/cgroup/" dir " rw,relatime shared:9 - cgroup cgroup rw," options   \
    "\n"
#define V2(root, dir) "41 30 0:2 " root " " dir " rw - cgroup2 cgroup2 rw,nsdelegate\n"

static void
test_our_place_is_found(void **state)
{
    (void)state;
    parse(V2("/", "/sys/fs/cgroup"), "0::/system.slice/husk-keeper.service\n",
          "/sys/fs/cgroup/system.slice/husk-keeper.service", "", "", "");
    parse(V2("/", "/sys/fs/cgroup"), "0::/\n", "/sys/fs/cgroup", "", "", "");
    parse(V1("/", "memory", "memory") V1("/", "pids", "pids") V1("/", "cpu,cpuacct", "cpu,cpuacct")
              V2("/", "/sys/fs/cgroup/unified"),
          "8:pids:/p\n4:memory:/m/x\n2:cpu,cpuacct:/\n0::/u\n", "/sys/fs/cgroup/unified/u",
          "/sys/fs/cgroup/memory/m/x", "/sys/fs/cgroup/pids/p", "/sys/fs/cgroup/cpu,cpuacct");
    /* A container sees its own part only, and by its path outside. */
    parse(V1("/docker/ab", "memory", "memory"), "4:memory:/docker/ab/inner\n1:cpu:/\n", "",
          "/sys/fs/cgroup/memory/inner", "", "");
    parse(V1("/docker/ab", "memory", "memory"), "4:memory:/docker/ab\n", "",
          "/sys/fs/cgroup/memory", "", "");
    /* A mount from outside our cgroup namespace, and a path that leads out of it. */
    parse(V2("/../..", "/sys/fs/cgroup"), "0::/\n", "/sys/fs/cgroup", "", "", "");
    parse(V2("/", "/sys/fs/cgroup"), "0::/../other\n", "/sys/fs/cgroup", "", "", "");
}

static void
test_odd_tables_are_survived(void **state)
{
    (void)state;
    parse("", "", "", "", "", "");
    parse("\n\n - \n41\n41 30 0:2 / /x\n", ":::\n0:\n\n4:memory\n", "", "", "", "");
    /* cpuset is not cpu, nor is it listed in what has no controller. */
    parse(V1("/", "cpuset", "cpuset"), "3:cpuset:/a\n", "", "", "", "");
    parse("41 30 0:2 / /with\\040space rw - cgroup2 cgroup2 rw\n", "0::/a\n", "", "", "", "");
}

static void
put(const char *name, const char *value)
{
    char path[PATH_MAX];
    int fd;

    tmpdir_path(path, folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && fd_write_all(fd, value, strlen(value)) == 0);
    (void)close(fd);
}

static void
is(const char *name, const char *value)
{
    char have[256];

    assert_int_equal(cgroup_file_read(folder, name, have, sizeof have), 0);
    assert_string_equal(have, value);
}

static void
test_v2_limits_are_written(void **state)
{
    struct keeper_limits l = {.memory_bytes = 1 << 30, .cpu_milli = 1500, .pids = 64};
    struct err err = ERR_INIT;

    (void)state;
    put("memory.max", "");
    put("pids.max", "");
    put("cpu.max", "");
    assert_int_equal(cgroup_v2_limit(folder, &l, &err), 0); /* swap need not be counted */
    is("memory.max", "1073741824");
    is("pids.max", "64");
    is("cpu.max", "150000 100000");
    put("memory.swap.max", "");
    assert_int_equal(cgroup_v2_limit(folder, &l, &err), 0);
    is("memory.swap.max", "0");
    assert_int_equal(cgroup_v2_limit("/no/such", &l, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    l = (struct keeper_limits){0};
    assert_int_equal(cgroup_v2_limit("/no/such", &l, &err), 0);
}

static void
test_v2_counters_are_read(void **state)
{
    struct trial t = trial_of(TIER_HOST, "");
    struct cgroup cg = {.o = &t.o, .name = "husk-1", .v2_fd = -1, .made = true};
    struct wire_counters c = {.disk_free_bytes = 7};
    char path[PATH_MAX];

    (void)state;
    t.o.cgroups = t.o.cgroup_v2 = true;
    text(t.o.cgroup_dir[0], sizeof t.o.cgroup_dir[0], "%s", folder);
    tmpdir_path(path, folder, "husk-1");
    assert_int_equal(mkdir(path, 0700), 0);
    put("husk-1/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
    put("husk-1/pids.events", "max 5\n");
    put("husk-1/memory.current", "4096\n");
    cgroup_counters(&cg, &c);
    assert_int_equal(c.oom_kills, 2);
    assert_int_equal(c.fork_refusals, 5);
    assert_int_equal(c.memory_bytes, 4096);
    assert_int_equal(c.memory_peak_bytes, -1); /* not before 5.19 */
    assert_int_equal(c.disk_free_bytes, 7);
    put("husk-1/memory.current", "max\n");
    cgroup_counters(&cg, &c);
    assert_int_equal(c.memory_bytes, -1);
}

static void
test_v2_controllers_are_handed_down(void **state)
{
    struct err err = ERR_INIT;
    char leaf[PATH_MAX];

    (void)state;
    put("cgroup.controllers", "cpuset io\n");
    put("cgroup.subtree_control", "");
    assert_int_equal(cgroup_v2_open(folder, false, &err), -1);
    assert_non_null(strstr(err.msg, "Delegate=yes"));
    put("cgroup.controllers", "cpu memory\n");
    assert_int_equal(cgroup_v2_open(folder, false, &err), -1);
    assert_non_null(strstr(err.msg, "no pids controller"));
    put("cgroup.controllers", "cpu memory pids\n");
    put("cgroup.subtree_control", "memory pids cpu\n");
    assert_int_equal(cgroup_v2_open(folder, false, &err), 0); /* the real root: no leaf */
    put("cgroup.type", "domain\n");
    tmpdir_path(leaf, folder, "keeper");
    assert_int_equal(mkdir(leaf, 0755), 0);
    put("keeper/cgroup.procs", "");
    assert_int_equal(cgroup_v2_open(folder, false, &err), 0);
    is("keeper/cgroup.procs", "0");
    put("cgroup.procs", "41\n42\n");
    put("keeper/cgroup.procs", "");
    assert_int_equal(cgroup_v2_open(folder, true, &err), 0); /* one that is held for us */
    is("keeper/cgroup.procs", "42");
}

/* In a container whoever starts the keeper was moved to the leaf with it. */
static void
test_v2_a_keeper_that_begins_in_its_leaf_goes_above(void **state)
{
    char leaf[PATH_MAX], home[CGROUP_PATH_MAX], group[PATH_MAX];

    (void)state;
    tmpdir_path(leaf, folder, "keeper");
    tmpdir_path(group, folder, "husk-keeper-0a");
    cgroup_v2_home(leaf, "husk-keeper-0a", home);
    assert_string_equal(home, leaf); /* somebody else's name */
    assert_int_equal(mkdir(group, 0755), 0);
    cgroup_v2_home(leaf, "husk-keeper-0a", home);
    assert_string_equal(home, folder);
    cgroup_v2_home(leaf, "husk-keeper-0b", home);
    assert_string_equal(home, leaf);
    cgroup_v2_home(folder, "husk-keeper-0a", home);
    assert_string_equal(home, folder);
}

/* A v2 hierarchy, mounted for this test; controllers are v1's where the machine has both. */
static bool
mount_v2(void)
{
    return mount("cgroup2", folder, "cgroup2", 0, NULL) == 0;
}

static pid_t
a_process(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)alarm(60);
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void
test_v2_kills_and_removes(void **state)
{
    struct trial t = trial_of(TIER_HOST, "");
    struct cgroup cg = CGROUP_INIT, second = CGROUP_INIT;
    struct err err = ERR_INIT;
    char pid[16];
    pid_t child;
    int status;

    (void)state;
    if (!mount_v2())
        skip();
    t.o.cgroups = t.o.cgroup_v2 = true;
    t.o.limits = (struct keeper_limits){0};
    text(t.o.cgroup_dir[0], sizeof t.o.cgroup_dir[0], "%s/husk-test-%d", folder, (int)getpid());
    assert_int_equal(mkdir(t.o.cgroup_dir[0], 0755), 0);
    assert_int_equal(cgroup_make(&cg, &t.o, "a-1", &err), 0);
    assert_true(cg.v2_fd >= 0);
    assert_int_equal(cgroup_make(&second, &t.o, "a-1", &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    child = a_process();
    text(pid, sizeof pid, "%d", (int)child);
    assert_int_equal(cgroup_file_write(t.o.cgroup_dir[0], "husk-a-1/cgroup.procs", pid), 0);
    cgroup_remove(&cg);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cgroup_release(&t.o);
    assert_int_equal(access(t.o.cgroup_dir[0], F_OK), -1);
    assert_int_equal(umount2(folder, MNT_DETACH), 0);
}

/* As seen from here: inside, it is the root of what there is. */
static void
note_group(struct box *b, struct outcome *o)
{
    char path[64], groups[2048];

    text(path, sizeof path, "/proc/%d", (int)b->pid);
    if (cgroup_file_read(path, "cgroup", groups, sizeof groups) == 0)
        text(o->note, sizeof o->note, "%d", strstr(groups, "/husk-" BOX_KERNEL "\n") != NULL);
    (void)box_signal(b, SIGTERM);
}

/* A sandbox born into its group. */
static void
test_v2_sandbox_is_born_into_it(void **state)
{
    struct trial t = trial_of(TIER_HOST, "import time\n"
                                         "print(open('/proc/self/cgroup').read(), flush=True)\n"
                                         "time.sleep(20)\n");
    char dir[PATH_MAX];

    (void)state;
    tmpdir_path(dir, folder, "v2");
    assert_int_equal(mkdir(dir, 0755), 0);
    if (mount("cgroup2", dir, "cgroup2", 0, NULL) < 0)
        skip();
    t.o.cgroups = t.o.cgroup_v2 = true;
    t.o.limits = (struct keeper_limits){0};
    text(t.o.cgroup_dir[0], sizeof t.o.cgroup_dir[0], "%s/husk-test-%d", dir, (int)getpid());
    assert_int_equal(mkdir(t.o.cgroup_dir[0], 0755), 0);
    t.cgroups = false;
    t.cgroup_is_made = true;
    t.act = note_group;
    run_trial(&t);
    has("0::/");
    assert_string_equal(outcome->note, "1");
    assert_int_equal(outcome->value, -SIGTERM);
    assert_int_equal(access(t.o.cgroup_dir[0], F_OK), -1); /* removed, so that nobody is in it */
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
}

static bool
known(void *ctx, const char *kernel)
{
    return strcmp(kernel, ctx) == 0;
}

static void
test_what_nobody_owns_is_swept(void **state)
{
    struct trial t = trial_of(TIER_HOST, "");
    struct cgroup kept = CGROUP_INIT, lost = CGROUP_INIT, again = CGROUP_INIT;
    struct err err = ERR_INIT;
    struct wire_counters c;
    pid_t child;
    int status;

    (void)state;
    if (cgroup_prepare(&t.o, &err) < 0) {
        print_message("%s\n", err.msg);
        skip();
    }
    assert_int_equal(cgroup_make(&kept, &t.o, "aa", &err), 0);
    assert_int_equal(cgroup_make(&lost, &t.o, "bb", &err), 0);
    assert_int_equal(cgroup_make(&again, &t.o, "aa", &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    child = a_process();
    assert_int_equal(cgroup_enter(&lost, child, &err), 0);
    cgroup_counters(&lost, &c);
    assert_int_equal(c.oom_kills, 0);
    assert_int_equal(c.fork_refusals, 0);
    cgroup_sweep(&t.o, known, (void *)(uintptr_t) "aa");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    cgroup_counters(&lost, &c);
    assert_int_equal(c.oom_kills, -1);
    cgroup_counters(&kept, &c);
    assert_int_equal(c.oom_kills, 0);
    cgroup_remove(&kept);
    cgroup_release(&t.o);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (t.o.cgroup_dir[i][0] != '\0')
            assert_int_equal(access(t.o.cgroup_dir[i], F_OK), -1);
}

/* A unit that holds a group for us is preferred to our own; here neither has controllers. */
static void
beside_a_holder(struct keeper_options *o)
{
    static const char *const names[] = {"", "/own", "/husk-sandboxes.service"};
    char dir[3][64];
    struct err err = ERR_INIT;

    for (size_t i = 0; i < 3; i++) {
        text(dir[i], sizeof dir[i], "/sys/fs/cgroup/husk-test-%d%s", (int)getpid(), names[i]);
        assert_int_equal(mkdir(dir[i], 0755), 0);
    }
    assert_int_equal(cgroup_file_write(dir[1], "cgroup.procs", "0"), 0);
    assert_int_equal(cgroup_prepare(o, &err), -1);
    assert_non_null(strstr(err.msg, "husk-sandboxes.service has no memory"));
    assert_int_equal(cgroup_file_write("/sys/fs/cgroup", "cgroup.procs", "0"), 0);
    for (size_t i = 3; i > 0; i--)
        assert_int_equal(rmdir(dir[i - 1]), 0);
}

static void
test_without_hierarchies_it_is_told(void **state)
{
    struct trial t = trial_of(TIER_HOST, "");
    struct cgroup cg = CGROUP_INIT;
    struct wire_counters c;
    struct err err = ERR_INIT;

    (void)state;
    while (umount2("/sys/fs/cgroup", MNT_DETACH) == 0)
        continue;
    assert_int_equal(cgroup_prepare(&t.o, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_false(t.o.cgroups);
    assert_int_equal(cgroup_make(&cg, &t.o, "aa", &err), 0);
    assert_int_equal(cgroup_enter(&cg, getpid(), &err), 0);
    cgroup_counters(&cg, &c);
    assert_int_equal(c.fork_refusals, -1);
    cgroup_remove(&cg);
    /* A v2 hierarchy whose controllers are elsewhere. */
    if (mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) < 0)
        return;
    if (cgroup_prepare(&t.o, &err) == 0)
        cgroup_release(&t.o); /* a machine that has them there */
    else
        assert_non_null(strstr(err.msg, "controller"));
    beside_a_holder(&t.o);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(test_our_place_is_found),
        BOX_TEST(test_odd_tables_are_survived),
        BOX_TEST(test_v2_limits_are_written),
        BOX_TEST(test_v2_counters_are_read),
        BOX_TEST(test_v2_controllers_are_handed_down),
        BOX_TEST(test_v2_a_keeper_that_begins_in_its_leaf_goes_above),
        BOX_TEST(test_v2_kills_and_removes),
        BOX_TEST(test_v2_sandbox_is_born_into_it),
        BOX_TEST(test_what_nobody_owns_is_swept),
        BOX_TEST(test_without_hierarchies_it_is_told), /* last: unmounts them */
    };

    enter_namespaces();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
