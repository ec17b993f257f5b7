/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <unistd.h>

#include "base/id.h"
#include "base/lock.h"
#include "store/session_store.h"
#include "store/turn_store.h"

#define SWEEP_TURNS 256
#define IDLE_RETRIES 3

int
turn_busy(struct manager *m, int64_t sid, struct err *err)
{
    struct session s = {0};
    char since[CLOCK_RFC3339_SIZE];
    int r = session_store_by_sid(m->db, sid, &s, err);

    if (r < 0)
        return -1;
    if (r > 0 && s.busy_execution[0]) {
        clock_rfc3339(s.busy_since, since);
        err_slug(err, ERR_CONFLICT, "session_busy", "execution %s runs since %s", s.busy_execution,
                 since);
    } else {
        err_slug(err, ERR_CONFLICT, "session_busy", "another call has the session's turn");
    }
    if (err)
        err->retry_after_s = 1;
    session_done(&s);
    return -1;
}

static bool
waiter_dead(struct manager *m, const struct turn_row *row, int64_t own_ticket)
{
    return row->ticket != own_ticket && lock_is_held(m->lock_fd, row->lock_id | LOCK_HIGH) == 0;
}

/* Is `ticket` (0: somebody without one) the next? Dead ones before it are removed. 1, 0, -1. */
static int
is_next(struct manager *m, int64_t sid, int64_t ticket, struct err *err)
{
    struct turn_row rows[TURN_ROWS_MAX];
    int n = turn_store_list(m->db, sid, rows, err);

    for (int i = 0; i < n; i++) {
        if (rows[i].ticket == ticket)
            return 1;
        if (!waiter_dead(m, &rows[i], ticket))
            return 0;
        if (turn_store_leave(m->db, rows[i].ticket, err) < 0)
            return -1;
    }
    return n < 0 ? -1 : 1;
}

/* 1 got it, 0 not now, -1. */
static int
try_turn(struct manager *m, struct turn *t, struct err *err)
{
    int r = is_next(m, t->sid, t->ticket, err);

    if (r <= 0)
        return r;
    r = lock_try_exclusive(m->lock_fd, t->sid | LOCK_HIGH);
    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    t->held = r > 0;
    return r;
}

/* A place in the queue, if the rules allow to wait. */
static int
queue(struct manager *m, struct turn *t, struct err *err)
{
    struct db_now now = manager_now(m);
    int64_t ticket = 0, lock_id = id_random_i64();
    int r;

    /* The last free worker is kept for what need not wait. */
    if (m->o.free_exec_workers && m->o.free_exec_workers(m->o.ctx) < 2)
        return turn_busy(m, t->sid, err);
    if (lock_try_exclusive(m->lock_fd, lock_id | LOCK_HIGH) != 1)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    r = turn_store_enter(m->db, t->sid, lock_id, getpid(), (int)m->o.turn_waiters, &now, &ticket,
                         err);
    if (r > 0) {
        t->ticket = ticket;
        t->lock_id = lock_id;
        return 0;
    }
    (void)lock_release(m->lock_fd, lock_id | LOCK_HIGH);
    return r < 0 ? -1 : turn_busy(m, t->sid, err);
}

int
turn_take_now(struct manager *m, int64_t sid, struct turn *ret, struct err *err)
{
    int r;

    *ret = (struct turn){.sid = sid};
    r = try_turn(m, ret, err);
    if (r == 0)
        return turn_busy(m, sid, err);
    return r < 0 ? -1 : 0;
}

/* Has it begun to close while we wait? Then the wait is over. */
static int
still_open(struct manager *m, int64_t sid, struct err *err)
{
    struct session s = {0};
    int r = session_store_by_sid(m->db, sid, &s, err);
    bool closing = r > 0 && s.state == SESSION_CLOSING;

    session_done(&s);
    if (r < 0)
        return -1;
    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "session_not_found", "the session is gone");
    if (closing)
        return err_slug(err, ERR_CONFLICT, "session_closing", "the session is being closed");
    return 0;
}

/* Somebody may have the turn for a moment without running anything (it looks for a dead holder's
 * leavings): that is no reason to refuse. 1 got it, 0 it is really taken, -1. */
static int
try_patiently(struct manager *m, struct turn *t, struct wait *w, struct err *err)
{
    int r = try_turn(m, t, err);

    for (int i = 0; r == 0 && i < IDLE_RETRIES; i++) {
        struct session s = {0};

        r = session_store_by_sid(m->db, t->sid, &s, err);
        if (r <= 0)
            return r;
        r = s.busy_execution[0] ? 1 : 0;
        session_done(&s);
        if (r > 0)
            return 0;
        if (wait_step(w, err) < 0)
            return -1;
        r = try_turn(m, t, err);
    }
    return r;
}

int
turn_take(struct manager *m, int64_t sid, struct wait *w, struct turn *ret, struct err *err)
{
    struct deadline until = deadline_in(m->o.turn_wait_ms);
    int64_t from = clock_mono_ms();
    int r;

    *ret = (struct turn){.sid = sid};
    r = try_patiently(m, ret, w, err);
    if (r == 0 && queue(m, ret, err) < 0)
        return -1;
    w->d = deadline_min(w->d, until);
    while (r == 0) {
        r = deadline_passed(until) ? turn_busy(m, sid, err) : wait_step(w, err);
        if (r == 0)
            r = still_open(m, sid, err);
        if (r == 0)
            r = try_turn(m, ret, err);
    }
    ret->waited_ms = clock_mono_ms() - from;
    if (r < 0)
        turn_leave(m, ret);
    return r < 0 ? -1 : 0;
}

void
turn_admitted(struct manager *m, struct turn *t)
{
    if (t->ticket)
        (void)lock_release(m->lock_fd, t->lock_id | LOCK_HIGH);
    t->ticket = 0;
}

void
turn_leave(struct manager *m, struct turn *t)
{
    if (t->ticket)
        (void)turn_store_leave(m->db, t->ticket, NULL);
    turn_admitted(m, t);
    if (t->held)
        (void)lock_release(m->lock_fd, t->sid | LOCK_HIGH);
    t->held = false;
}

int
turn_drop_dead(struct manager *m, struct err *err)
{
    struct turn_row rows[SWEEP_TURNS];
    int dropped = 0, n = turn_store_all(m->db, rows, SWEEP_TURNS, err);

    for (int i = 0; i < n; i++) {
        if (!waiter_dead(m, &rows[i], 0))
            continue;
        if (turn_store_leave(m->db, rows[i].ticket, err) < 0)
            return -1;
        dropped++;
    }
    return n < 0 ? -1 : dropped;
}
