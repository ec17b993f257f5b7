/* SPDX-License-Identifier: MIT */
/* What a session finds in a sandbox of each tier, and what it cannot reach. */
#include "unit/box_fixture.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "keeper/tier.h"
#include "support/tmpdir.h"

#define FACTS TOP_SRCDIR "/tests/support/box_facts.py"

/* Read before the namespaces are entered: what lies below /tmp is out of sight there. */
static struct buf facts = BUF_INIT(65536);

static void
run_facts(enum tier tier)
{
    struct trial t;

    t = trial_of(tier, buf_str(&facts));
    t.argument = tier_name(tier);
    run_trial(&t);
    if (outcome->value != 0)
        fail_msg("the script failed:\n%s", outcome->out);
}

/* What holds in every tier. */
static const char *const everywhere[] = {"CapInh=0",
                                         "CapPrm=0",
                                         "CapEff=0",
                                         "CapBnd=0",
                                         "CapAmb=0",
                                         "no_new_privs=1",
                                         "seccomp=2",
                                         "session_leader=True",
                                         "core_limit=(1, 1)",
                                         "connection={}",
                                         "descriptors=0 1 2 3 4 5 6 7",
                                         "unshare_user=EPERM",
                                         "clone_user=EPERM",
                                         "clone3=ENOSYS",
                                         "mount=EPERM",
                                         "open_tree_attr=ENOSYS",
                                         "ptrace=EPERM",
                                         "keyctl=EPERM",
                                         "bpf=EPERM",
                                         "io_uring=EPERM",
                                         "seccomp=EPERM",
                                         "x32=ENOSYS",

                                         "vsock=EAFNOSUPPORT",
                                         "vsock_high=EAFNOSUPPORT",
                                         "packet=EAFNOSUPPORT",
                                         "tiocsti=EPERM",
                                         "tiocsti_high=EPERM",
                                         "device=EPERM",
                                         NULL};

/* What a root of one's own gives. */
static const char *const own_root[] = {
    "netlink_route=ok",
    "netlink_audit=EPERM",
    "root=bin dev etc home lib lib32 lib64 mnt opt proc run sbin sys tmp usr var workspace",
    "etc=hosts passwd",
    "passwd=2",
    "dev=fd full null ptmx pts random shm stderr stdin stdout urandom zero",
    "workspace=home/workspace",
    "loose_mounts=",
    "name=session",
    "sys=cpu node",
    "write_sys_cpu=EROFS",
    "write_sys=EROFS",
    "masked_kcore=True",
    "masked_kallsyms=True",
    "masked_keys=True",
    "masked_timer_list=True",
    "others=",
    "environ_of_init=EACCES",
    "hostname=session",
    "interfaces=lo",
    "raw=EPERM",
    "sctp=EPROTONOSUPPORT",
    "inet=ok",
    "shmget=ok",
    "write_/x=EROFS",
    "write_/usr/lib/x=EROFS",
    "write_/etc/x=EROFS",
    "write_/home/workspace/x=EROFS",
    "write_/run/husk/x=EROFS",
    "write_/sys/x=EROFS",
    "write_/tmp/x=ok",
    "write_/dev/shm/x=ok",
    "write_/home/husk/x=ok",
    "write_/var/tmp/x=ok",
    "environment=HOME HUSK_FDS IPYTHONDIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR LANG "
    "MPLCONFIGDIR PATH",
    NULL};

static void
test_host_holds(void **state)
{
    const struct rlimit none = {0, 0}, whole = {RLIM_INFINITY, RLIM_INFINITY};

    (void)state;
    /* as a unit may start the keeper; it cannot be had back everywhere */
    if (prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE, 0, 0, 0) == 1)
        assert_int_equal(setrlimit(RLIMIT_CORE, &none), 0);
    run_facts(TIER_HOST);
    (void)setrlimit(RLIMIT_CORE, &whole);
    has_all(everywhere);
    has_all(own_root);
    has("uids=['200001', '200001', '200001', '200001']");
    has("groups=[]");
    has("setuid=EPERM");
    has("cgroup=/");
    assert_int_equal(outcome->counters.oom_kills, 0);
    assert_int_equal(outcome->counters.fork_refusals, 0);
    assert_true(outcome->counters.memory_peak_bytes > MIB);
}

static void
test_rootless_holds(void **state)
{
    (void)state;
    run_facts(TIER_ROOTLESS);
    has_all(everywhere);
    has_all(own_root);
    has("uids=['54321', '54321', '54321', '54321']");
    has("setuid=EINVAL"); /* there is no such id in its namespace */
    assert_int_equal(outcome->counters.oom_kills, -1);
}

