/* SPDX-License-Identifier: MIT */
/* What both sides share, and the result kept beside the events. */
#include "spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "spool/spool_format.h"

#define EVENTS ".events"
#define RESULT ".result"
#define RESULT_TEMP ".result.tmp"

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

int
spool_put_result(const char *dir, const char *eid, const char *json, size_t n, struct err *err)
{
    char temp[SPOOL_NAME_MAX], path[SPOOL_NAME_MAX];
    if (spool_path(dir, eid, RESULT_TEMP, temp, err) < 0 ||
        spool_path(dir, eid, RESULT, path, err) < 0)
        return -1;
    _cleanup_close_ int fd =
        open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0660);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot make %s", temp);
    if (fd_write_all(fd, json, n) < 0 || rename(temp, path) < 0) {
        int saved = errno;
        (void)unlink(temp);
        return err_sys(err, ERR_INTERNAL, saved, "cannot write %s", path);
    }
    return 0;
}

int
spool_get_result(const char *dir, const char *eid, struct buf *ret, struct err *err)
{
    char path[SPOOL_NAME_MAX];
    if (spool_path(dir, eid, RESULT, path, err) < 0)
        return -1;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return err_slug(err, ERR_NOT_FOUND, "events_gone", "the result of %s is not kept", eid);
    return fd_read_file(path, ret, err);
}

void
spool_remove(const char *dir, const char *eid)
{
    static const char *const suffixes[] = {EVENTS, RESULT, RESULT_TEMP};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char path[SPOOL_NAME_MAX];
        if (spool_path(dir, eid, suffixes[i], path, NULL) == 0)
            (void)unlink(path);
    }
}
