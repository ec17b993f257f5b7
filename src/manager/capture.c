/* SPDX-License-Identifier: MIT */
#include "manager/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "manager/blobs.h"
#include "manager/files_kernel.h"
#include "store/artifact_store.h"

/* A content that another process removed between our writing it and the row is written again. */
#define ADD_TRIES 3

int
capture_possible(struct manager *m, const char *backend, struct err *err)
{
    if (manager_files_of(m, backend) != FILES_IN_RUNTIME)
        return 0;
    return err_slug(err, ERR_UNAVAILABLE, "not_implemented",
                    "outputs and capture need files that outlive what runs: jupyter with "
                    "SANDBOX_TRANSFER=direct, or daytona");
}

/* All files there are, as a runtime's backend lists them. */
static const struct file_query everything = {
    .folder = "", .recursive = true, .max_entries = SNAPSHOT_ENTRIES_MAX};

static int
look_here(struct manager *m, const struct execution_request *q, const struct session *s,
          struct capture *c, struct err *err)
{
    int rc = manager_workspace_open(m, s->workspace_id, &c->ws, err);

    if (rc == 0 && q->capture->changed)
        rc = snapshot_take(&c->ws, deadline_in(CAPTURE_MS), &c->before, err);
    return rc;
}

static int
look_there(struct manager *m, const struct execution_request *q, struct session *s,
           struct capture *c, struct err *err)
{
    struct file_list list = {0};

    if (manager_backend_of(m, s, &c->sb, err) < 0)
        return -1;
    if (!q->capture->changed)
        return 0;
    if (kernel_file_list_held(m, s, &everything, CAPTURE_MS, &list, err) < 0)
        return -1;
    return snapshot_of_list(&list, &c->before, err);
}

int
capture_begin(struct manager *m, const struct execution_request *q, struct session *s,
              struct capture *ret, struct err *err)
{
    int rc;

    *ret = (struct capture){.ws = {.root_fd = -1}};
    if (!q->capture)
        return 0;
    if (capture_possible(m, s->backend, err) < 0)
        return -1;
    if (manager_files_of(m, s->backend) == FILES_IN_WORKSPACE)
        rc = look_here(m, q, s, ret, err);
    else
        rc = look_there(m, q, s, ret, err);
    if (rc < 0)
        capture_done(ret);
    return rc;
}

void
capture_runtime(struct capture *c, const char *handle)
{
    size_t n = strlen(handle);

    if (n < sizeof c->handle)
        memcpy(c->handle, handle, n + 1);
}

void
capture_done(struct capture *c)
{
    if (c->ws.root_fd >= 0)
        workspace_close(&c->ws);
    c->ws.root_fd = -1;
    c->sb = NULL;
    snapshot_free(c->before);
    c->before = NULL;
}

struct keeping {
    struct manager *m;
    const struct execution *row;
    const struct capture *c;
    struct deadline d;
    struct artifact_report *report;
};

static bool
there(void *ctx, const char *sha256)
{
    const int *dir_fd = ctx;

    return blobs_there(*dir_fd, sha256);
}

static enum left_out
why_of(const struct err *err, struct deadline d)
{
    if (err->code == ERR_TIMEOUT || deadline_passed(d))
        return LEFT_TIME;
    if (err->slug && strcmp(err->slug, "file_too_large") == 0)
        return LEFT_TOO_LARGE;
    return LEFT_UNREADABLE;
}

/* 0, or -1 with err. */
static int
put_and_add(const struct keeping *k, const struct file_entry *e, int fd, enum artifact_add *ret_how,
            struct artifact *ret, struct err *err)
{
    struct manager *m = k->m;
    char sha256[SHA256_HEX_SIZE];
    struct artifact_add_args a = {.owner = k->row->owner,
                                  .session_name = k->row->session_name,
                                  .eid = k->row->eid,
                                  .path = e->path,
                                  .path_len = e->path_len,
                                  .sha256 = sha256,
                                  .max_versions = m->o.artifact_max_count,
                                  .max_bytes = m->o.artifact_max_total_bytes,
                                  .now_wall_ms = clock_wall_ms(),
                                  .there = there,
                                  .ctx = &m->artifacts_fd};

