/* SPDX-License-Identifier: MIT */
#include "keeper/box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "keeper/init.h"

#define START_TIMEOUT_MS 10000
#define KILL_TIMEOUT_MS 5000
#define REAP_PAUSE_MS 1
#define PROC_PATH_MAX 64
#define SHARED_MEMORY "/dev/shm"

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

bool
box_own_network(const struct keeper_options *o)
{
    return o->tier == TIER_HOST ? o->egress != EGRESS_OPEN
                                : o->tier == TIER_ROOTLESS && o->egress == EGRESS_NONE;
}

bool
box_is_supervised(const struct keeper_options *o)
{
    return o->tier != TIER_HOST && o->egress == EGRESS_PUBLIC;
}

static uint64_t
namespaces(const struct keeper_options *o)
{
    uint64_t flags = o->tier == TIER_CONTAINER ? 0 : NAMESPACES;

    if (box_own_network(o))
        flags |= CLONE_NEWNET;
    /* A user namespace each, so that RLIMIT_NPROC counts a sandbox's processes alone. */
    if (o->tier == TIER_ROOTLESS)
        flags |= CLONE_NEWUSER;
    return flags;
}

/* The older call, where the newer one is refused with ENOSYS, as Docker's and containerd's filters
 * do to whoever has no CAP_SYS_ADMIN. It cannot be born into a group of cgroup v2. */
static long
clone_older(uint64_t flags, struct box *b)
{
    return syscall(SYS_clone, (unsigned long)flags | SIGCHLD, NULL, &b->pidfd, NULL, NULL);
}

/* Moves init into its group of cgroup v2, where it was not born there. */
static int
enter_v2(const struct cgroup *cg, pid_t pid, struct err *err)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d", (int)pid);
    _cleanup_close_ int fd = openat(cg->v2_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);

    if (fd < 0 || fd_write_all(fd, text, (size_t)n) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot put a sandbox into its control group");
    return 0;
}

static int
make_init(const struct box_spec *s, const struct cgroup *cg, const int pair[2], struct box *b,
          struct err *err)
{
    struct clone_args args = {.flags = namespaces(s->o) | CLONE_PIDFD,
                              .pidfd = (uint64_t)(uintptr_t)&b->pidfd,
                              .exit_signal = SIGCHLD};
    bool v2 = cg->made && cg->v2_fd >= 0, older;
    long pid;

    if (v2) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cg->v2_fd;
    }
    pid = syscall(SYS_clone3, &args, sizeof args);
    older = pid < 0 && errno == ENOSYS;
    if (older)
        pid = clone_older(namespaces(s->o) | CLONE_PIDFD, b);
    if (pid < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the namespaces of a sandbox");
    if (pid == 0) {
        (void)close(pair[0]);
        init_run(s, pair[1]);
    }
    b->pid = (pid_t)pid;
    return older && v2 ? enter_v2(cg, b->pid, err) : 0;
}

/* While init still is ours to look into: later it is not, where we are no root. */
static int
open_mount_ns(struct box *b, struct err *err)
{
    char path[PROC_PATH_MAX];

    if (b->tier == TIER_CONTAINER)
        return 0;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)b->pid);
    b->mount_ns = open(path, O_RDONLY | O_CLOEXEC);
    if (b->mount_ns < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot open the mounts of a sandbox");
    return 0;
}

static int
write_proc(pid_t pid, const char *name, const char *text, struct err *err)
{
    char path[PROC_PATH_MAX];
    _cleanup_close_ int fd = -1;

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot write %s of a sandbox", name);
    return 0;
}

/* One uid and gid, each as itself. */
static int
map_ids(const struct box_spec *s, pid_t pid, struct err *err)
{
    char uids[64], gids[64];
    unsigned long gid = (unsigned long)getegid();

    if (s->o->tier != TIER_ROOTLESS)
        return 0;
    (void)snprintf(uids, sizeof uids, "%lu %lu 1", (unsigned long)s->uid, (unsigned long)s->uid);
    (void)snprintf(gids, sizeof gids, "%lu %lu 1", gid, gid);
    if (write_proc(pid, "setgroups", "deny", err) < 0 ||
        write_proc(pid, "uid_map", uids, err) < 0 || write_proc(pid, "gid_map", gids, err) < 0)
        return -1;
    return 0;
}

static ssize_t
receive_report(int fd, struct init_report *r, int *ret_notify)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = r, .iov_len = sizeof *r};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_notify, CMSG_DATA(c), sizeof *ret_notify);
    return n;
}

static int
wait_report(int fd, struct box *b, struct err *err)
{
    struct init_report r = {0};
    int ready = fd_wait(fd, POLLIN, deadline_in(START_TIMEOUT_MS));

    if (ready == 0)
        return err_set(err, ERR_TIMEOUT, "the sandbox did not start within %d s",
                       START_TIMEOUT_MS / 1000);
    if (ready < 0 || receive_report(fd, &r, &b->notify_fd) != (ssize_t)sizeof r)
        return err_set(err, ERR_UNAVAILABLE, "the sandbox ended while it was being made");
    if (r.code == ERR_NONE)
        return 0;
    r.what[sizeof r.what - 1] = '\0';
    (void)err_set(err, (enum err_code)r.code, "%s", r.what);
    if (err)
        err->sys_errno = r.error;
    return -1;
}

static int
let_go(int fd, struct err *err)
{
    if (send(fd, "g", 1, MSG_NOSIGNAL) != 1)
        return err_sys(err, ERR_UNAVAILABLE, errno, "the sandbox ended before it was made");
    return 0;
}

