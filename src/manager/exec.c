/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "manager/run.h"
#include "store/execution_store.h"
#include "store/session_store.h"

#define BEGIN_TRIES 4

void
exec_outcome_done(struct exec_outcome *o)
{
    execution_result_done(&o->result);
    session_done(&o->session);
}

static int
copy_id(char *dst, size_t size, const char *src, const char *what, struct err *err)
{
    size_t n = src ? strlen(src) : 0;

    if (n >= size)
        return err_slug(err, ERR_INVALID, "bad_value", "the %s is longer than %zu bytes", what,
                        size - 1);
    memset(dst, 0, size);
    if (n > 0)
        memcpy(dst, src, n);
    return 0;
}

/* The session free of a dead process's leavings and with a runtime. */
static int
prepare(struct run *r, struct err *err)
{
    struct wait w = {.d = deadline_in(r->m->o.start_timeout_ms), .gone = run_given_up, .ctx = r};

    if (settle_held(r->m, &r->s, err) < 0)
        return -1;
    return r->s.handle[0] ? 0 : runtime_make(r->m, &r->s, &w, err);
}

/* The row, committed before anything is sent. 0 begun, 1 *ret is a replay, -1. */
static int
begin(struct run *r, const struct caller *c, const char *body_sha256, struct exec_outcome *ret,
      struct err *err)
{
    struct execution_begin_args a = {.row = &r->row,
                                     .key_id = c->key_id,
                                     .idempotency_key = r->req->idempotency_key,
                                     .idempotency_retention_ms = r->m->o.idempotency_retention_ms,
                                     .body_sha256 = body_sha256,
                                     .code = r->m->o.keep_code ? r->req->code : NULL,
                                     .code_len = r->m->o.keep_code ? r->req->code_len : 0,
                                     .pid = getpid(),
                                     .ticket = r->turn.ticket};

    for (int i = 0; i < BEGIN_TRIES; i++) {
        enum execution_begin_outcome how;
        struct execution seen;

        if (prepare(r, err) < 0)
            return -1;
        a.now = manager_now(r->m);
        r->row.generation = r->s.generation;
        r->row.started_at = a.now.wall_ms;
        if (execution_store_begin(r->m->db, &a, &how, &seen, err) < 0)
            return -1;
        switch (how) {
        case EXECUTION_BEGIN_OK:
            turn_admitted(r->m, &r->turn);
            return 0;
        case EXECUTION_BEGIN_DUPLICATE:
            return err_slug(err, ERR_CONFLICT, "duplicate_request",
                            "this request arrived before, as execution %s", seen.eid);
        case EXECUTION_BEGIN_MISMATCH:
            return err_slug(err, ERR_INVALID, "idempotency_mismatch",
                            "this idempotency key came with another request before");
        case EXECUTION_BEGIN_REPLAY:
            return replay_of(r->m, &seen, ret, err);
        default: /* stale or busy: somebody wrote since we looked */
            break;
        }
    }
    return turn_busy(r->m, r->s.sid, err);
}

/* The turn is somebody else's: perhaps it has begun to run this very request since we looked, and
 * then that run is the answer. 1 replay, -1. */
static int
busy_or_replay(struct run *r, const struct caller *c, const char *body_sha256,
               struct exec_outcome *ret, struct err *err)
{
    struct err busy = *err;
    int n;

    if (!r->req->idempotency_key || !err->slug || strcmp(err->slug, "session_busy") != 0)
        return -1;
    *err = (struct err)ERR_INIT;
    n = replay_find(r->m, c, r->s.name, r->req, body_sha256, ret, err);
    if (n == 0)
        *err = busy;
    return n == 0 ? -1 : n;
}

/* With the hold: turn, row, run. 0 ran, 1 replay, -1 nothing ran. */
static int
exec_held(struct run *r, const struct caller *c, const char *body_sha256, struct exec_outcome *ret,
          struct err *err)
{
    struct wait w = {.d = DEADLINE_NEVER, .gone = run_given_up, .ctx = r};
    int n;

