/* SPDX-License-Identifier: MIT */
/* START, in a child of the keeper's that becomes the sandbox's monitor. */
#include "keeper/server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/packet.h"
#include "keeper/monitor.h"
#include "keeper/sandboxes.h"

#define START_MS 2000
#define EXIT_REFUSED 70

/* A listening unix stream. A TCP socket made outside would be a way into the host's network: once
 * disconnected, a listener of one namespace can be made to connect from it. */
static bool
is_listener(int fd)
{
    int domain = 0, type = 0, accepting = 0;
    socklen_t n = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &n) == 0 && accepting == 1;
}

static int
check_start(const struct keeper *k, const struct wire_start *s, const int *fds, int n_fds,
            struct err *err)
{
    if (s->version != WIRE_VERSION || s->op != WIRE_START)
        return err_set(err, ERR_INVALID, "husk-launch is of another version than husk-keeper");
    if (n_fds != WIRE_START_FDS)
        return err_set(err, ERR_INVALID, "a start brings %d descriptors and not %d", WIRE_START_FDS,
                       n_fds);
    if (!kernel_id_valid(s->kernel))
        return err_set(err, ERR_INVALID, "the kernel's id is not 8 to 39 characters of 0-9a-f-");
    if (s->connection_len == 0 || s->connection_len > sizeof(s->connection))
        return err_set(err, ERR_INVALID, "the connection file has no length");
    for (int i = 2; i < n_fds; i++)
        if (!is_listener(fds[i]))
            return err_set(err, ERR_INVALID, "descriptor %d is not a listening unix stream", i);
    if (!k->ready)
        return err_set(err, ERR_UNAVAILABLE, "no sandbox can be made here: %s", k->detail);
    return 0;
}

void
launch_serve(const struct keeper *k, int fd)
{
    struct wire_start start;
    struct err err = ERR_INIT;
    int fds[WIRE_START_FDS], n_fds = 0;
    int r = packet_receive(fd, &start, sizeof(start), fds, WIRE_START_FDS, &n_fds,
                           deadline_in(START_MS), &err);

    if (r == 0) /* it went away */
        return;
    if (r == 1 && check_start(k, &start, fds, n_fds, &err) == 0) {
        monitor_run(&k->o, fd, &start, fds);
        return;
    }
    if (err.code != ERR_TIMEOUT) /* of silence there may be much */
        log_warning("a start was refused: %s", err.msg);
    monitor_tell_exit(fd, EXIT_REFUSED, err.msg);
}
