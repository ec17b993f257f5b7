/* SPDX-License-Identifier: MIT */
#include "keeper/sandboxes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/packet.h"

#define KERNEL_ID_MIN 8
#define PATH_ROOM (KEEPER_PATH_MAX + WIRE_KERNEL_MAX + 16)

bool
kernel_id_valid(const char kernel[WIRE_KERNEL_MAX])
{
    size_t n = strnlen(kernel, WIRE_KERNEL_MAX);

    return n >= KERNEL_ID_MIN && n < WIRE_KERNEL_MAX && strspn(kernel, "0123456789abcdef-") == n;
}

static const char *
path_of(const struct keeper_options *o, const char *folder, const char *name, char out[PATH_ROOM])
{
    (void)snprintf(out, PATH_ROOM, "%s/%s/%s", o->run_dir, folder, name);
    return out;
}

/* A name that no kernel has, for what is not finished. */
static const char *
unfinished(const struct keeper_options *o, const char *folder, char out[PATH_ROOM])
{
    char name[32];

    (void)snprintf(name, sizeof(name), ".%d", (int)getpid());
    return path_of(o, folder, name, out);
}

static int
make_folder(const char *path, mode_t mode, struct err *err)
{
    if (fd_mkdirs(path, mode, err) < 0)
        return -1;
    if (chmod(path, mode) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "%s must be ours", path);
    return 0;
}

int
sandboxes_prepare(const struct keeper_options *o, struct err *err)
{
    char path[PATH_ROOM];

    if (make_folder(o->run_dir, 0711, err) < 0 ||
        make_folder(path_of(o, "m", "", path), 0700, err) < 0 ||
        make_folder(path_of(o, "ended", "", path), 0700, err) < 0)
        return -1;
    return 0;
}

int
sandbox_listen(const struct keeper_options *o, const char *kernel, struct err *err)
{
    char at[PATH_ROOM], unseen[PATH_ROOM];
    struct wire_counters c;

    (void)path_of(o, "m", kernel, at);
    (void)unfinished(o, "m", unseen);
    (void)unlink(unseen);
    _cleanup_close_ int fd = packet_listen(unseen, geteuid(), getegid(), 0600, err);
    if (fd < 0)
        return -1;
    int r = link(unseen, at), e = errno;
    (void)unlink(unseen);
    if (r < 0 && e != EEXIST)
        return err_sys(err, ERR_INTERNAL, e, "cannot make %s", at);
    /* A monitor writes its end before its socket goes, so one of the two is always seen. */
    if (r < 0)
        return err_set(err, ERR_CONFLICT, "the kernel id %s has a sandbox already", kernel);
    if (ended_read(o, kernel, &c) == 1) {
        (void)unlink(at);
        return err_set(err, ERR_CONFLICT,
                       "a kernel with the id %s has ended; its state is gone, so a session needs a "
                       "new kernel and not this one again",
                       kernel);
    }
    return steal_fd(&fd);
}

void
sandbox_forget(const struct keeper_options *o, const char *kernel)
{
    char path[PATH_ROOM];

    (void)unlink(path_of(o, "m", kernel, path));
}

int
sandbox_connect(const struct keeper_options *o, const char *kernel, struct deadline d,
                bool *ret_dead, struct err *err)
{
    char path[PATH_ROOM];
    struct err e = ERR_INIT;
    int fd = packet_connect(path_of(o, "m", kernel, path), d, &e);

    if (ret_dead)
        *ret_dead = fd < 0 && e.sys_errno == ECONNREFUSED;
    if (fd >= 0)
        return fd;
    if (e.sys_errno == ENOENT || e.sys_errno == ECONNREFUSED)
        return err_set(err, ERR_NOT_FOUND, "no kernel %s has a sandbox", kernel);
    return err_sys(err, ERR_UNAVAILABLE, e.sys_errno, "the monitor of %s", kernel);
}

int
sandbox_ask(int fd, enum wire_op op, uint64_t workspace, int tree, struct wire_reply *ret,
            struct deadline d, struct err *err)
{
    struct wire_request q = {.version = WIRE_VERSION, .op = op, .workspace = workspace};
    int n_fds = 0;

    if (packet_send(fd, &q, sizeof(q), &tree, tree >= 0, d) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot ask the monitor");
    int r = packet_receive(fd, ret, sizeof(*ret), NULL, 0, &n_fds, d, err);
    if (r < 0)
        return err_wrap(err, "the monitor's answer");
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "the sandbox has just ended");
    if (ret->version != WIRE_VERSION || ret->op != op)
        return err_set(err, ERR_INTERNAL, "the monitor answers something else");
    ret->detail[sizeof(ret->detail) - 1] = '\0';
    ret->kernel[sizeof(ret->kernel) - 1] = '\0';
    return 0;
}

bool
sandbox_lives(const struct keeper_options *o, const char *kernel)
{
    struct err err = ERR_INIT;
    bool dead = false;
    _cleanup_close_ int fd = sandbox_connect(o, kernel, deadline_in(0), &dead, &err);

    /* Where a monitor is only slow to accept, it lives. */
    return fd >= 0 || err.code != ERR_NOT_FOUND;
}

int
sandboxes_next(const struct keeper_options *o, const char *after, char ret[WIRE_KERNEL_MAX],
               int64_t *ret_count)
{
    char path[PATH_ROOM], best[WIRE_KERNEL_MAX] = "";
    DIR *dir = opendir(path_of(o, "m", "", path));
    int64_t count = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        char name[WIRE_KERNEL_MAX] = "";

        if (n >= sizeof(name))
            continue;
        memcpy(name, e->d_name, n);
        if (!kernel_id_valid(name))
            continue;
        count++;
        if (strcmp(name, after) > 0 && (!best[0] || strcmp(name, best) < 0))
            memcpy(best, name, sizeof(best));
    }
    if (dir)
        (void)closedir(dir);
    if (ret_count)
        *ret_count = count;
    if (!best[0])
        return 0;
    memcpy(ret, best, sizeof(best));
    return 1;
}

int
ended_write(const struct keeper_options *o, const char *kernel, const struct wire_counters *c)
{
    char path[PATH_ROOM], unseen[PATH_ROOM];
    _cleanup_close_ int fd = open(unfinished(o, "ended", unseen),
                                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || fd_write_all(fd, c, sizeof(*c)) < 0 ||
        rename(unseen, path_of(o, "ended", kernel, path)) < 0)
        return -1;
    return 0;
}

int
ended_read(const struct keeper_options *o, const char *kernel, struct wire_counters *ret)
{
    char path[PATH_ROOM];
    _cleanup_close_ int fd =
        open(path_of(o, "ended", kernel, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && fd_read_all(fd, ret, sizeof(*ret)) == 0;
}
