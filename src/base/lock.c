/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int
lock_open(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0660);

    if (fd < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot open the lock file %s", path);
    return fd;
}

static int
try_lock(int fd, short type, int64_t offset)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    int r;

    do
        r = fcntl(fd, F_OFD_SETLK, &l);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return 1;
    return errno == EAGAIN || errno == EACCES ? 0 : -1;
}

int
lock_try_shared(int fd, int64_t offset)
{
    return try_lock(fd, F_RDLCK, offset);
}

int
lock_try_exclusive(int fd, int64_t offset)
{
    return try_lock(fd, F_WRLCK, offset);
}

int
lock_release(int fd, int64_t offset)
{
    int r = try_lock(fd, F_UNLCK, offset);

    return r == 1 ? 0 : -1;
}

int
lock_is_held(int fd, int64_t offset)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    int r;

    do
        r = fcntl(fd, F_OFD_GETLK, &l);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return -1;
    return l.l_type != F_UNLCK;
}
