/* SPDX-License-Identifier: MIT */
#include "unit/box_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "keeper/slot.h"
#include "keeper/tier.h"
#include "support/tmpdir.h"

#define SLICE_MS 5

struct outcome *outcome;
char folder[PATH_MAX];

void
text(char *ret, size_t size, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(ret, size, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < size);
}

struct trial
trial_of(enum tier tier, const char *script)
{
    struct trial t = {.o = {.tier = tier,
                            .limits = {.memory_bytes = 192 * MIB,
                                       .cpu_milli = 1000,
                                       .pids = 40,
                                       .disk_bytes = 64 * MIB},
                            .python = PYTHON},
                      .script = script,
                      .cgroups = tier == TIER_HOST};

    text(t.o.state_dir, sizeof t.o.state_dir, "%s", folder);
    text(t.o.run_dir, sizeof t.o.run_dir, "%s", folder);
    text(t.o.library, sizeof t.o.library, "%s/library", folder);
    return t;
}

/* Reads what the sandbox prints until it ends; the act comes after the first line. */
static void
follow(const struct trial *t, struct box *b, int fd)
{
    struct deadline d = deadline_in(TIMEOUT_MS);
    bool acted = t->act == NULL;

    for (;;) {
        /* Before the read: what is printed before the end is there then. */
        bool ended = box_ended(b, &outcome->value) != 0;
        ssize_t n = fd_wait(fd, POLLIN, deadline_in(SLICE_MS)) > 0
                        ? read(fd, outcome->out + outcome->len, OUTPUT_MAX - 1 - outcome->len)
                        : 0;

        if (n > 0)
            outcome->len += (size_t)n;
        if (!acted && strchr(outcome->out, '\n')) {
            acted = true;
            t->act(b, outcome);
        }
        if ((ended && n <= 0) || deadline_passed(d))
            return;
    }
}

/* Asked by the address sanitizer: its search for leaks stops a process by ptrace, which it cannot
 * do with pid 1. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* In a process of the trial's, which must not come back into cmocka. */
#define need(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(err_sys(&outcome->err, ERR_INTERNAL, errno, "not so: %s", #condition) < 0);      \
    } while (0)

static int
start_box(struct trial *t, struct cgroup *cg, int out, struct box *b)
{
    const char *const argv[] = {PYTHON, "-c", t->script, t->argument, NULL};
    char home[PATH_MAX] = "", workspace[PATH_MAX];
    struct box_spec s = {.o = &t->o,
                         .out = out,
                         .err = out,
                         .listeners = {-1, -1, out, -1, -1},
                         .connection = "{}",
                         .connection_len = 2,
                         .home = home,
                         .argv = argv};

    s.slot_lock = slot_take(&t->o, &s.slot, &outcome->err);
    need(s.slot_lock >= 0);
    s.uid = t->o.tier == TIER_ROOTLESS ? geteuid() : (uid_t)(KERNEL_UID_BASE + s.slot);
    if (t->o.tier == TIER_CONTAINER) {
        tmpdir_path(home, folder, "home");
        tmpdir_path(workspace, folder, "home/workspace");
        need(mkdir(home, 0700) == 0 && mkdir(workspace, 0700) == 0);
        need(chown(home, s.uid, s.uid) == 0 && chown(workspace, s.uid, s.uid) == 0);
    }
    return box_start(&s, cg, NULL, NULL, b, &outcome->err);
}

static void
monitor(struct trial *t)
{
    struct cgroup cg = CGROUP_INIT;
    struct box b;
    int pair[2];

    if (t->cgroups && !t->cgroup_is_made && cgroup_prepare(&t->o, &outcome->err) < 0)
        return;
    if ((t->cgroups || t->cgroup_is_made) && cgroup_make(&cg, &t->o, BOX_KERNEL, &outcome->err) < 0)
        return;
    need(pipe2(pair, O_CLOEXEC) == 0);
    if (start_box(t, &cg, pair[1], &b) == 0) {
        outcome->started = true;
        (void)close(pair[1]);
        follow(t, &b, pair[0]);
        cgroup_counters(&cg, &outcome->counters);
        box_kill(&b, &cg);
    }
    cgroup_remove(&cg);
    cgroup_release(&t->o);
}

void
become_container_root(void)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];

    need(prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) == 0);
    need(syscall(SYS_capget, &h, d) == 0);
    d[0].effective &= ~(1U << CAP_SYS_ADMIN);
    d[0].permitted &= ~(1U << CAP_SYS_ADMIN);
    need(syscall(SYS_capset, &h, d) == 0);
}

void
become_ordinary(void)
{
    need(setresgid(ORDINARY_GID, ORDINARY_GID, ORDINARY_GID) == 0);
    need(setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) == 0);
    need(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

static void
refuse_clone3(void)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);

    if (!c || seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) < 0 ||
        seccomp_load(c) < 0)
        _exit(EXIT_FAILURE);
    seccomp_release(c);
}

void
run_trial(struct trial *t)
{
    pid_t pid;
    int status;

    memset(outcome, 0, sizeof *outcome);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(TIMEOUT_MS / 1000 + 5);
        if (t->o.tier == TIER_CONTAINER)
            become_container_root();
        if (t->o.tier == TIER_ROOTLESS) {
            become_ordinary();
            if (tier_enter_rootless(&outcome->err) < 0)
                _exit(0);
        }
        if (t->no_clone3)
            refuse_clone3();
        monitor(t);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != (t->monitor_is_killed ? SIGKILL : 0) || !outcome->started)
        fail_msg("no sandbox: status %d, %s", status, outcome->err.msg);
}

void
has(const char *line)
{
    char want[512];

    text(want, sizeof want, "%s\n", line);
    if (strstr(outcome->out, want) == NULL)
        fail_msg("no \"%s\" in:\n%s", line, outcome->out);
}

void
has_all(const char *const *lines)
{
    for (; *lines; lines++)
        has(*lines);
}

int
make_folder(void **state)
{
    char library[PATH_MAX];

    (void)state;
    tmpdir_make(folder);
    tmpdir_path(library, folder, "library");
    return mkdir(library, 0755) < 0 || chmod(folder, 0711) < 0 ||
           chown(folder, ORDINARY_UID, ORDINARY_UID) < 0;
}

void
renew_folder(void)
{
    tmpdir_remove(folder);
    assert_int_equal(make_folder(NULL), 0);
}

int
remove_folder(void **state)
{
    (void)state;
    tmpdir_remove(folder);
    return 0;
}

void
enter_namespaces(void)
{
    pid_t pid;
    int status;

    /* Where $TMPDIR leads elsewhere, the ordinary user could not get there. */
    (void)unsetenv("TMPDIR");
    if (geteuid() != 0 ||
        unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0) {
        (void)printf("SKIP: needs root and namespaces: %s\n", strerror(errno));
        exit(77);
    }
    pid = fork();
    if (pid > 0) {
        (void)waitpid(pid, &status, 0);
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    if (pid < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmp", "/tmp", "tmpfs", 0, NULL) < 0 ||
        mount("shm", "/dev/shm", "tmpfs", 0, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0) {
        (void)fprintf(stderr, "cannot make the test's mounts: %s\n", strerror(errno));
        exit(1);
    }
    outcome =
        mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcome == MAP_FAILED)
        exit(1);
}