    manager_promise(r->m, r->m->o.turn_wait_ms + r->m->o.start_timeout_ms +
                              r->m->o.sandbox.http_timeout_ms * 2);
    if (turn_take(r->m, r->s.sid, &w, &r->turn, err) < 0)
        return busy_or_replay(r, c, body_sha256, ret, err);
    r->row.waited_ms = r->turn.waited_ms;
    if ((r->req->n_inputs > 0 && (prepare(r, err) < 0 || inputs_put(r, err) < 0)) ||
        capture_begin(r->m, r->req, &r->s, &r->capture, err) < 0)
        return -1;
    n = begin(r, c, body_sha256, ret, err);
    if (n == 0) {
        log_set_execution(r->row.eid);
        run_code(r, ret);
        log_set_execution(NULL);
    }
    capture_done(&r->capture);
    return n;
}

int
exec_replay(struct manager *m, const struct caller *c, const char *name,
            const struct execution_request *q, struct exec_outcome *ret, struct err *err)
{
    char code_sha256[SHA256_HEX_SIZE], body_sha256[SHA256_HEX_SIZE];
    int n;

    memset(ret, 0, sizeof *ret);
    execution_result_init(&ret->result);
    digest_request(q, code_sha256, body_sha256);
    n = replay_find(m, c, name, q, body_sha256, ret, err);
    if (n < 0)
        exec_outcome_done(ret);
    return n;
}

/* All of a call but the hold. The session is held already, or hold_take names it: then it is left
 * as well. 0, -1. */
static int
exec_call(struct run *r, const struct caller *c, const char *name, bool held,
          struct exec_outcome *ret, struct err *err)
{
    const struct execution_request *q = r->req;
    struct wait w = {.gone = run_given_up, .ctx = r};
    char body_sha256[SHA256_HEX_SIZE];
    struct manager *m = r->m;
    int n;

    memset(ret, 0, sizeof *ret);
    execution_result_init(&ret->result);
    id_uuid4(r->row.eid);
    r->row.created_at = clock_wall_ms();
    if (copy_id(r->row.request_id, sizeof r->row.request_id, q->request_id, "request id", err) <
            0 ||
        copy_id(r->row.client_request_id, sizeof r->row.client_request_id, q->client_request_id,
                "X-Request-Id", err) < 0)
        return -1;
    digest_request(q, r->row.code_sha256, body_sha256);
    n = replay_find(m, c, name, q, body_sha256, ret, err);
    if (n == 0 && !held) {
        w.d = deadline_in(m->o.start_timeout_ms);
        manager_promise(m, m->o.start_timeout_ms + m->o.sandbox.http_timeout_ms);
        n = hold_take(m, c, name, &w, &r->s, err);
    }
    if (n == 0) {
        int64_t sid = r->row.sid = r->s.sid;

        memcpy(r->row.owner, r->s.owner, sizeof r->s.owner);
        memcpy(r->row.session_name, r->s.name, sizeof r->s.name);
        n = exec_held(r, c, body_sha256, ret, err);
        turn_leave(m, &r->turn);
        if (!held)
            hold_leave(m, sid);
    }
    if (n < 0)
        exec_outcome_done(ret);
    return n < 0 ? -1 : 0;
}

static struct run
run_of(struct manager *m, const struct execution_request *q, const struct exec_callbacks *cb)
{
    return (struct run){.m = m,
                        .req = q,
                        .cb = cb,
                        .goes_on = q->on_disconnect == DISCONNECT_CONTINUE || q->idempotency_key};
}

int
manager_exec(struct manager *m, const struct caller *c, const char *name,
             const struct execution_request *q, const struct exec_callbacks *cb,
             struct exec_outcome *ret, struct err *err)
{
    struct run r = run_of(m, q, cb);
    int rc = exec_call(&r, c, name, false, ret, err);

    session_done(&r.s);
    return rc;
}

int
exec_in(struct manager *m, const struct caller *c, struct session *held,
        const struct execution_request *q, const struct exec_callbacks *cb,
        struct exec_outcome *ret, struct err *err)
{
    struct run r = run_of(m, q, cb);
    int rc;

    r.s = *held;
    *held = (struct session){0};
    rc = exec_call(&r, c, r.s.name, true, ret, err);
    *held = r.s;
    return rc;
}
