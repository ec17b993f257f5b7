/* SPDX-License-Identifier: MIT */
/*
 * Order matters here (docs/isolation.md, "How a sandbox is made").  Everything that needs rights is
 * done by init before it becomes the session's uid; Landlock, the filter and the limits are put on
 * the interpreter's process only, which must not be able to signal init where Landlock can tell.
 *
 * The interpreter's process is made with CLONE_VFORK: init sleeps until the exec, so that one
 * shared page tells how it went, and, where calls are supervised, with CLONE_FILES: the listener of
 * the filter appears in init's table as well, which hands it on while the filtered process could
 * not (its own sendmsg would wait for the supervisor that is still to get it).
 */
#include "keeper/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/sig.h"
#include "keeper/confine.h"
#include "keeper/filter.h"
#include "keeper/interpreter.h"
#include "keeper/root.h"

#define HOST_NAME "session"
/* A machine short of memory takes a session before it takes the service. */
#define OOM_SCORE "300"

/* Shared with the interpreter's process until its exec. */
struct shared {
    struct init_report report;
    int notify_fd;
};

static void
send_report(int monitor, const struct init_report *r, int notify_fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)r, .iov_len = sizeof *r};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (notify_fd >= 0) {
        struct cmsghdr *c;

        msg.msg_control = control;
        msg.msg_controllen = sizeof control;
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &notify_fd, sizeof notify_fd);
    }
    (void)sendmsg(monitor, &msg, MSG_NOSIGNAL);
}

static void
fill_report(struct init_report *r, const struct err *err)
{
    *r = (struct init_report){.error = err->sys_errno, .code = (int32_t)err->code};
    (void)snprintf(r->what, sizeof r->what, "%s", err->msg);
}

static _Noreturn void
fail(int monitor, const struct err *err)
{
    struct init_report r;

    fill_report(&r, err);
    send_report(monitor, &r, -1);
    _exit(INIT_EXIT_FAILED);
}

static int
loopback_up(struct err *err)
{
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP};

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot bring the loopback interface up");
    return 0;
}

/* Where all sessions are one user, its inotify instances and watches are a common store (128 and
 * some thousand): the user namespace has bounds of its own below the user's. A kernel that has no
 * such file bounds the user alone. */
static void
bound_watching(void)
{
    static const struct {
        const char *path, *most;
    } bounds[] = {{"/proc/sys/user/max_inotify_instances", "24"},
                  {"/proc/sys/user/max_inotify_watches", "8192"}};

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        _cleanup_close_ int fd = open(bounds[i].path, O_WRONLY | O_CLOEXEC);

        if (fd >= 0)
            (void)fd_write_all(fd, bounds[i].most, strlen(bounds[i].most));
    }
}