    for (int i = 0; i < ADD_TRIES; i++) {
        if (blobs_put(m->artifacts_fd, fd, m->o.artifact_max_bytes, k->d, sha256, &a.size, err) <
                0 ||
            artifact_store_add(m->db, &a, ret_how, ret, err) < 0)
            return -1;
        if (*ret_how == ARTIFACT_COUNT_FULL || *ret_how == ARTIFACT_BYTES_FULL)
            artifact_content_forget(m, sha256); /* or runs over the quota would fill the disk */
        if (*ret_how != ARTIFACT_BLOB_GONE)
            return 0;
    }
    return err_set(err, ERR_UNAVAILABLE, "its content is removed again and again");
}

/* Its bytes, from the descriptor's start. */
static int
open_changed(const struct keeping *k, const struct file_entry *e, int *ret_fd, struct err *err)
{
    const struct runtime_ref ref = {.handle = k->c->handle, .kernel_session = ""};
    struct file_info info;

    if (!k->c->sb)
        return workspace_open_file(&k->c->ws, e->path, e->path_len, ret_fd, NULL, err);
    if (deadline_passed(k->d))
        return err_set(err, ERR_TIMEOUT, "no time is left to keep a file");
    if (kernel_stage(k->m, ret_fd, err) < 0)
        return -1;
    return k->c->sb->ops->get_file(k->c->sb, &ref, e->path, e->path_len, k->m->o.artifact_max_bytes,
                                   *ret_fd, &info, k->d, err);
}

static void
keep(struct keeping *k, const struct file_entry *e)
{
    struct artifact_report *r = k->report;
    _cleanup_close_ int fd = -1;
    enum artifact_add how = ARTIFACT_ADDED;
    struct err err = ERR_INIT;

    if (r->n_kept == ARTIFACTS_PER_RUN) {
        artifact_report_leave(r, e->path, LEFT_TOO_MANY);
        return;
    }
    if (e->info.size > k->m->o.artifact_max_bytes) {
        artifact_report_leave(r, e->path, LEFT_TOO_LARGE);
        return;
    }
    if (open_changed(k, e, &fd, &err) < 0 ||
        put_and_add(k, e, fd, &how, &r->kept[r->n_kept], &err) < 0) {
        log_warning("a file is not kept: %s", err.msg);
        artifact_report_leave(r, e->path, why_of(&err, k->d));
    } else if (how == ARTIFACT_ADDED || how == ARTIFACT_SAME) {
        r->n_kept++;
    } else {
        artifact_report_leave(r, e->path,
                              how == ARTIFACT_COUNT_FULL ? LEFT_QUOTA_COUNT : LEFT_QUOTA_BYTES);
    }
}

/* The files to keep. */
static int
find(const struct keeping *k, const struct execution_request *q, struct file_list *ret,
     struct err *err)
{
    const struct capture_request *want = q->capture;
    const struct capture *c = k->c;
    const struct runtime_ref ref = {.handle = c->handle, .kernel_session = ""};

    if (!c->sb)
        return snapshot_changed(&c->ws, c->before, want->outputs, want->n_outputs, k->d, ret, err);
    if (!c->handle[0])
        return err_set(err, ERR_UNAVAILABLE, "the session has no runtime that has its files");
    if (c->sb->ops->list_files(c->sb, &ref, &everything, ret, k->d, err) < 0)
        return -1;
    snapshot_changed_of_list(ret, c->before, want->outputs, want->n_outputs);
    return 0;
}

void
capture_end(struct manager *m, struct capture *c, const struct execution_request *q,
            const struct execution *row, struct artifact_report *ret)
{
    struct keeping k = {.m = m, .row = row, .c = c, .d = deadline_in(CAPTURE_MS), .report = ret};
    struct file_list list = {0};
    struct err err = ERR_INIT;

    if (c->ws.root_fd < 0 && !c->sb)
        return;
    manager_promise(m, CAPTURE_MS + m->o.sandbox.http_timeout_ms);
    if (find(&k, q, &list, &err) < 0) {
        log_warning("what execution %s changed is not known: %s", row->eid, err.msg);
        artifact_report_leave(ret, "", why_of(&err, k.d));
        return;
    }
    if (list.more)
        artifact_report_leave(ret, "", LEFT_TOO_MANY);
    if (list.n > 0)
        ret->kept = xcalloc(ARTIFACTS_PER_RUN, sizeof(*ret->kept));
    for (size_t i = 0; i < list.n; i++)
        keep(&k, &list.entries[i]);
    file_list_done(&list);
}
