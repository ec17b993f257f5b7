/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/log.h"
#include "store/session_store.h"

/* Nothing of a failed open stays: no row, directory, slot or kernel. */
static void
undo(struct manager *m, const struct session *s, const char *quarantine_handle)
{
    struct err err = ERR_INIT;
    struct db_now now = manager_now(m);
    bool removed = true;

    if (!s->files_kept)
        removed = manager_workspace_remove(m, s->backend, s->workspace_id, &err) == 0;
    if (session_store_undo_open(m->db, s->sid, s->generation, quarantine_handle, removed, &now,
                                &err) < 0)
        log_warning("a failed open is left to the reaper: %s", err.msg);
}

static int
opened(struct manager *m, const struct session *s, const struct runtime_made *made, struct err *err)
{
    struct db_now now;

    /* The runtime that was kept is gone, and the files it held. */
    if (s->files_kept && !made->found && manager_files_of(m, s->backend) == FILES_KEYED &&
        session_store_no_files(m->db, s->sid, s->generation, err) < 0)
        return -1;
    now = manager_now(m);
    return session_store_opened(m->db, s->sid, s->generation, made->handle, made->kernel_session,
                                &now, err);
}

/* The runtime of a session that was just inserted. */
static int
start(struct manager *m, struct session *s, struct err *err)
{
    struct runtime_made made;
    bool uncertain = false;
    int64_t sid = s->sid;
    int r = runtime_start(m, s, &made, &uncertain, err);

    if (r == 0) {
        r = opened(m, s, &made, err);
        if (r > 0) {
            session_done(s);
            r = session_store_by_sid(m->db, sid, s, err);
            if (r == 0)
                err_slug(err, ERR_NOT_FOUND, "session_not_found", "the session is gone again");
            return r > 0 ? 0 : -1;
        }
        uncertain = !runtime_undo(m, s->backend, &made);
        if (r == 0)
            err_slug(err, ERR_CONFLICT, "session_closing", "the session was closed meanwhile");
    }
    undo(m, s, uncertain ? made.handle : NULL);
    return -1;
}

/* Waits for another process's open of the same name. 0 look again. */
static int
wait_opening(struct manager *m, int64_t sid, struct wait *w, struct err *err)
{
    for (;;) {
        struct session s = {0};
        bool done = false;
        int r = session_store_by_sid(m->db, sid, &s, err);
        enum session_state state = s.state;

        session_done(&s);
        if (r < 0)
            return -1;
        if (r == 0 || state != SESSION_OPENING)
            return 0;
        if (close_dead_open(m, sid, &done, err) < 0)
            return -1;
        if (!done && wait_step(w, err) < 0)
            return -1;
    }
}

/* Where the lock of an owner's session name is, among those of the waiters (which are random). */
static int64_t
name_lock_of(const struct session_open_args *a)
{
    uint8_t digest[SHA256_SIZE];
    struct sha256 *h = sha256_new();
    int64_t at;

    sha256_add(h, a->owner, strlen(a->owner) + 1);
    sha256_add(h, a->name, strlen(a->name));
    sha256_finish(h, digest);
    memcpy(&at, digest, sizeof at);
    return (at & (LOCK_HIGH - 1)) | LOCK_HIGH;
}

/* Room is made by one opener of a name, held until it has opened: many at once would each end a
 * session for the one they are to share. *name_lock: its lock, 0 while it is not ours. */
static int
full(struct manager *m, const struct session_open_args *a, enum session_open_outcome how,
     int64_t *name_lock, struct err *err)
{
    enum room what = how == SESSION_OPEN_FULL         ? ROOM_SERVICE
                     : how == SESSION_OPEN_OWNER_FULL ? ROOM_OWNER
                                                      : ROOM_BACKEND;
    int r;

    if (*name_lock == 0) {
        int64_t at = name_lock_of(a);

        r = lock_try_exclusive(m->lock_fd, at);
        if (r < 0)
            return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
        if (r > 0)
            *name_lock = at;
        return 0; /* somebody may have opened it, or made room, meanwhile */
    }
    r = close_for_room(m, a->owner, what == ROOM_BACKEND ? a->backend : NULL, 0, err);
    if (r != 0)
        return r < 0 ? -1 : 0;
    return no_room(m, what, err);
}

static int
quarantined(struct manager *m, const struct session_open_args *a, struct err *err)
{
    int r = runtime_settle_quarantined(m, a->owner, a->name, err);

    if (r != 0)
        return r < 0 ? -1 : 0;
    err_slug(err, ERR_UNAVAILABLE, "runtime_quarantined",
             "the end of this session's earlier kernel is not confirmed yet");
    if (err)
        err->retry_after_s = RETRY_AFTER_S;
    return -1;
}

