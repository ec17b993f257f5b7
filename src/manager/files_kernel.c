/* SPDX-License-Identifier: MIT */
#include "manager/files_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "store/session_store.h"

/* One operation in the kernel, however large the file, unless its job says otherwise. */
#define TRANSFER_MS 60000

/* What an operation needs; each uses its part. */
struct job {
    int (*run)(struct job *j, struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
               struct err *err);
    const char *path;
    size_t n;
    bool recursive;
    int64_t within_ms; /* 0: TRANSFER_MS */
    int fd;
    int64_t max_bytes;
    const struct file_put *put;
    const struct file_query *query;
    struct file_info *info;
    struct file_list *list;
    bool *created;
};

static int
attempt(struct manager *m, const struct session *s, struct job *j, struct err *err)
{
    struct runtime_ref ref = {.handle = s->handle, .kernel_session = s->kernel_session};
    struct sandbox *sb = NULL;
    int64_t ms = j->within_ms ? j->within_ms : TRANSFER_MS;

    if (manager_backend_of(m, s, &sb, err) < 0)
        return -1;
    if (!sb->ops->get_file)
        return err_slug(err, ERR_UNAVAILABLE, "not_implemented",
                        "the backend %s moves no files through its kernels", s->backend);
    manager_promise(m, ms + m->o.sandbox.http_timeout_ms * 2);
    return j->run(j, sb, &ref, deadline_in(ms), err);
}

/* With the turn: a runtime, and in it the job; a runtime that turns out to be gone took the files
 * along, and the job is done once more in the new one. */
static int
run_held(struct manager *m, struct session *s, struct job *j, struct err *err)
{
    struct wait w = {.d = deadline_in(m->o.start_timeout_ms)};
    struct err first = ERR_INIT;

    if (settle_held(m, s, err) < 0)
        return -1;
    if (!s->handle[0] && runtime_make(m, s, &w, err) < 0)
        return -1;
    if (attempt(m, s, j, &first) == 0)
        return 0;
    if (!first.slug || strcmp(first.slug, "runtime_gone") != 0) {
        if (err)
            *err = first;
        return -1;
    }
    log_info("the runtime of the session was lost; it gets another");
    w.d = deadline_in(m->o.start_timeout_ms);
    if (runtime_replace_begin(m, s, 1, err) < 0 || runtime_make(m, s, &w, err) < 0)
        return -1;
    return attempt(m, s, j, err);
}

static int
run(struct manager *m, int64_t sid, struct job *j, struct err *err)
{
    struct wait w = {.d = DEADLINE_NEVER};
    struct session s = {.sid = sid};
    struct turn turn = {0};
    int rc;

    manager_promise(m, m->o.turn_wait_ms + 2 * m->o.start_timeout_ms + TRANSFER_MS +
                           m->o.sandbox.http_timeout_ms * 2);
    if (turn_take(m, sid, &w, &turn, err) < 0)
        return -1;
    rc = run_held(m, &s, j, err);
    turn_leave(m, &turn);
    session_done(&s);
    return rc;
}

int
kernel_stage(struct manager *m, int *ret_fd, struct err *err)
{
    *ret_fd = open(m->o.spool_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*ret_fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "no file can be staged in %s", m->o.spool_dir);
    return 0;
}

int
kernel_stage_write(int fd, const void *p, size_t n, struct err *err)
{
    if (fd_write_all(fd, p, n) == 0)
        return 0;
    if (errno == ENOSPC || errno == EDQUOT)
        return err_slug(err, ERR_LIMIT, "disk_full", "there is no space left to stage the file");
    return err_sys(err, ERR_INTERNAL, errno, "the file could not be staged");
}

static int
run_get(struct job *j, struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
        struct err *err)
{
    /* a second try starts over */
    if (ftruncate(j->fd, 0) < 0 || lseek(j->fd, 0, SEEK_SET) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the file could not be staged");
    return sb->ops->get_file(sb, rt, j->path, j->n, j->max_bytes, j->fd, j->info, d, err);
}

int
kernel_file_open(struct manager *m, int64_t sid, const char *path, size_t n, int *ret_fd,
                 struct file_info *ret, struct err *err)
{
    struct job j = {
        .run = run_get, .path = path, .n = n, .max_bytes = m->o.max_file_bytes, .info = ret};

    if (kernel_stage(m, &j.fd, err) < 0)
        return -1;
    if (run(m, sid, &j, err) < 0) {
        (void)close(j.fd);
        return -1;
    }
    *ret_fd = j.fd;
    return 0;
}

static int
run_stat(struct job *j, struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
         struct err *err)
{
    return sb->ops->stat_path(sb, rt, j->path, j->n, j->info, d, err);
}

int
kernel_file_stat(struct manager *m, int64_t sid, const char *path, size_t n, struct file_info *ret,
                 struct err *err)
{
    struct job j = {.run = run_stat, .path = path, .n = n, .info = ret};

    return run(m, sid, &j, err);
}

static int
run_list(struct job *j, struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
         struct err *err)
{
    return sb->ops->list_files(sb, rt, j->query, j->list, d, err);
}

int
kernel_file_list(struct manager *m, int64_t sid, const struct file_query *q, struct file_list *ret,
                 struct err *err)
{
    struct job j = {.run = run_list, .query = q, .list = ret};

    return run(m, sid, &j, err);
}

int
kernel_file_list_held(struct manager *m, struct session *s, const struct file_query *q, int64_t ms,
                      struct file_list *ret, struct err *err)
{
    struct job j = {.run = run_list, .query = q, .list = ret, .within_ms = ms};

    return run_held(m, s, &j, err);
}

static int
run_remove(struct job *j, struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
           struct err *err)
{
    return sb->ops->remove_path(sb, rt, j->path, j->n, j->recursive, d, err);
}

int
kernel_file_remove(struct manager *m, int64_t sid, const char *path, size_t n, bool recursive,
                   struct err *err)
{
    struct job j = {.run = run_remove, .path = path, .n = n, .recursive = recursive};

    return run(m, sid, &j, err);
}

static int
run_put(struct job *j, struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
        struct err *err)
{
    return sb->ops->put_file(sb, rt, j->put, j->created, j->info, d, err);
}

int
kernel_file_put(struct manager *m, int64_t sid, const struct file_put *p, bool *ret_created,
                struct file_info *ret, struct err *err)
{
    struct job j = {.run = run_put, .put = p, .created = ret_created, .info = ret};

    return run(m, sid, &j, err);
}

int
kernel_file_put_held(struct manager *m, struct session *s, const struct file_put *p,
                     bool *ret_created, struct file_info *ret, struct err *err)
{
    struct job j = {.run = run_put, .put = p, .created = ret_created, .info = ret};

    return run_held(m, s, &j, err);
}
