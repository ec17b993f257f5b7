/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include "base/lock.h"
#include "base/log.h"
#include "manager/internal.h"
#include "store/execution_store.h"
#include "store/session_store.h"

/*
 * The reaper's pass.  Everything here also happens when somebody meets the session; the sweep is
 * for those that nobody meets any more.  Each step looks up candidates, then takes the lock and
 * looks again: what a request does between the two is respected.  A step that fails is logged and
 * the others go on.
 */
#define BATCH 64

typedef int (*end_fn)(struct manager *m, int64_t sid, bool *ret_done, struct err *err);

static void
note(const char *step, const struct err *err)
{
    log_warning("sweep, %s: %s", step, err->msg);
}

bool
sweep_over(const struct manager *m, struct deadline d)
{
    return deadline_passed(d) || (m->o.stopping && m->o.stopping(m->o.ctx));
}

static int
end_each(struct manager *m, const int64_t *sids, int n, end_fn end, struct deadline d)
{
    int ended = 0;

    for (int i = 0; i < n && !sweep_over(m, d); i++) {
        struct err err = ERR_INIT;
        bool done = false;

        if (end(m, sids[i], &done, &err) < 0)
            note("a session", &err);
        else if (done)
            ended++;
    }
    return ended;
}

static int
expired(struct manager *m, struct deadline d)
{
    int64_t sids[BATCH];
    struct err err = ERR_INIT;
    int ended = 0;

    while (!sweep_over(m, d)) {
        struct db_now now = manager_now(m);
        int done, n = session_store_expired(m->db, &now, sids, BATCH, &err);

        if (n < 0)
            note("expired sessions", &err);
        if (n <= 0)
            break;
        done = end_each(m, sids, n, close_if_expired, d);
        ended += done;
        if (done == 0 || n < BATCH) /* held ones stay on the list */
            break;
    }
    return ended;
}

static int
in_state(struct manager *m, enum session_state state, end_fn end, struct deadline d)
{
    int64_t sids[BATCH], after = 0;
    struct err err = ERR_INIT;
    int ended = 0, n = BATCH;

    while (n == BATCH && !sweep_over(m, d)) {
        n = session_store_in_state(m->db, state, after, sids, BATCH, &err);
        if (n < 0)
            note("sessions", &err);
        if (n <= 0)
            break;
        after = sids[n - 1];
        ended += end_each(m, sids, n, end, d);
    }
    return ended;
}

static int
end_dead_holder(struct manager *m, int64_t sid, bool *ret_done, struct err *err)
{
    bool alive = true;

    int r = settle_if_dead(m, sid, &alive, err);

    *ret_done = r > 0;
    return r < 0 ? -1 : 0;
}

static void
leavings(struct manager *m, struct sweep_report *r)
{
    struct execution_id strays[BATCH];
    struct err err = ERR_INIT;
    int n = execution_store_unfinished(m->db, true, strays, BATCH, &err);

    for (int i = 0; i < n; i++) {
        int done = settle_execution(m, strays[i].eid, &err);

        r->aborted += done > 0;
        n = done < 0 ? -1 : n;
    }
    if (n < 0)
        note("executions without a session", &err);
    err = (struct err)ERR_INIT;
    if (turn_drop_dead(m, &err) < 0)
        note("waiters", &err);
}

int
manager_sweep(struct manager *m, struct deadline d, struct sweep_report *ret, struct err *err)
{
    struct err cerr = ERR_INIT;
    struct db_now now;
    int r = lock_try_exclusive(m->lock_fd, LOCK_SWEEP);

    *ret = (struct sweep_report){.ran = r > 0};
    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    if (r == 0)
        return 0;
    if (m->o.alarms_path && alarms_watch(m, err) < 0) {
        (void)lock_release(m->lock_fd, LOCK_SWEEP);
        return -1;
    }
    ret->aborted = in_state(m, SESSION_BUSY, end_dead_holder, d);
    traces_follow(m, d, ret); /* before a session's end, which would leave the files without one */
    ret->expired = expired(m, d);
    ret->closed = in_state(m, SESSION_CLOSING, close_if_free, d);
    ret->opening_undone = in_state(m, SESSION_OPENING, close_dead_open, d);
    leavings(m, ret);
    upkeep_runtimes(m, d, ret);
    pool_check(m, d, ret);
    upkeep_storage(m, d, ret);
    now = manager_now(m);
    if (session_store_set_clock(m->db, &now, &cerr) < 0)
        note("the clock row", &cerr);
    (void)lock_release(m->lock_fd, LOCK_SWEEP);
    return 0;
}