int
box_start(const struct box_spec *s, struct cgroup *cg, int (*network)(void *ctx, pid_t init),
          void *ctx, struct box *ret, struct err *err)
{
    struct box b = {
        .pid = -1, .pidfd = -1, .mount_ns = -1, .notify_fd = -1, .tier = s->o->tier, .uid = s->uid};
    int pair[2];
    _cleanup_close_ int ours = -1, theirs = -1;
    int r;

    /* Orphans of an init without a pid namespace come to us. */
    if (s->o->tier == TIER_CONTAINER)
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "no socket for a sandbox");
    ours = pair[0];
    theirs = pair[1];
    r = make_init(s, cg, pair, &b, err);
    if (b.pid < 0)
        return -1;
    (void)close(steal_fd(&theirs));
    if (r == 0)
        r = map_ids(s, b.pid, err);
    if (r == 0)
        r = open_mount_ns(&b, err);
    if (r == 0)
        r = cgroup_enter(cg, b.pid, err);
    if (r == 0 && network && network(ctx, b.pid) != 0)
        r = err_set(err, ERR_UNAVAILABLE, "the network of the sandbox could not be made");
    if (r == 0)
        r = let_go(ours, err);
    if (r == 0)
        r = wait_report(ours, &b, err);
    if (r < 0) {
        box_kill(&b, cg);
        return -1;
    }
    *ret = b;
    return 0;
}

#define ATTACH_BUSY 2

/* In a child: setns() moves root and working directory too. */
static _Noreturn void
attach_in(int ns, int tree)
{
    struct stat placeholder, parent;

    if (setns(ns, CLONE_NEWNS) < 0)
        _exit(1);
    if (stat(BOX_WORKSPACE, &placeholder) < 0 || stat(BOX_WORKSPACE "/..", &parent) < 0)
        _exit(1);
    if (placeholder.st_dev != parent.st_dev)
        _exit(ATTACH_BUSY);
    if (move_mount(tree, "", AT_FDCWD, BOX_WORKSPACE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        _exit(1);
    _exit(0);
}

static int
wait_child(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int
box_attach(const struct box *b, int tree, struct err *err)
{
    pid_t pid;
    int r;

    if (b->mount_ns < 0)
        return err_set(err, ERR_CONFLICT, "the sandbox has no mounts of its own");
    pid = fork();
    if (pid == 0)
        attach_in(b->mount_ns, tree);
    if (pid < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot attach a workspace");
    r = wait_child(pid);
    if (r == ATTACH_BUSY)
        return err_sys(err, ERR_CONFLICT, EBUSY, "the kernel has a workspace already");
    if (r != 0)
        return err_set(err, ERR_UNAVAILABLE, "the workspace could not be attached");
    return 0;
}

int
box_signal(const struct box *b, int signum)
{
    return (int)syscall(SYS_pidfd_send_signal, b->pidfd, signum, NULL, 0);
}

int
box_ended(const struct box *b, int *ret_value)
{
    siginfo_t info = {0};

    if (waitid(P_PIDFD, (id_t)b->pidfd, &info, WEXITED | WNOHANG) < 0)
        return -1;
    if (info.si_pid == 0)
        return 0;
    if (info.si_code == CLD_EXITED)
        *ret_value = info.si_status > 128 && info.si_status <= 128 + SIGRTMAX ? 128 - info.si_status
                                                                              : info.si_status;
    else
        *ret_value = -info.si_status;
    return 1;
}

/* What the uid has left in /dev/shm, which the next session with this uid must not find. Its files
 * only: Landlock lets no folders be made there. */
static void
clear_shared_memory(uid_t uid)
{
    DIR *dir = opendir(SHARED_MEMORY);
    struct dirent *e;
    struct stat st;

    while (dir && (e = readdir(dir)) != NULL)
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid &&
            !S_ISDIR(st.st_mode))
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        (void)closedir(dir);
}

/* Without a pid namespace the uid is what holds a session together: everything of that uid, and as
 * that uid, so that the kernel decides what is hit. Once is enough: a process that has the signal
 * pending cannot fork any more. What dies is ours to reap, as init's orphans. */
void
box_end_uid(uid_t uid)
{
    struct deadline d = deadline_in(KILL_TIMEOUT_MS);
    pid_t pid = fork();

    if (pid == 0) {
        if (uid == 0 || setresuid(uid, uid, uid) < 0)
            _exit(1);
        (void)kill(-1, SIGKILL);
        _exit(0);
    }
    if (pid > 0)
        (void)wait_child(pid);
    do {
        pid = waitpid(-1, NULL, WNOHANG);
        if (pid == 0)
            (void)poll(NULL, 0, REAP_PAUSE_MS);
    } while (pid >= 0 && !deadline_passed(d));
    clear_shared_memory(uid);
}

void
box_kill(struct box *b, struct cgroup *cg)
{
    int value;

    if (b->pidfd >= 0) {
        (void)box_signal(b, SIGKILL);
        (void)fd_wait(b->pidfd, POLLIN, deadline_in(KILL_TIMEOUT_MS));
        (void)box_ended(b, &value);
        (void)close(steal_fd(&b->pidfd));
        if (b->tier == TIER_CONTAINER)
            box_end_uid(b->uid);
    }
    if (b->mount_ns >= 0)
        (void)close(steal_fd(&b->mount_ns));
    if (b->notify_fd >= 0)
        (void)close(steal_fd(&b->notify_fd));
    cgroup_remove(cg);
}
