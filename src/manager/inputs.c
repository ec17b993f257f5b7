/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "manager/manager.h"
#include "manager/run.h"

#define STEP (256 * 1024)

/* The content of a kept file into an upload. */
static int
copy(int fd, int64_t size, struct file_upload *u, struct err *err)
{
    _cleanup_free_ char *buf = malloc(STEP);

    if (!buf)
        return err_set(err, ERR_NOMEM, "no memory for an input");
    for (int64_t at = 0; at < size;) {
        size_t n = size - at < STEP ? (size_t)(size - at) : STEP;

        if (fd_pread_all(fd, buf, n, at) < 0)
            return err_sys(err, ERR_INTERNAL, errno, "reading an artifact");
        if (manager_upload_write(u, buf, n, err) < 0)
            return -1;
        at += (int64_t)n;
    }
    return 0;
}

static int
put_one(struct manager *m, struct file_lease *l, const struct run_input *in, struct err *err)
{
    struct file_upload *u = NULL;
    struct file_info info;
    bool created;
    int rc;

    manager_promise(m, m->o.start_timeout_ms + 2 * m->o.sandbox.http_timeout_ms);
    if (manager_upload_begin(m, l, in->path, in->path_len, &u, err) < 0)
        return -1;
    rc = in->artifact ? copy(in->fd, in->size, u, err) : manager_upload_write(u, in->p, in->n, err);
    if (rc < 0) {
        manager_upload_abort(u);
        return -1;
    }
    return manager_upload_commit(u, UPLOAD_REPLACE, NULL, &created, &info, err);
}

int
inputs_put(struct run *r, struct err *err)
{
    struct file_lease l;
    int rc = files_held(r->m, &r->s, &r->s, &l, err);

    for (size_t i = 0; i < r->req->n_inputs && rc == 0; i++)
        rc = put_one(r->m, &l, &r->req->inputs[i], err);
    files_held_end(&l);
    return rc;
}
