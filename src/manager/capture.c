/* SPDX-License-Identifier: MIT */
#include "manager/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "manager/blobs.h"
#include "store/artifact_store.h"

/* A content that another process removed between our writing it and the row is written again. */
#define ADD_TRIES 3

int
capture_possible(struct manager *m, const char *backend, struct err *err)
{
    if (manager_files_of(m, backend) == FILES_IN_WORKSPACE)
        return 0;
    return err_slug(err, ERR_UNAVAILABLE, "not_implemented",
                    "outputs and capture need a backend whose files are in a workspace here: "
                    "jupyter with SANDBOX_TRANSFER=direct");
}

int
capture_begin(struct manager *m, const struct execution_request *q, const struct session *s,
              struct capture *ret, struct err *err)
{
    int rc;

    *ret = (struct capture){.ws = {.root_fd = -1}};
    if (!q->capture)
        return 0;
    if (capture_possible(m, s->backend, err) < 0)
        return -1;
    rc = manager_workspace_open(m, s->workspace_id, &ret->ws, err);
    if (rc == 0 && q->capture->changed)
        rc = snapshot_take(&ret->ws, deadline_in(CAPTURE_MS), &ret->before, err);
    if (rc < 0)
        capture_done(ret);
    return rc;
}

void
capture_done(struct capture *c)
{
    if (c->ws.root_fd >= 0)
        workspace_close(&c->ws);
    c->ws.root_fd = -1;
    snapshot_free(c->before);
    c->before = NULL;
}

struct keeping {
    struct manager *m;
    const struct execution *row;
    const struct workspace *ws;
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
why_of(const struct err *err)
{
    if (err->code == ERR_TIMEOUT)
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
    if (workspace_open_file(k->ws, e->path, e->path_len, &fd, NULL, &err) < 0 ||
        put_and_add(k, e, fd, &how, &r->kept[r->n_kept], &err) < 0) {
        log_warning("a file is not kept: %s", err.msg);
        artifact_report_leave(r, e->path, why_of(&err));
    } else if (how == ARTIFACT_ADDED || how == ARTIFACT_SAME) {
        r->n_kept++;
    } else {
        artifact_report_leave(r, e->path,
                              how == ARTIFACT_COUNT_FULL ? LEFT_QUOTA_COUNT : LEFT_QUOTA_BYTES);
    }
}

void
capture_end(struct manager *m, struct capture *c, const struct execution_request *q,
            const struct execution *row, struct artifact_report *ret)
{
    struct keeping k = {
        .m = m, .row = row, .ws = &c->ws, .d = deadline_in(CAPTURE_MS), .report = ret};
    struct file_list list = {0};
    struct err err = ERR_INIT;

    if (c->ws.root_fd < 0)
        return;
    manager_promise(m, CAPTURE_MS + m->o.sandbox.http_timeout_ms);
    if (snapshot_changed(&c->ws, c->before, q->capture->outputs, q->capture->n_outputs, k.d, &list,
                         &err) < 0) {
        log_warning("what execution %s changed is not known: %s", row->eid, err.msg);
        artifact_report_leave(ret, "", err.code == ERR_TIMEOUT ? LEFT_TIME : LEFT_UNREADABLE);
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
