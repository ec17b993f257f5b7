/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/log.h"
#include "store/session_store.h"

/*
 * Whoever changes a session's files may be killed while something has one of our own hidden names
 * in them: an upload just before it is renamed into place, a deep folder on its way out.  So that
 * the sweep need not look through every session's files for that, an empty file in the traces'
 * folder says beforehand whose may hold something, and is removed afterwards.  Its name begins with
 * the session's internal id.
 */
#define SID_DIGITS 16

bool
trace_leave(struct manager *m, int64_t sid, char ret[TRACE_NAME_SIZE], struct err *err)
{
    char hex[17];
    int fd;

    ret[0] = '\0';
    if (m->traces_fd < 0)
        return true;
    id_random_hex(hex, 8);
    (void)snprintf(ret, TRACE_NAME_SIZE, "%016" PRIx64 "-%s", (uint64_t)sid, hex);
    fd = openat(m->traces_fd, ret, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)close(fd);
        return true;
    }
    ret[0] = '\0';
    if (errno == ENOSPC || errno == EDQUOT)
        err_slug(err, ERR_LIMIT, "disk_full", "no space is left");
    else
        err_sys(err, ERR_INTERNAL, errno, "noting that a session's files are changed");
    return false;
}

void
trace_remove(struct manager *m, const char *trace)
{
    if (trace[0])
        (void)unlinkat(m->traces_fd, trace, 0);
}

static void
note(const struct err *err)
{
    log_warning("sweep, a session's files: %s", err->msg);
}

/* 1 nothing of ours is in the session's files any more, 0 somebody is at work in it. Under the
 * exclusive lock, so that nothing found there is in use. */
static int
tidy(struct manager *m, int64_t sid, struct deadline d, struct err *err)
{
    struct session s = {0};
    struct workspace ws = {.root_fd = -1};
    int r = lock_try_exclusive(m->lock_fd, sid);

    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    if (r == 0)
        return 0;
    r = session_store_by_sid(m->db, sid, &s, err);
    if (r > 0 && place_open(&m->place, s.workspace_id, &ws, err) == 0) {
        r = workspace_tidy(&ws, d, err) < 0 ? -1 : 1;
        workspace_close(&ws);
    } else if (r > 0) {
        r = err && err->code == ERR_NOT_FOUND ? 1 : -1;
    }
    (void)lock_release(m->lock_fd, sid);
    session_done(&s);
    return r < 0 ? -1 : 1;
}

void
traces_follow(struct manager *m, struct deadline d, struct sweep_report *r)
{
    int fd = m->traces_fd < 0
                 ? -1
                 : openat(m->traces_fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *de;

    while (dir && (de = readdir(dir)) != NULL) {
        struct err err = ERR_INIT;
        char digits[SID_DIGITS + 1];
        int done;

        if (strlen(de->d_name) + 1 != TRACE_NAME_SIZE)
            continue;
        if (sweep_over(m, d))
            break;
        memcpy(digits, de->d_name, SID_DIGITS);
        digits[SID_DIGITS] = '\0';
        done = tidy(m, (int64_t)strtoull(digits, NULL, 16), d, &err);
        if (done < 0)
            note(&err);
        if (done <= 0)
            continue;
        trace_remove(m, de->d_name);
        r->traces_followed++;
    }
    if (!dir)
        cleanup_close(&fd);
}
