/* SPDX-License-Identifier: MIT */
#include "manager/run.h"

#include <string.h>

#include "store/execution_store.h"
#include "store/session_store.h"

void
digest_request(const struct execution_request *q, char ret_code[SHA256_HEX_SIZE],
               char ret_body[SHA256_HEX_SIZE])
{
    /* What decides about the run. `more` holds all of the request, the code among it. */
    const int64_t head[2] = {q->timeout_ms, q->on_disconnect};
    struct sha256 *h = sha256_new();
    uint8_t digest[SHA256_SIZE];

    sha256_hex_of(q->code, q->code_len, ret_code);
    sha256_add(h, head, sizeof head);
    sha256_add(h, q->code, q->code_len);
    if (q->more_len > 0)
        sha256_add(h, q->more, q->more_len);
    sha256_finish(h, digest);
    hex_encode(digest, sizeof digest, ret_body);
}

int
replay_of(struct manager *m, const struct execution *seen, struct exec_outcome *ret,
          struct err *err)
{
    int r;

    ret->row = *seen;
    ret->replayed = true;
    if (manager_execution_settle(m, &ret->row, err) < 0)
        return -1;
    r = session_store_find(m->db, seen->owner, seen->session_name, &ret->session, err);
    if (r < 0)
        return -1;
    if (r == 0) { /* closed since: the answer is the first one all the same */
        ret->session = (struct session){.sid = seen->sid, .state = SESSION_COLD};
        memcpy(ret->session.owner, seen->owner, sizeof seen->owner);
        memcpy(ret->session.name, seen->session_name, sizeof seen->session_name);
        ret->session.generation = seen->generation;
        ret->session.created_at = ret->session.last_work_at = seen->created_at;
        ret->session.labels = xstrdup("{}");
    }
    ret->session.state_lost = false;
    session_derive(m, &ret->session);
    return 1;
}

int
replay_find(struct manager *m, const struct caller *c, const char *name,
            const struct execution_request *q, const char *body_sha256, struct exec_outcome *ret,
            struct err *err)
{
    struct session s = {0};
    struct execution seen;
    enum execution_begin_outcome how;
    struct db_now now = manager_now(m);
    const char *owner = c->owner;
    int r = session_resolve(m, c, name, &s, NULL);

    if (r == 0)
        owner = s.owner;
    r = execution_store_seen(m->db, q->request_id, owner, name, q->idempotency_key, body_sha256,
                             m->o.idempotency_retention_ms, &now, &how, &seen, err);
    session_done(&s);
    if (r <= 0)
        return r;
    if (how == EXECUTION_BEGIN_REPLAY)
        return replay_of(m, &seen, ret, err);
    if (how == EXECUTION_BEGIN_MISMATCH)
        return err_slug(err, ERR_INVALID, "idempotency_mismatch",
                        "this idempotency key came with another request before");
    return err_slug(err, ERR_CONFLICT, "duplicate_request",
                    "this request arrived before, as execution %s", seen.eid);
}