/* One attempt came out as `how`. 1 *s is the answer, 0 try again, -1. */
static int
step(struct manager *m, struct session_open_args *a, enum session_open_outcome how,
     struct session *s, struct wait *w, int64_t *name_lock, struct err *err)
{
    bool done = false;
    int r;

    a->ignore_expiry = false;
    switch (how) {
    case SESSION_OPEN_NEW:
        return start(m, s, err) < 0 ? -1 : 1;
    case SESSION_OPEN_EXISTING:
        if (s->state != SESSION_OPENING)
            return 1;
        return wait_opening(m, s->sid, w, err);
    case SESSION_OPEN_EXPIRED:
        if (close_if_expired(m, s->sid, &done, err) < 0)
            return -1;
        a->ignore_expiry = !done; /* somebody is at work in it: then it is not expired */
        return 0;
    case SESSION_OPEN_CLOSING:
        if (close_if_free(m, s->sid, &done, err) < 0)
            return -1;
        if (done || session_ended_itself(m, s)) /* then it is worth the wait */
            return 0;
        return err_slug(err, ERR_CONFLICT, "session_closing", "the session is being closed");
    case SESSION_OPEN_ELSEWHERE:
        return err_set(err, ERR_CONFLICT,
                       "this session runs on backend %s: close it first, or name no backend",
                       s->backend);
    case SESSION_OPEN_QUARANTINED:
        return quarantined(m, a, err);
    default:
        r = full(m, a, how, name_lock, err);
        return r < 0 ? -1 : 0;
    }
}

static int
open_named(struct manager *m, struct session_open_args *a, struct wait *w, int64_t *name_lock,
           struct session *ret, bool *ret_created, struct err *err)
{
    for (;;) {
        enum session_open_outcome how;
        struct session s = {0};
        int r;

        a->now = manager_now(m);
        if (session_store_open(m->db, a, &how, &s, err) < 0)
            return -1;
        r = step(m, a, how, &s, w, name_lock, err);
        if (r > 0) {
            *ret_created = how == SESSION_OPEN_NEW;
            session_derive(m, &s);
            *ret = s;
            return 0;
        }
        session_done(&s);
        if (r < 0 || wait_step(w, err) < 0)
            return -1;
    }
}

static int
known_backend(struct manager *m, const char *backend, struct err *err)
{
    struct sandbox *sb = NULL;

    return manager_backend(m, backend, &sb, err);
}

int
manager_open(struct manager *m, const struct caller *c, const struct open_request *r,
             const struct watch *watch, struct deadline d, struct session *ret, bool *ret_created,
             struct err *err)
{
    char name[SESSION_NAME_MAX + 1];
    struct wait w = {.d = d};
    int64_t id = id_random_i64();
    struct session_open_args a = {.owner = c->owner,
                                  .name = name,
                                  .binding = r->binding,
                                  .value = r->binding == BIND_NONE ? "" : r->value,
                                  .value_len = r->binding == BIND_NONE ? 0 : r->value_len,
                                  .backend = r->backend ? r->backend : m->o.backend,
                                  .backend_asked = r->backend != NULL,
                                  .has_ttl = r->has_ttl,
                                  .ttl_ms = manager_clamp_ttl(m, r->ttl_ms),
                                  .default_ttl_ms = manager_clamp_ttl(m, r->default_ttl_ms),
                                  .labels = r->labels,
                                  .temporary = r->temporary,
                                  .new_sid = id,
                                  .new_workspace = id, /* of its first session */
                                  .holder_pid = getpid(),
                                  .max_sessions = m->o.max_sessions,
                                  .max_per_owner = m->o.max_sessions_per_owner,
                                  .workspace_retention_ms = m->o.workspace_retention_ms};
    int64_t name_lock = 0;
    int rc;

    if (watch) {
        w.gone = watch->gone;
        w.ctx = watch->ctx;
    }
    if (session_name_of(r->binding, r->value, r->value_len, name, err) < 0 ||
        known_backend(m, a.backend, err) < 0)
        return -1;
    a.max_of_backend = manager_max_of(m, a.backend);
    if (manager_files_of(m, a.backend) == FILES_IN_RUNTIME)
        a.workspace_retention_ms = -1; /* they ended with the kernel */
    manager_promise_by(m, d, m->o.start_timeout_ms);
    /* Before there is a row: whoever finds it in state opening and this lock free knows that its
     * opener died. */
    if (lock_try_exclusive(m->lock_fd, a.new_sid) != 1)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    rc = open_named(m, &a, &w, &name_lock, ret, ret_created, err);
    if (name_lock != 0)
        (void)lock_release(m->lock_fd, name_lock);
    (void)lock_release(m->lock_fd, a.new_sid);
    if (rc == 0 && *ret_created) /* a DELETE that came while it was held is carried out now */
        hold_leave(m, a.new_sid);
    return rc;
}
