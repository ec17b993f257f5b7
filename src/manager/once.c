/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/num.h"
#include "manager/run.h"

#define OPEN_TRIES 8 /* it may end again before it is held */
#define CLOSE_TRIES 3
#define CLOSE_PAUSE_MS 10
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
    struct session s;                /* held from its opening on */
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
            if (manager_artifact_open(o->m, &a, &in->fd, err) < 0)
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

/* One file out of the session, before it is closed. */
static int
take_back(const struct once *o, struct err *err)
{
    const char *path = o->r->take_path;
    struct file_lease l;
    struct file_info info;
    _cleanup_close_ int fd = -1;
    char *into;
    int rc;

    manager_promise(o->m, o->m->o.start_timeout_ms + 2 * o->m->o.sandbox.http_timeout_ms);
    if (files_held(o->m, &o->s, NULL, &l, err) < 0)
        return -1;
    rc = manager_file_open(o->m, &l, path, strlen(path), &fd, &info, err);
    files_held_end(&l);
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

/* Opened and held. In between it may be closed, evicted or expire: then it is opened again. */
static int
open_session(struct once *o, struct err *err)
{
    const struct watch watch = {.gone = gone, .ctx = o};
    int64_t ms = o->m->o.start_timeout_ms + 2 * o->m->o.sandbox.http_timeout_ms;
    struct deadline d = deadline_in(ms);
    struct wait w = {.d = d, .gone = gone, .ctx = o};

    if (!o->r->keep)
        o->r->open.default_ttl_ms = LEFT_TTL_MS;
    o->r->open.temporary = !o->r->keep;
    for (int i = 0;; i++) {
        struct session s = {0};
        struct err why = ERR_INIT;
        bool created = false;

        manager_promise(o->m, ms);
        if (manager_open(o->m, o->c, &o->r->open, &watch, d, &s, &created, err) < 0)
            return -1;
        memcpy(o->name, s.name, sizeof o->name);
        session_done(&s);
        if (hold_take(o->m, o->c, o->name, &w, &o->s, &why) == 0)
            break;
        if (i + 1 == OPEN_TRIES || why.code != ERR_NOT_FOUND) {
            if (err)
                *err = why;
            return -1;
        }
    }
    o->r->exec.closes = o->s.temporary;
    return 0;
}

/* The hold is let go, and what is to close closes, unless somebody else is at work in it: then he
 * does it, or it expires. The reaper may be looking at it just now. */
static void
leave_session(struct once *o)
{
    int64_t sid = o->s.sid, ms = 2 * o->m->o.sandbox.http_timeout_ms + CLOSE_GRACE_MS;
    struct err err = ERR_INIT;
    bool done = !o->r->exec.closes;

    session_done(&o->s);
    manager_promise(o->m, ms);
    hold_leave(o->m, sid);
    for (int i = 0; !done && i < CLOSE_TRIES; i++) {
        if (i > 0)
            (void)poll(NULL, 0, CLOSE_PAUSE_MS);
        if (close_if_temporary(o->m, sid, &done, &err) < 0) {
            log_warning("the session of one call is left to the reaper: %s", err.msg);
            return;
        }
    }
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
    rc = exec_in(o->m, o->c, &o->s, &o->r->exec, o->cb, ret, err);
    if (rc == 0 && o->r->take && ret->result.ok && take_back(o, err) < 0) {
        exec_outcome_done(ret);
        rc = -1;
    }
    leave_session(o);
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
    for (size_t i = 0; i < r->n_inputs; i++)
        r->inputs[i].fd = -1;
    rc = run(&o, ret, err);
    for (size_t i = 0; i < r->n_inputs; i++)
        cleanup_close(&r->inputs[i].fd);
    return rc;
}
