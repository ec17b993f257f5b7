/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "store/runtime_store.h"
#include "store/session_store.h"

#define EVICT_TRIES 8

/* Ends a closing session. The caller has the exclusive lock. Each step may be done again by the
 * next one if this process dies in between. */
static int
carry_out(struct manager *m, const struct session *s, struct err *err)
{
    struct runtime_row rt;
    struct db_now now;
    enum session_end why = SESSION_END_CLOSED;
    enum workspace_fate fate = WORKSPACE_KEPT;
    bool ended = true, removes;
    int r = session_store_close_reason(m->db, s->sid, &why, err);

    if (r <= 0)
        return r;
    r = runtime_store_of(m->db, s->sid, &rt, err);
    if (r < 0)
        return -1;
    removes = why == SESSION_END_CLOSED || manager_files_of(m, s->backend) == FILES_IN_RUNTIME;
    if (r > 0 && rt.handle[0])
        ended = removes ? runtime_end(m, rt.backend, rt.handle)
                        : runtime_end_keeping(m, rt.backend, rt.handle);
    if (s->busy_execution[0] && settle_execution(m, s->busy_execution, err) < 0)
        return -1;
    if (removes) {
        struct err werr = ERR_INIT;

        fate = WORKSPACE_REMOVED;
        if (!runtime_discard(m, s->backend, s->workspace_id)) {
            fate = WORKSPACE_DOOMED;
        } else if (manager_workspace_remove(m, s->backend, s->workspace_id, &werr) < 0) {
            log_warning("the files of a closed session are left to the reaper: %s", werr.msg);
            fate = WORKSPACE_DOOMED;
        }
    }
    now = manager_now(m);
    return session_store_finish_close(m->db, s->sid, ended, fate, &now, err);
}

/* Tries the exclusive lock. 1 with *s read under it, 0 somebody else has it or the row is gone
 * (*ret_gone), -1. */
static int
grab(struct manager *m, int64_t sid, struct session *s, bool *ret_gone, struct err *err)
{
    int r = lock_try_exclusive(m->lock_fd, sid);

    *ret_gone = false;
    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    if (r == 0)
        return 0;
    r = session_store_by_sid(m->db, sid, s, err);
    if (r <= 0)
        (void)lock_release(m->lock_fd, sid);
    *ret_gone = r == 0;
    return r;
}

int
close_if_free(struct manager *m, int64_t sid, bool *ret_done, struct err *err)
{
    struct session s = {0};
    bool gone;
    int r = grab(m, sid, &s, &gone, err);

    *ret_done = gone;
    if (r <= 0)
        return r;
    if (s.state == SESSION_CLOSING) {
        r = carry_out(m, &s, err);
        *ret_done = r >= 0;
    }
    (void)lock_release(m->lock_fd, sid);
    session_done(&s);
    return r < 0 ? -1 : 0;
}

/* Begins and carries out a close under one exclusive lock. */
static int
close_now(struct manager *m, int64_t sid, enum session_end why, bool *ret_done, struct err *err)
{
    struct session s = {0}, closing = {0};
    struct session_close_args a = {.sid = sid,
                                   .why = why,
                                   .only_if_expired = why == SESSION_END_EXPIRED,
                                   .only_if_temporary = why == SESSION_END_CLOSED,
                                   .only_if_idle = true,
                                   .now = manager_now(m)};
    bool gone;
    int r = grab(m, sid, &s, &gone, err);

    *ret_done = gone;
    if (r <= 0)
        return r;
    r = session_store_begin_close(m->db, &a, &closing, err);
    if (r > 0) {
        r = carry_out(m, &closing, err);
        *ret_done = r >= 0;
    }
    (void)lock_release(m->lock_fd, sid);
    session_done(&s);
    session_done(&closing);
    return r < 0 ? -1 : 0;
}

int
close_if_expired(struct manager *m, int64_t sid, bool *ret_done, struct err *err)
{
    return close_now(m, sid, SESSION_END_EXPIRED, ret_done, err);
}

int
close_if_temporary(struct manager *m, int64_t sid, bool *ret_done, struct err *err)
{
    return close_now(m, sid, SESSION_END_CLOSED, ret_done, err);
}