static void
test_container_holds(void **state)
{
    (void)state;
    run_facts(TIER_CONTAINER);
    has_all(everywhere);
    has("uids=['200001', '200001', '200001', '200001']");
    has("groups=[]");
    has("inet=EAFNOSUPPORT");
    has("raw=EAFNOSUPPORT");
    has("netlink_route=ENOTSUP"); /* EOPNOTSUPP, as Python calls it */
    has("shmget=EPERM");
    has("environ_of_init=EACCES");
}

/* A sibling's folder, the host's /etc and what is outside cannot be opened by path. */
static void
test_container_files(void **state)
{
    char script[1024];
    struct trial t;

    (void)state;
    text(script, sizeof script,
         "import os\n"
         "for p in ('%s/slots','/etc/shadow','/root','/tmp','/var','/etc/fstab',"
         "'/tmp/x','/dev/shm/d/'):\n"
         "    try: print(p, os.listdir(p) if os.path.isdir(p) else open(p,"
         "'w' if p.endswith('x') else 'r'))\n"
         "    except OSError as e: print('refused', e.errno)\n"
         "open(os.environ['HUSK_WORKSPACE']+'/file','w').write('x')\n"
         "import tempfile; print(tempfile.TemporaryFile().fileno() > 0)\n"
         "import multiprocessing as m\n"
         "with m.Pool(2) as p: print(p.map(abs, [-1, 2]))\n"
         "open('/dev/shm/left','w')\n"
         "try: os.mkdir('/dev/shm/d')\n"
         "except OSError as e: print('refused', e.errno)\n",
         folder);
    t = trial_of(TIER_CONTAINER, script);
    run_trial(&t);
    assert_string_equal(outcome->out,
                        "refused 13\nrefused 13\nrefused 13\nrefused 13\nrefused 13\n"
                        "refused 13\nrefused 13\nrefused 2\nTrue\n[1, 2]\nrefused 13\n");
    assert_int_equal(access("/dev/shm/left", F_OK), -1);
}

static void
test_a_program_that_is_not_there_is_told(void **state)
{
    struct trial t = trial_of(TIER_HOST, "");
    static const char *const argv[] = {"/no/such/program", NULL};
    struct box_spec s = {.o = &t.o,
                         .uid = KERNEL_UID_BASE + 9,
                         .slot_lock = -1,
                         .out = -1,
                         .err = -1,
                         .listeners = {-1, -1, -1, -1, -1},
                         .connection = "",
                         .home = "",
                         .argv = argv};
    struct cgroup cg = CGROUP_INIT;
    struct err err = ERR_INIT;
    struct box b;

    (void)state;
    assert_int_equal(box_start(&s, &cg, NULL, NULL, &b, &err), -1);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_non_null(strstr(err.msg, "/no/such/program"));
    /* A folder that is to be shown and is not there, too. */
    text(t.o.paths, sizeof t.o.paths, "/usr/lib:/no/such/folder");
    assert_int_equal(box_start(&s, &cg, NULL, NULL, &b, &err), -1);
    assert_non_null(strstr(err.msg, "/no/such/folder"));
    text(t.o.paths, sizeof t.o.paths, "/a/../etc");
    assert_int_equal(box_start(&s, &cg, NULL, NULL, &b, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left */
}

static int
refuse_network(void *ctx, pid_t init)
{
    *(bool *)ctx = kill(init, 0) == 0;
    return -1;
}

static void
test_a_network_that_fails_ends_the_start(void **state)
{
    struct trial t = trial_of(TIER_HOST, "");
    struct box_spec s = {.o = &t.o,
                         .uid = KERNEL_UID_BASE + 9,
                         .slot_lock = -1,
                         .out = -1,
                         .err = -1,
                         .listeners = {-1, -1, -1, -1, -1},
                         .home = ""};
    struct cgroup cg = CGROUP_INIT;
    struct err err = ERR_INIT;
    bool called = false;
    struct box b;

    (void)state;
    assert_int_equal(box_start(&s, &cg, refuse_network, &called, &b, &err), -1);
    assert_true(called);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void
test_more_paths_can_be_shown(void **state)
{
    char shown[PATH_MAX], script[256];
    struct trial t;

    (void)state;
    tmpdir_path(shown, folder, "library");
    text(script, sizeof script, "import os; print(os.listdir('%s'), os.listdir('%s'))", shown,
         folder);
    t = trial_of(TIER_HOST, script);
    text(t.o.paths, sizeof t.o.paths, "%s", shown);
    run_trial(&t);
    assert_string_equal(outcome->out, "[] ['library']\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(test_host_holds),
        BOX_TEST(test_rootless_holds),
        BOX_TEST(test_container_holds),
        BOX_TEST(test_container_files),
        BOX_TEST(test_a_program_that_is_not_there_is_told),
        BOX_TEST(test_a_network_that_fails_ends_the_start),
        BOX_TEST(test_more_paths_can_be_shown),
    };

    if (fd_read_file(FACTS, &facts, NULL) < 0)
        return 1;
    enter_namespaces();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
