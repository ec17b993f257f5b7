/* SPDX-License-Identifier: MIT */
#include "keeper/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* Holds a user namespace open until it is killed; ends with its parent. */
__attribute__((noreturn)) static void
hold(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        (void)pause();
    _exit(0);
}

static int
write_map(pid_t pid, const char *which, unsigned disk, unsigned seen)
{
    char path[64], text[64];
    int n = snprintf(text, sizeof text, "%u %u 1", disk, seen);

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, which);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -1 : fd_write_all(fd, text, (size_t)n);
}

static int
open_namespace(pid_t pid)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A user namespace with this one map. The helper is reaped by its pidfd; with SIGCHLD ignored it
 * reaps itself. */
static int
make_namespace(const struct idmap *map, struct err *err)
{
    pid_t parent = getpid();
    int pidfd = -1, fd = -1, saved = 0;
    struct clone_args ca = {
        .flags = CLONE_NEWUSER | CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &ca, sizeof ca);

    if (pid == 0)
        hold(parent);
    if (pid < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "a user namespace to map ids with");
    if (write_map(pid, "uid_map", map->disk_uid, map->seen_uid) == 0 &&
        write_map(pid, "gid_map", map->disk_gid, map->seen_gid) == 0)
        fd = open_namespace(pid);
    if (fd < 0)
        saved = errno;
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    (void)waitid((idtype_t)P_PIDFD, (id_t)pidfd, NULL, WEXITED);
    (void)close(pidfd);
    if (fd < 0)
        return err_sys(err, ERR_UNAVAILABLE, saved, "mapping ids");
    return fd;
}

int
idmap_clone(int dir_fd, uint64_t set, uint64_t clear, const struct idmap *map, struct err *err)
{
    struct mount_attr attr = {.attr_set = set, .attr_clr = clear};
    _cleanup_close_ int ns = -1;
    _cleanup_close_ int tree = (int)syscall(
        SYS_open_tree, dir_fd, "", (unsigned)(OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));

    if (tree < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cloning a workspace's mount");
    if (map) {
        ns = make_namespace(map, err);
        if (ns < 0)
            return -1;
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)ns;
    }
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno,
                       map ? "mapping a workspace's ids (its file system may not be able to)"
                           : "restricting a workspace's mount");
    return steal_fd(&tree);
}
