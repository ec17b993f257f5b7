/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include "store/execution_store.h"
#include "store/runtime_store.h"
#include "store/session_store.h"

int
manager_interrupt(struct manager *m, const struct caller *c, const char *name, struct deadline d,
                  bool *ret_running, struct err *err)
{
    struct session s = {0};
    bool alive = false;
    int r;

    manager_promise_by(m, d, m->o.sandbox.http_timeout_ms * 2);
    if (session_resolve(m, c, name, &s, err) < 0)
        return -1;
    if (session_expired(m, &s)) {
        session_done(&s);
        return err_slug(err, ERR_NOT_FOUND, "session_not_found", "there is no such session");
    }
    *ret_running = false;
    if (!s.busy_execution[0]) {
        session_done(&s);
        return 0;
    }
    /* Whoever runs it interrupts it: only that process can tell the answer's reason, and a signal
     * from here could hit the next run. */
    r = settle_if_dead(m, s.sid, &alive, err);
    if (r >= 0 && alive) {
        r = execution_store_ask_interrupt(m->db, s.busy_execution, err);
        *ret_running = r > 0;
    }
    session_done(&s);
    return r < 0 ? -1 : 0;
}

/* The caller has hold and turn. */
static int
restart_held(struct manager *m, struct session *s, struct wait *w, struct err *err)
{
    struct db_now now;

    if (settle_held(m, s, err) < 0)
        return -1;
    /* It was asked for, so the loss is no news to the caller, nor is an earlier one. */
    if (runtime_replace_begin(m, s, -1, err) < 0 || runtime_make(m, s, w, err) < 0)
        return -1;
    now = manager_now(m);
    if (session_store_touch(m->db, s->sid, &now, NULL, err) < 0)
        return -1;
    return manager_reread(m, s, err);
}

int
manager_restart(struct manager *m, const struct caller *c, const char *name,
                const struct watch *watch, struct deadline d, struct session *ret, struct err *err)
{
    struct session s = {0};
    struct turn t = {0};
    struct wait w = {.d = d};
    int64_t sid;
    int r;

    if (watch) {
        w.gone = watch->gone;
        w.ctx = watch->ctx;
    }
    manager_promise_by(m, d, m->o.start_timeout_ms);
    if (hold_take(m, c, name, &w, &s, err) < 0)
        return -1;
    sid = s.sid;
    r = turn_take_now(m, sid, &t, err);
    if (r == 0)
        r = restart_held(m, &s, &w, err);
    turn_leave(m, &t);
    hold_leave(m, sid);
    if (r < 0) {
        session_done(&s);
        return -1;
    }
    session_derive(m, &s);
    *ret = s;
    return 0;
}
