/* SPDX-License-Identifier: MIT */
#include "master/master.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Connections that wait; more get EAGAIN, which nginx answers with 502. */
#define LISTEN_BACKLOG 511

static const char *
socket_path(const struct master *m, enum lane l, char out[SETTINGS_PATH_MAX])
{
    char what[16];

    (void)snprintf(what, sizeof what, "sock:%s", lane_name(l));
    return settings_path(&m->settings, what, out);
}

/*
 * Bound at another name in the same directory and renamed: a client of the path meets the old
 * socket or the new one, never none.  The other name is short, since sun_path is.
 */
static int
listen_open(const struct master *m, const char *path, int *ret, struct err *err)
{
    const char *slash = strrchr(path, '/');
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask;
    int r;

    if (strlen(path) >= sizeof at.sun_path || !slash)
        return err_set(err, ERR_INVALID,
                       "SANDBOX_RUNTIME_DIR is too long: the socket's path %s is over %zu bytes",
                       path, sizeof at.sun_path - 1);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%.*s/.new", (int)(slash - path), path);
    if (fd < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make a socket");
    (void)unlink(at.sun_path);
    /* Made with its mode, since chmod(2) would follow a link that a worker might put there. */
    mask = umask(0117);
    r = bind(fd, (const struct sockaddr *)&at, sizeof at);
    (void)umask(mask);
    if (r < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot bind %s", at.sun_path);
    if ((m->drop && lchown(at.sun_path, m->ids.uid, m->socket_gid) < 0) ||
        listen(fd, LISTEN_BACKLOG) < 0 || rename(at.sun_path, path) < 0) {
        r = errno;
        (void)unlink(at.sun_path);
        return err_sys(err, ERR_UNAVAILABLE, r, "cannot listen on %s", path);
    }
    *ret = steal_fd(&fd);
    return 0;
}

int
listen_open_all(struct master *m, struct err *err)
{
    char path[SETTINGS_PATH_MAX];

    for (int l = 0; l < LANE_COUNT; l++)
        if (listen_open(m, socket_path(m, (enum lane)l, path), &m->listeners[l], err) < 0)
            return -1;
    return 0;
}

void
listen_close_all(struct master *m)
{
    char path[SETTINGS_PATH_MAX];

    for (int l = 0; l < LANE_COUNT; l++) {
        if (m->listeners[l] < 0)
            continue;
        (void)unlink(socket_path(m, (enum lane)l, path));
        (void)close(m->listeners[l]);
        m->listeners[l] = -1;
    }
}