int
close_dead_open(struct manager *m, int64_t sid, bool *ret_done, struct err *err)
{
    struct session s = {0};
    struct runtime_row rt;
    struct db_now now;
    const char *left = NULL;
    bool gone, removed = true;
    int r = grab(m, sid, &s, &gone, err);

    *ret_done = gone;
    if (r <= 0)
        return r;
    if (s.state != SESSION_OPENING) {
        (void)lock_release(m->lock_fd, sid);
        session_done(&s);
        return 0;
    }
    /* One without a handle may have been started and not been noted. */
    r = runtime_store_of(m->db, sid, &rt, err);
    if (r > 0 && !rt.handle[0])
        left = manager_files_of(m, s.backend) == FILES_KEYED ? NULL : ""; /* found by its key */
    else if (r > 0 && !(s.files_kept ? runtime_end_keeping(m, rt.backend, rt.handle)
                                     : runtime_end(m, rt.backend, rt.handle)))
        left = rt.handle;
    if (r >= 0 && !s.files_kept) /* its opener may have made a runtime that no row tells of */
        removed = runtime_discard(m, s.backend, s.workspace_id) &&
                  manager_workspace_remove(m, s.backend, s.workspace_id, NULL) == 0;
    now = manager_now(m);
    if (r >= 0)
        r = session_store_undo_open(m->db, sid, s.generation, left, removed, &now, err);
    *ret_done = r > 0;
    (void)lock_release(m->lock_fd, sid);
    session_done(&s);
    return r < 0 ? -1 : 0;
}

/* Was the runtime's end confirmed, that is: does no quarantined row of that name remain? */
static int
end_confirmed(struct manager *m, const struct session *s, struct err *err)
{
    struct runtime_row rt;
    struct db_now now = manager_now(m);
    int n = runtime_store_quarantined(m->db, s->owner, s->name, &now, &rt, 1, err);

    if (n < 0)
        return -1;
    if (n > 0)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                        "the end of the session evicted for this one could not be confirmed");
    return 1;
}

int
no_room(const struct manager *m, enum room what, struct err *err)
{
    if (what == ROOM_BACKEND)
        err_slug(err, ERR_UNAVAILABLE, "session_limit",
                 "all %lld sandboxes of this backend are in use (DAYTONA_MAX_SANDBOXES)",
                 (long long)m->o.max_keyed);
    else if (what == ROOM_SERVICE)
        err_slug(err, ERR_UNAVAILABLE, "session_limit",
                 "all %lld sessions of the service are in use", (long long)m->o.max_sessions);
    else
        err_slug(err, ERR_UNAVAILABLE, "owner_session_limit",
                 "all %lld sessions of this owner are in use",
                 (long long)m->o.max_sessions_per_owner);
    if (err)
        err->retry_after_s = RETRY_AFTER_S;
    return -1;
}

static int
close_candidates(struct manager *m, const int64_t *sids, int n, int64_t except_sid,
                 enum session_end why, struct err *err)
{
    for (int i = 0; i < n; i++) {
        struct session s = {0};
        bool done = false, had_runtime;
        int r;

        /* The caller's own hold would be turned into the exclusive lock, and lost with it. */
        if (sids[i] == except_sid)
            continue;
        r = session_store_by_sid(m->db, sids[i], &s, err);
        if (r > 0)
            r = close_now(m, sids[i], why, &done, err);
        had_runtime = s.handle[0] != '\0';
        if (r >= 0 && done && had_runtime)
            r = end_confirmed(m, &s, err);
        session_done(&s);
        if (r < 0)
            return -1;
        if (done && had_runtime)
            return 1;
    }
    return 0;
}

int
close_for_room(struct manager *m, const char *owner, const char *backend, int64_t except_sid,
               struct err *err)
{
    int64_t sids[EVICT_TRIES];
    struct db_now now = manager_now(m);
    int r, n = session_store_expired(m->db, &now, sids, EVICT_TRIES, err);

    if (n < 0)
        return -1;
    r = close_candidates(m, sids, n, except_sid, SESSION_END_EXPIRED, err);
    if (r != 0)
        return r;
    n = session_store_idle_lru(m->db, owner, backend, except_sid, sids, EVICT_TRIES, err);
    if (n < 0)
        return -1;
    return close_candidates(m, sids, n, except_sid, SESSION_END_EVICTED, err);
}

int
manager_close(struct manager *m, const struct caller *c, const char *name, enum session_end why,
              struct deadline d, bool *ret_deferred, struct err *err)
{
    struct session s = {0};
    struct session_close_args a = {.why = why, .now = manager_now(m)};
    struct err cerr = ERR_INIT;
    bool done = false;
    int r;

    manager_promise_by(m, d, m->o.sandbox.http_timeout_ms);
    if (session_resolve(m, c, name, &s, err) < 0)
        return -1;
    a.sid = s.sid;
    if (session_expired(m, &s)) {
        (void)close_if_expired(m, s.sid, &done, NULL);
        r = 0;
    } else {
        r = session_store_begin_close(m->db, &a, NULL, err);
    }
    session_done(&s);
    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "session_not_found", "there is no such session");
    if (r < 0)
        return -1;
    /* It is closing from here on, whatever hinders the rest: the reaper carries it out. */
    if (close_if_free(m, a.sid, &done, &cerr) < 0)
        log_warning("a session's close is left to the reaper: %s", cerr.msg);
    *ret_deferred = !done;
    return 0;
}
