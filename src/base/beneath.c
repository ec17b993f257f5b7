/* SPDX-License-Identifier: MIT */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A rename somewhere on the way makes openat2 give up with EAGAIN where a link holds ".."; a lease
 * gives the same errno, but for good. */
#define OPEN_TRIES 8

int
beneath_open(int dir_fd, const char *path, int flags, enum beneath_links links)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    int fd = -1;

    if (links == LINKS_NONE)
        how.resolve |= RESOLVE_NO_SYMLINKS;
    for (int i = 0; i < OPEN_TRIES; i++) {
        fd = (int)syscall(SYS_openat2, dir_fd, *path ? path : ".", &how, sizeof(how));
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            break;
    }
    return fd;
}
