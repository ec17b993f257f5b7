/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "workspace/beneath.h"

/* Two writes within this time may leave the same time stamps. */
#define QUIET_NS (2 * INT64_C(1000000000))

void
file_etag(const struct file_info *f, int64_t now_wall_ms, char out[FILE_ETAG_SIZE])
{
    int64_t last = f->mtime_ns > f->ctime_ns ? f->mtime_ns : f->ctime_ns;
    bool weak = now_wall_ms * 1000000 - last < QUIET_NS;

    /* Of the ctime the low 32 bits do: it tells writes apart whose mtime somebody set back, and
     * only those at least 2 s apart need telling. */
    (void)snprintf(out, FILE_ETAG_SIZE, "%s\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx32 "\"",
                   weak ? "W/" : "", f->inode, (uint64_t)f->size, (uint64_t)f->mtime_ns,
                   (uint32_t)(uint64_t)f->ctime_ns);
}

int
workspace_open_file(const struct workspace *w, const char *path, size_t n, int *ret_fd,
                    struct file_info *ret, struct err *err)
{
    struct beneath_path p;
    struct stat st;

    if (beneath_split(path, n, &p, err) < 0)
        return -1;

    /* Without O_NONBLOCK a FIFO waits for a writer, and a leased file for its holder. */
    _cleanup_close_ int fd =
        beneath_open(w->root_fd, p.whole, O_RDONLY | O_NONBLOCK | O_NOCTTY, LINKS_INSIDE);
    if (fd < 0)
        return beneath_err(err, errno, p.whole);
    if (fstat(fd, &st) < 0)
        return beneath_err(err, errno, p.whole);
    if (!S_ISREG(st.st_mode))
        return err_slug(err, ERR_INVALID, "not_a_file", "%.200s: it is not a regular file",
                        p.whole);
    if (ret)
        beneath_info(&st, ret);
    *ret_fd = steal_fd(&fd);
    return 0;
}

int
workspace_stat(const struct workspace *w, const char *path, size_t n, struct file_info *ret,
               struct err *err)
{
    struct beneath_path p;
    struct stat st;

    if (beneath_split(path, n, &p, err) < 0)
        return -1;

    _cleanup_close_ int fd = beneath_open(w->root_fd, p.whole, O_PATH | O_NOFOLLOW, LINKS_INSIDE);
    if (fd < 0)
        return beneath_err(err, errno, p.whole);
    if (fstat(fd, &st) < 0)
        return beneath_err(err, errno, p.whole);
    beneath_info(&st, ret);
    return 0;
}
