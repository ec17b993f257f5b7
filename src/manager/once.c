/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/num.h"
#include "manager/run.h"

#define STEP (256 * 1024)
#define CLOSE_GRACE_MS 5000
/* Of a session that the call closes itself: all that is left should its process be killed. */
#define LEFT_TTL_MS 60000

/* One call from the session's opening to its close. */
struct once {
    struct manager *m;
    const struct caller *c;
    struct once_request *r;
    const struct exec_callbacks *cb;
    char name[SESSION_NAME_MAX + 1]; /* "" until it is known */
    int *fds;                        /* of inputs that are artifacts, else -1 */
};

static bool
gone(void *ctx)
{
    const struct once *o = ctx;

    return o->cb->tick && o->cb->tick(o->cb->ctx) != HOOK_GO_ON;
}

/* "A3" is looked for in this session's name, all else is an id. */
static int
find_artifact(const struct once *o, const struct run_input *in, struct artifact *ret,
              struct err *err)
{
    const char *which = in->artifact;
    int64_t ref;

    if (which[0] == 'A' && num_i64(which + 1, strlen(which + 1), 1, INT64_MAX, &ref)) {
        if (manager_artifact_by_ref(o->m, o->c, o->name, ref, ret, err) < 0)
            return -1;
        which = ret->artifact_id;
    }
    return manager_artifact_get(o->m, o->c, which, in->version, ret, err);
}

/* All that is put in, found and within the bound, before anything is done. */
static int
find_inputs(struct once *o, struct err *err)
{
    struct once_request *r = o->r;
    int64_t left = r->max_input_bytes;

    for (size_t i = 0; i < r->n_inputs; i++) {
        struct run_input *in = &r->inputs[i];
        struct artifact a;

        in->size = (int64_t)in->n;
        if (in->artifact) {
            if (find_artifact(o, in, &a, err) < 0)
                return err_wrap(err, "inputs[%zu]", i);
            in->version = a.version;
            in->size = a.size;
            memcpy(in->sha256, a.sha256, sizeof in->sha256);
            if (manager_artifact_open(o->m, &a, &o->fds[i], err) < 0)
                return -1;
        } else {
            sha256_hex_of(in->p, in->n, in->sha256);
        }
        if (in->size > left)
            return err_slug(err, ERR_LIMIT, "inputs_too_large",
                            "the inputs are larger than %" PRId64
                            " bytes together (SANDBOX_MAX_INPUT_BYTES)",
                            r->max_input_bytes);
        left -= in->size;
    }
    return 0;
}

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
stage_one(const struct once *o, struct file_lease *l, size_t i, struct err *err)
{
    const struct run_input *in = &o->r->inputs[i];
    struct file_upload *u = NULL;
    struct file_info info;
    bool created;
    int rc;

    manager_promise(o->m, o->m->o.start_timeout_ms + 2 * o->m->o.sandbox.http_timeout_ms);
    if (manager_upload_begin(o->m, l, in->path, in->path_len, &u, err) < 0)
        return -1;
    rc = in->artifact ? copy(o->fds[i], in->size, u, err)
                      : manager_upload_write(u, in->p, in->n, err);
    if (rc < 0) {
        manager_upload_abort(u);
        return -1;
    }
    return manager_upload_commit(u, UPLOAD_REPLACE, NULL, &created, &info, err);
}

static int
stage(const struct once *o, struct err *err)
{
    struct file_lease l = {0};
    int rc = 0;

    if (o->r->n_inputs == 0)
        return 0;
    if (manager_files_begin(o->m, o->c, o->name, &l, err) < 0)
        return -1;
    for (size_t i = 0; i < o->r->n_inputs && rc == 0; i++)
        rc = stage_one(o, &l, i, err);
    manager_files_end(o->m, &l, rc == 0);
    return rc;
}

