/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "manager/files_kernel.h"
#include "manager/internal.h"
#include "store/session_store.h"

int
manager_workspace_open(struct manager *m, int64_t workspace_id, struct workspace *ret,
                       struct err *err)
{
    struct err first = ERR_INIT;

    if (place_open(&m->place, workspace_id, ret, &first) == 0)
        return 0;
    if (first.code != ERR_NOT_FOUND) {
        if (err)
            *err = first;
        return -1;
    }
    if (place_create(&m->place, workspace_id, NULL, err) < 0)
        return -1;
    return place_open(&m->place, workspace_id, ret, err);
}

int
manager_workspace_remove(struct manager *m, const char *backend, int64_t workspace_id,
                         struct err *err)
{
    if (manager_files_of(m, backend) == FILES_KEYED)
        return 0;
    return place_remove(&m->place, workspace_id, err);
}

static bool
in_workspace(struct manager *m, const struct session *s)
{
    return manager_files_of(m, s->backend) == FILES_IN_WORKSPACE;
}

int
manager_files_begin(struct manager *m, const struct caller *c, const char *name,
                    struct file_lease *ret, struct err *err)
{
    struct wait w = {.d = deadline_in(m->o.start_timeout_ms)};
    struct session s = {0};
    int64_t *held;

    if (hold_take(m, c, name, &w, &s, err) < 0)
        return -1;
    ret->ws.root_fd = -1;
    if (in_workspace(m, &s) && manager_workspace_open(m, s.workspace_id, &ret->ws, err) < 0) {
        hold_leave(m, s.sid);
        session_done(&s);
        return -1;
    }
    held = xcalloc(1, sizeof *held);
    *held = s.sid;
    session_derive(m, &s);
    ret->session = s;
    ret->hold = held;
    return 0;
}

void
manager_files_end(struct manager *m, struct file_lease *l, bool worked)
{
    struct err err = ERR_INIT;
    struct db_now now = manager_now(m);
    int64_t *held = l->hold;

    if (!held)
        return;
    if (l->ws.root_fd >= 0)
        workspace_close(&l->ws);
    /* First the row, then the lock: nobody may find it free and expired in between. */
    if (worked && session_store_touch(m->db, *held, &now, NULL, &err) < 0)
        log_warning("the session's idle clock was not set: %s", err.msg);
    hold_leave(m, *held);
    free(held);
    l->hold = NULL;
    session_done(&l->session);
}

int
files_held(struct manager *m, const struct session *s, struct session *turn, struct file_lease *ret,
           struct err *err)
{
    *ret = (struct file_lease){.ws = {.root_fd = -1}, .turn = turn};
    ret->session.sid = s->sid;
    memcpy(ret->session.backend, s->backend, sizeof s->backend);
    return in_workspace(m, s) ? manager_workspace_open(m, s->workspace_id, &ret->ws, err) : 0;
}

void
files_held_end(struct file_lease *l)
{
    if (l->ws.root_fd >= 0)
        workspace_close(&l->ws);
    l->ws.root_fd = -1;
}

int
manager_file_open(struct manager *m, struct file_lease *l, const char *path, size_t n, int *ret_fd,
                  struct file_info *ret, struct err *err)
{
    if (!in_workspace(m, &l->session))
        return kernel_file_open(m, l->session.sid, path, n, ret_fd, ret, err);
    return workspace_open_file(&l->ws, path, n, ret_fd, ret, err);
}

int
manager_file_stat(struct manager *m, struct file_lease *l, const char *path, size_t n,
                  struct file_info *ret, struct err *err)
{
    if (!in_workspace(m, &l->session))
        return kernel_file_stat(m, l->session.sid, path, n, ret, err);
    return workspace_stat(&l->ws, path, n, ret, err);
}

int
manager_file_list(struct manager *m, struct file_lease *l, const struct file_query *q,
                  struct deadline d, struct file_list *ret, struct err *err)
{
    if (!in_workspace(m, &l->session))
        return kernel_file_list(m, l->session.sid, q, ret, err);
    return workspace_list(&l->ws, q->folder, q->folder_len, q->glob, q->recursive, q->after,
                          q->after_len, q->max_entries, d, ret, err);
}

int
manager_file_remove(struct manager *m, struct file_lease *l, const char *path, size_t n,
                    bool recursive, struct err *err)
{
    char trace[TRACE_NAME_SIZE] = "";
    struct err terr = ERR_INIT;
    int rc;

    if (!in_workspace(m, &l->session))
        return kernel_file_remove(m, l->session.sid, path, n, recursive, err);
    /* A full disk must not keep anybody from making room. */
    if (recursive && !trace_leave(m, l->session.sid, trace, &terr) && terr.code != ERR_LIMIT) {
        if (err)
            *err = terr;
        return -1;
    }
    rc = workspace_unlink(&l->ws, path, n, recursive, err);
    trace_remove(m, trace);
    return rc;
}

struct file_upload {
    struct manager *m;
    struct upload *direct; /* NULL: staged, for the kernel */
    int64_t sid;
    struct session *turn; /* as in the lease */
    char *path;
    size_t n;
    int fd;
    int64_t size;
    char trace[TRACE_NAME_SIZE]; /* "": there is none */
};

static void
upload_free(struct file_upload *u)
{
    if (u->fd >= 0)
        (void)close(u->fd);
    trace_remove(u->m, u->trace);
    free(u->path);
    free(u);
}

int
manager_upload_begin(struct manager *m, struct file_lease *l, const char *path, size_t n,
                     struct file_upload **ret, struct err *err)
{
    struct file_upload *u = xcalloc(1, sizeof *u);
    int rc;

    u->m = m;
    u->sid = l->session.sid;
    u->turn = l->turn;
    u->path = xstrndup(path, n);
    u->n = n;
    u->fd = -1;
    if (!in_workspace(m, &l->session))
        rc = kernel_stage(m, &u->fd, err);
    else if (!trace_leave(m, u->sid, u->trace, err))
        rc = -1;
    else
        rc = upload_begin(&l->ws, path, n, &u->direct, err);
    if (rc < 0) {
        upload_free(u);
        return -1;
    }
    *ret = u;
    return 0;
}

int
manager_upload_write(struct file_upload *u, const void *p, size_t n, struct err *err)
{
    if (u->direct)
        return upload_write(u->direct, p, n, err);
    u->size += (int64_t)n;
    return kernel_stage_write(u->fd, p, n, err);
}

int
manager_upload_commit(struct file_upload *u, enum upload_mode mode,
                      const struct file_info *expected, bool *ret_created, struct file_info *ret,
                      struct err *err)
{
    int rc;

    if (u->direct) {
        rc = upload_commit(u->direct, mode, expected, ret_created, ret, err);
    } else {
        struct file_put p = {.path = u->path,
                             .path_len = u->n,
                             .fd = u->fd,
                             .size = u->size,
                             .create = mode == UPLOAD_CREATE,
                             .expected = expected};

        rc = u->turn ? kernel_file_put_held(u->m, u->turn, &p, ret_created, ret, err)
                     : kernel_file_put(u->m, u->sid, &p, ret_created, ret, err);
    }
    upload_free(u);
    return rc;
}

void
manager_upload_abort(struct file_upload *u)
{
    if (!u)
        return;
    upload_abort(u->direct);
    upload_free(u);
}