/* What is done with the rights init was born with. */
static int
make(const struct box_spec *s, struct err *err)
{
    if (setsid() < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot begin a session");
    (void)umask(022);
    /* A key ring of its own, where the host's filter lets us. */
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    if (s->o->tier == TIER_CONTAINER)
        return 0;
    if (s->o->tier == TIER_ROOTLESS)
        bound_watching();
    /* Now that it is in its control group, so that this is the root of what it sees. */
    if (unshare(CLONE_NEWCGROUP) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make a cgroup namespace");
    if (sethostname(HOST_NAME, sizeof HOST_NAME - 1) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot name the sandbox");
    if (box_own_network(s->o) && loopback_up(err) < 0)
        return -1;
    return root_make(s, err);
}

/* Ends with the monitor: PDEATHSIG is cleared by a change of uid, so it comes after, and a monitor
 * that died before is seen by its end of the socket (getppid() is 0 in any case). */
static void
die_with(int monitor)
{
    char byte;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
        recv(monitor, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        _exit(INIT_EXIT_ORPHAN);
}

static void
raise_oom_score(void)
{
    _cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    /* The keeper's own, low one must not be a session's; not to be had only where /proc is odd. */
    if (fd >= 0)
        (void)fd_write_all(fd, OOM_SCORE, sizeof OOM_SCORE - 1);
}

/* Whose login this is, for getlogin() and the machine's audit log. What is set once, a session
 * cannot set to another; a kernel without audit has no such file. */
static void
name_login(uid_t uid)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%lu", (unsigned long)uid);
    _cleanup_close_ int fd = open("/proc/self/loginuid", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)fd_write_all(fd, text, (size_t)n);
}

/* The interpreter's process, up to its exec; sh->report says what failed. */
static _Noreturn void
become_interpreter(const struct box_spec *s, struct shared *sh)
{
    struct err err = ERR_INIT;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)setsid();
    sig_reset_all();
    (void)umask(077);
    if (interpreter_exec(s, &sh->notify_fd, &err) < 0)
        fill_report(&sh->report, &err);
    _exit(INIT_EXIT_FAILED);
}

static pid_t
start_interpreter(const struct box_spec *s, struct shared *sh, struct err *err)
{
    unsigned long flags = SIGCHLD | CLONE_VFORK | (box_is_supervised(s->o) ? CLONE_FILES : 0);
    pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);

    if (pid == 0)
        become_interpreter(s, sh);
    if (pid < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot start the interpreter's process");
    if (sh->report.code != ERR_NONE) {
        *err = (struct err){.code = (enum err_code)sh->report.code, .sys_errno = sh->report.error};
        memcpy(err->msg, sh->report.what, sizeof err->msg);
        return -1;
    }
    return pid;
}

/* Signals reach the kernel's process group; the kernel's end is ours. */
static _Noreturn void
serve(pid_t kernel)
{
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
    sigset_t all;

    (void)sigfillset(&all);
    for (;;) {
        siginfo_t info;
        int status, got = sigwaitinfo(&all, &info);
        pid_t pid;

        for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
            if (got == passed[i])
                (void)kill(-kernel, got);
        while (got == SIGCHLD && (pid = waitpid(-1, &status, WNOHANG)) > 0)
            if (pid == kernel)
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

/* Nothing stays open but the slot's lock, now at the lowest number that is out of the way. */
static void
close_all_but(int lock)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd < 3; fd++)
        (void)dup2(null, fd);
    (void)dup2(lock, 3);
    (void)close_range(lock >= 0 ? 4 : 3, ~0U, 0);
}

void
init_run(const struct box_spec *s, int monitor)
{
    struct err err = ERR_INIT;
    struct shared *sh =
        mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct box_spec own = *s;
    sigset_t all;
    pid_t kernel;
    char go;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    if (recv(monitor, &go, 1, 0) != 1)
        _exit(INIT_EXIT_ORPHAN);
    if (sh == MAP_FAILED) {
        (void)err_sys(&err, ERR_NOMEM, errno, "no memory for a sandbox");
        fail(monitor, &err);
    }
    sh->notify_fd = -1;
    (void)prctl(PR_SET_NAME, "husk-init", 0, 0, 0);
    raise_oom_score();
    name_login(s->uid);
    if (make(s, &err) < 0 || confine_core(&err) < 0 ||
        confine_ids(s->uid, s->o->tier != TIER_ROOTLESS, &err) < 0)
        fail(monitor, &err);
    die_with(monitor);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* Out of the way of what the interpreter puts below this, as the table may be one. */
    monitor = fcntl(monitor, F_DUPFD_CLOEXEC, INTERPRETER_FDS);
    own.slot_lock = s->slot_lock >= 0 ? fcntl(s->slot_lock, F_DUPFD_CLOEXEC, INTERPRETER_FDS) : -1;
    kernel = start_interpreter(&own, sh, &err);
    if (kernel < 0)
        fail(monitor, &err);
    send_report(monitor, &sh->report, sh->notify_fd);
    close_all_but(own.slot_lock);
    serve(kernel);
}