/* One file out of the session, before it is closed. */
static int
take_back(const struct once *o, struct err *err)
{
    const char *path = o->r->take_path;
    struct file_lease l = {0};
    struct file_info info;
    _cleanup_close_ int fd = -1;
    char *into;
    int rc;

    manager_promise(o->m, o->m->o.start_timeout_ms + 2 * o->m->o.sandbox.http_timeout_ms);
    if (manager_files_begin(o->m, o->c, o->name, &l, err) < 0)
        return -1;
    rc = manager_file_open(o->m, &l, path, strlen(path), &fd, &info, err);
    manager_files_end(o->m, &l, false);
    if (rc < 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    into =
        info.size <= (int64_t)o->r->take->max ? buf_reserve(o->r->take, (size_t)info.size) : NULL;
    if (!into)
        return err_set(err, ERR_LIMIT, "%s is %" PRId64 " bytes, at most %zu are taken", path,
                       info.size, o->r->take->max);
    if (fd_pread_all(fd, into, (size_t)info.size, 0) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "reading %s", path);
    buf_added(o->r->take, (size_t)info.size);
    return 0;
}

static int
open_session(struct once *o, struct err *err)
{
    const struct watch watch = {.gone = gone, .ctx = o};
    int64_t ms = o->m->o.start_timeout_ms + 2 * o->m->o.sandbox.http_timeout_ms;
    struct session s = {0};
    bool created = false;

    if (!o->r->keep)
        o->r->open.default_ttl_ms = LEFT_TTL_MS;
    manager_promise(o->m, ms);
    if (manager_open(o->m, o->c, &o->r->open, &watch, deadline_in(ms), &s, &created, err) < 0)
        return -1;
    o->r->exec.closes = created && !o->r->keep;
    memcpy(o->name, s.name, sizeof o->name);
    session_done(&s);
    return 0;
}

static void
close_session(const struct once *o)
{
    int64_t ms = 2 * o->m->o.sandbox.http_timeout_ms + CLOSE_GRACE_MS;
    struct err err = ERR_INIT;
    bool deferred;

    manager_promise(o->m, ms);
    if (manager_close(o->m, o->c, o->name, SESSION_END_CLOSED, deadline_in(ms), &deferred, &err) <
        0)
        log_warning("the session of one call is left to the reaper: %s", err.msg);
}

/* 1 *ret is a replay, 0 go on, -1. */
static int
look_first(struct once *o, struct exec_outcome *ret, struct err *err)
{
    const struct open_request *open = &o->r->open;

    if (o->r->exec.capture) {
        if (capture_possible(o->m, open->backend ? open->backend : o->m->o.backend, err) < 0)
            return -1;
        if (manager_artifacts_dir(o->m, err) < 0)
            return -1;
    }
    if (open->binding != BIND_NONE &&
        session_name_of(open->binding, open->value, open->value_len, o->name, err) < 0)
        return -1;
    if (!o->r->exec.idempotency_key)
        return 0;
    if (open->binding == BIND_NONE)
        return err_slug(err, ERR_INVALID, "bad_header",
                        "an Idempotency-Key needs a session_id, conversation_id or "
                        "workflow_run_id: keys are remembered by session");
    return exec_replay(o->m, o->c, o->name, &o->r->exec, ret, err);
}

static int
run(struct once *o, struct exec_outcome *ret, struct err *err)
{
    int rc = look_first(o, ret, err);

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (find_inputs(o, err) < 0 || open_session(o, err) < 0)
        return -1;
    rc = stage(o, err);
    if (rc == 0)
        rc = manager_exec(o->m, o->c, o->name, &o->r->exec, o->cb, ret, err);
    if (rc == 0 && o->r->take && ret->result.ok && take_back(o, err) < 0) {
        exec_outcome_done(ret);
        rc = -1;
    }
    if (o->r->exec.closes)
        close_session(o);
    return rc;
}

int
manager_exec_once(struct manager *m, const struct caller *c, struct once_request *r,
                  const struct exec_callbacks *cb, struct exec_outcome *ret, struct err *err)
{
    struct once o = {.m = m, .c = c, .r = r, .cb = cb};
    int rc;

    r->exec.once = true;
    r->exec.inputs = r->inputs;
    r->exec.n_inputs = r->n_inputs;
    o.fds = xcalloc(r->n_inputs + 1, sizeof *o.fds);
    for (size_t i = 0; i < r->n_inputs; i++)
        o.fds[i] = -1;
    rc = run(&o, ret, err);
    for (size_t i = 0; i < r->n_inputs; i++)
        cleanup_close(&o.fds[i]);
    free(o.fds);
    return rc;
}
