/* SPDX-License-Identifier: MIT */
#include "keeper/notify_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "keeper/confine.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* Kernels before 6.9 open processes only, and threads share the process's descriptors. */
static int
open_process_of(pid_t tid)
{
    char path[48];
    struct buf b = BUF_INIT(8192);
    pid_t tgid = -1;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
    if (fd_read_file(path, &b, NULL) == 0) {
        const char *at = strstr(buf_str(&b), "\nTgid:");

        if (at)
            tgid = (pid_t)strtol(at + sizeof "\nTgid:" - 1, NULL, 10);
    }
    buf_done(&b);
    if (tgid <= 0) {
        errno = ESRCH;
        return -1;
    }
    return (int)syscall(SYS_pidfd_open, tgid, 0);
}

int
caller_open(struct caller *c, struct supervisor *s, const struct seccomp_notif *n)
{
    c->s = s;
    c->tid = (pid_t)n->pid;
    c->id = n->id;
    c->pidfd = (int)syscall(SYS_pidfd_open, c->tid, PIDFD_THREAD);
    if (c->pidfd < 0 && errno == EINVAL)
        c->pidfd = (int)syscall(SYS_pidfd_open, c->tid, 0);
    if (c->pidfd < 0 && (errno == EINVAL || errno == ENOENT))
        c->pidfd = open_process_of(c->tid);
    return c->pidfd < 0 ? -errno : 0;
}

int
caller_read(const struct caller *c, uint64_t from, void *to, size_t n)
{
    struct iovec own = {to, n}, its = {(void *)(uintptr_t)from, n};

    if (n == 0)
        return 0;
    ssize_t got = process_vm_readv(c->tid, &own, 1, &its, 1, 0);
    if (got < 0 && errno == EPERM)
        return -EPERM;
    return got == (ssize_t)n ? 0 : -EFAULT;
}

int
caller_write(const struct caller *c, uint64_t to, const void *from, size_t n)
{
    struct iovec own = {(void *)(uintptr_t)from, n}, its = {(void *)(uintptr_t)to, n};

    /* Its number may be another's by now. */
    if (!caller_waits(c))
        return -EFAULT;
    return process_vm_writev(c->tid, &own, 1, &its, 1, 0) == (ssize_t)n ? 0 : -EFAULT;
}

int
caller_fd(const struct caller *c, int fd)
{
    int own = (int)syscall(SYS_pidfd_getfd, c->pidfd, fd, 0);

    return own < 0 ? -errno : own;
}

bool
caller_waits(const struct caller *c)
{
    return seccomp_notify_id_valid(c->s->notify_fd, c->id) == 0;
}

static int
open_place(const struct caller *c, const char *what)
{
    char path[48];

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)c->tid, what);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Is its root another than ours? Without CAP_SYS_CHROOT we can only serve one that is not. */
static int
enter_root(int root)
{
    struct stat its, own;

    if (fstat(root, &its) < 0 || stat("/", &own) < 0)
        return -1;
    if (its.st_dev == own.st_dev && its.st_ino == own.st_ino)
        return 0;
    return fchdir(root) < 0 ? -1 : chroot(".");
}

int
caller_become(const struct caller *c)
{
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    _cleanup_close_ int root = open_place(c, "root");
    _cleanup_close_ int cwd = open_place(c, "cwd");
    struct box_spec box = {.o = c->s->o, .home = c->s->home};
    uid_t uid = c->s->uid;

    if (root < 0 || cwd < 0 || !caller_waits(c))
        return -EPERM;
    if (enter_root(root) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
        syscall(SYS_capset, &h, none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -EPERM;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || confine_files(&box, NULL) < 0)
        return -EPERM;
    /* only now: the folder may be open to the session alone */
    if (fchdir(cwd) < 0)
        return -errno;
    /* a socket's file is the session's alone */
    (void)umask(077);
    return 0;
}
