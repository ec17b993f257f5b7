/* SPDX-License-Identifier: MIT */
/* What both sides share, and the result kept beside the events. */
#include "spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "spool/spool_format.h"

int
spool_path(const char *dir, const char *eid, const char *suffix, char out[SPOOL_NAME_MAX],
           struct err *err)
{
    if (!id_in_alphabet(eid, strlen(eid), 1, ID_UUID_SIZE - 1))
        return err_set(err, ERR_INVALID, "\"%.40s\" is no execution id", eid);
    int n = snprintf(out, SPOOL_NAME_MAX, "%s/%s%s", dir, eid, suffix);
    if (n < 0 || n >= SPOOL_NAME_MAX)
        return err_set(err, ERR_INVALID, "the path of the spool directory is too long");
    return 0;
}

static int
not_kept(const char *eid, struct err *err)
{
    return err_slug(err, ERR_NOT_FOUND, "events_gone", "the result of %s is not kept", eid);
}

/* Where the result's payload stands: its length, or -1 while there is none. */
static int64_t
find_result(int fd, off_t *ret_at)
{
    struct spool_header h;
    struct stat st;
    off_t tail;

    if (fstat(fd, &st) < 0 || st.st_size < (off_t)(2 * sizeof(h)))
        return -1;
    tail = st.st_size - (off_t)sizeof(h);
    if (fd_pread_all(fd, &h, sizeof(h), tail) < 0 || h.magic != SPOOL_MAGIC ||
        h.type != SPOOL_RESULT || h.length != 0 || h.seq < 0 || h.seq > tail - (int64_t)sizeof(h))
        return -1;
    *ret_at = (off_t)h.seq + (off_t)sizeof(h);
    if (fd_pread_all(fd, &h, sizeof(h), *ret_at - (off_t)sizeof(h)) < 0 || h.magic != SPOOL_MAGIC ||
        h.type != SPOOL_RESULT || *ret_at + (off_t)h.length != tail)
        return -1;
    return h.length;
}

int
spool_get_result(const char *dir, const char *eid, struct buf *ret, struct err *err)
{
    char path[SPOOL_NAME_MAX];
    off_t at = 0;
    int64_t n;
    char *p;

    if (spool_path(dir, eid, SPOOL_EVENTS, path, err) < 0)
        return -1;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT)
        return err_sys(err, ERR_INTERNAL, errno, "cannot open %s", path);
    n = fd < 0 ? -1 : find_result(fd, &at);
    if (n < 0)
        return not_kept(eid, err);
    p = buf_reserve(ret, (size_t)n);
    if (p == NULL)
        return err_set(err, ERR_LIMIT, "the result of %s is larger than %zu bytes", eid, ret->max);
    if (fd_pread_all(fd, p, (size_t)n, at) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot read %s", path);
    buf_added(ret, (size_t)n);
    return 0;
}

void
spool_remove(const char *dir, const char *eid)
{
    char path[SPOOL_NAME_MAX];

    if (spool_path(dir, eid, SPOOL_EVENTS, path, NULL) == 0)
        (void)unlink(path);
}
