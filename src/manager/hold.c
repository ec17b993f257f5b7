/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <poll.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "store/session_store.h"

int
wait_step(struct wait *w, struct err *err)
{
    if (w->gone && w->gone(w->ctx))
        return err_slug(err, ERR_ABORTED, "client_closed", "the caller went away while waiting");
    if (deadline_passed(w->d))
        return err_slug(err, ERR_TIMEOUT, "timeout", "the session was not free in time");
    if (w->pause_ms < 5)
        w->pause_ms = 5;
    (void)poll(NULL, 0, deadline_poll_ms(w->d, w->pause_ms));
    w->pause_ms = w->pause_ms * 2 > 50 ? 50 : w->pause_ms * 2;
    return 0;
}

/* Past its TTL, by the idle clock of this boot, and nobody at work in it: by the row alone. */
static bool
past_ttl(const struct manager *m, const struct session *s)
{
    if (s->state != SESSION_READY && s->state != SESSION_COLD)
        return false;
    if (strcmp(s->boot_id, m->boot_id) != 0)
        return false;
    return s->last_work_boot_ms + s->ttl_ms <= manager_now(m).boot_ms;
}

bool
session_ended_itself(const struct manager *m, const struct session *s)
{
    enum session_end why = SESSION_END_CLOSED;

    return s->state == SESSION_CLOSING &&
           (s->temporary || (session_store_close_reason(m->db, s->sid, &why, NULL) > 0 &&
                             why != SESSION_END_CLOSED));
}

bool
session_expired(const struct manager *m, const struct session *s)
{
    if (session_ended_itself(m, s))
        return true;
    return past_ttl(m, s) && lock_is_held(m->lock_fd, s->sid) == 0;
}

void
session_derive(const struct manager *m, struct session *s)
{
    struct db_now now = manager_now(m);
    int64_t left = s->last_work_boot_ms + s->ttl_ms - now.boot_ms;

    s->stateful = strcmp(s->kernel_session, RUNTIME_STATELESS) != 0;
    if (s->state == SESSION_BUSY)
        s->expires_at = 0;
    else
        s->expires_at = now.wall_ms + (left > 0 ? left : 0);
}

static int
not_found(struct err *err)
{
    return err_slug(err, ERR_NOT_FOUND, "session_not_found", "there is no such session");
}

static int
closing(struct manager *m, const struct session *s, struct err *err)
{
    if (session_ended_itself(m, s))
        return not_found(err);
    return err_slug(err, ERR_CONFLICT, "session_closing", "the session is being closed");
}

int
session_resolve(struct manager *m, const struct caller *c, const char *name, struct session *ret,
                struct err *err)
{
    int r = session_store_find(m->db, c->owner, name, ret, err);

    if (r == 0 && c->admin)
        r = session_store_find_any_owner(m->db, name, ret, err);
    if (r < 0)
        return -1;
    return r > 0 ? 0 : not_found(err);
}

/* Under the shared lock: is the session one to work in? 1 yes, 0 look again, -1. The lock is still
 * held after 1 only. */
static int
look_under_hold(struct manager *m, int64_t sid, struct session *ret, struct err *err)
{
    bool done = false;
    int r = session_store_by_sid(m->db, sid, ret, err);

    if (r > 0 && ret->state != SESSION_CLOSING && ret->state != SESSION_OPENING &&
        !session_expired(m, ret))
        return 1;
    (void)lock_release(m->lock_fd, sid);
    if (r <= 0)
        return r;
    switch (ret->state) {
    case SESSION_CLOSING:
        r = closing(m, ret, err);
        break;
    case SESSION_OPENING: /* its opener would hold it exclusively: it is dead */
        r = close_dead_open(m, sid, &done, err);
        break;
    default:
        r = close_if_expired(m, sid, &done, err);
        if (r == 0)
            r = not_found(err);
    }
    /* Ours may have been the lock that kept the last holder from carrying its close out. */
    if (ret->state == SESSION_CLOSING)
        (void)close_if_free(m, sid, &done, NULL);
    session_done(ret);
    return r;
}

int
hold_take(struct manager *m, const struct caller *c, const char *name, struct wait *w,
          struct session *ret, struct err *err)
{
    for (;;) {
        int64_t sid;
        int r;

        if (session_resolve(m, c, name, ret, err) < 0)
            return -1;
        sid = ret->sid;
        if (ret->state == SESSION_CLOSING) {
            bool done = false;

            (void)closing(m, ret, err);
            session_done(ret);
            (void)close_if_free(m, sid, &done, NULL);
            return done ? not_found(err) : -1;
        }
        session_done(ret);
        r = lock_try_shared(m->lock_fd, sid);
        if (r < 0)
            return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
        if (r > 0) {
            r = look_under_hold(m, sid, ret, err);
            if (r != 0)
                return r < 0 ? -1 : 0;
        } else if (wait_step(w, err) < 0) {
            return -1;
        }
    }
}

void
hold_leave(struct manager *m, int64_t sid)
{
    struct session s = {0};
    struct err err = ERR_INIT;
    bool done = false;
    int r;

    (void)lock_release(m->lock_fd, sid);
    r = session_store_by_sid(m->db, sid, &s, &err);
    if (r > 0 && s.state == SESSION_CLOSING)
        r = close_if_free(m, sid, &done, &err);
    if (r < 0)
        log_warning("a session's close is left to the reaper: %s", err.msg);
    session_done(&s);
}
