/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/execution_store.h"
#include "store/runtime_store.h"
#include "store/session_store.h"
#include "workspace/keeper_client.h"

#define QUARANTINED_PER_NAME 4
#define POOL_TRIES 3 /* after so many of the pool that do not answer one is started */

bool
runtime_end(struct manager *m, const char *backend, const char *handle)
{
    struct err err = ERR_INIT;
    struct sandbox *sb = NULL;

    manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
    if (manager_backend(m, backend, &sb, &err) < 0) {
        log_warning("the end of runtime %s is left undone: %s", handle, err.msg);
        /* Found again by its key when the backend is; a row of it would count against the cap. */
        return manager_files_of(m, backend) == FILES_KEYED;
    }
    if (sb->ops->forget)
        sb->ops->forget(sb, handle);
    if (sb->ops->close(sb, handle, manager_end_deadline(m), &err) == 0)
        return true;
    log_warning("the end of runtime %s is not confirmed: %s", handle, err.msg);
    return false;
}

#define RUNTIME_KEY_SIZE 17

/* By what a runtime of a session belongs to it where the backend keeps such a thing. */
static void
runtime_key(int64_t workspace_id, char ret[RUNTIME_KEY_SIZE])
{
    (void)snprintf(ret, RUNTIME_KEY_SIZE, "%016" PRIx64, (uint64_t)workspace_id);
}

bool
runtime_key_parse(const char *key, int64_t *ret_workspace_id)
{
    char again[RUNTIME_KEY_SIZE];

    if (strlen(key) != RUNTIME_KEY_SIZE - 1)
        return false;
    *ret_workspace_id = (int64_t)strtoull(key, NULL, 16);
    runtime_key(*ret_workspace_id, again);
    return strcmp(key, again) == 0;
}

bool
runtime_end_keeping(struct manager *m, const char *backend, const char *handle)
{
    struct err err = ERR_INIT;
    struct sandbox *sb = NULL;

    if (manager_files_of(m, backend) != FILES_KEYED)
        return runtime_end(m, backend, handle);
    manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
    if (manager_backend(m, backend, &sb, &err) < 0 ||
        sb->ops->park(sb, handle, manager_end_deadline(m), &err) < 0)
        log_warning("runtime %s is not stopped yet: %s", handle, err.msg);
    return true;
}

bool
runtime_undo(struct manager *m, const char *backend, const struct runtime_made *made)
{
    return made->found ? runtime_end_keeping(m, backend, made->handle)
                       : runtime_end(m, backend, made->handle);
}

bool
runtime_discard(struct manager *m, const char *backend, int64_t workspace_id)
{
    char key[RUNTIME_KEY_SIZE];
    struct err err = ERR_INIT;
    struct sandbox *sb = NULL;

    if (manager_files_of(m, backend) != FILES_KEYED)
        return true;
    runtime_key(workspace_id, key);
    manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
    if (manager_backend(m, backend, &sb, &err) == 0 &&
        sb->ops->discard(sb, key, manager_end_deadline(m), &err) == 0)
        return true;
    log_warning("the end of the runtimes of workspace %s is not confirmed: %s", key, err.msg);
    return false;
}

int
runtime_settle_quarantined(struct manager *m, const char *owner, const char *name, struct err *err)
{
    struct runtime_row rows[QUARANTINED_PER_NAME];
    struct db_now now = manager_now(m);
    int n = runtime_store_quarantined(m->db, owner, name, &now, rows, QUARANTINED_PER_NAME, err);
    int left = n;

    for (int i = 0; i < n; i++) {
        /* The gateway does not answer: the others would not fare better. When the sweep tries again
         * is not moved: callers who ask again and again would put it off for minutes. */
        if (!runtime_end(m, rows[i].backend, rows[i].handle))
            break;
        if (runtime_store_ended(m->db, rows[i].rid, err) < 0)
            return -1;
        left--;
    }
    return n < 0 ? -1 : left == 0 && n < QUARANTINED_PER_NAME;
}

static int
bind_workspace(struct manager *m, struct sandbox *sb, const struct session *s,
               const struct runtime_made *made, struct deadline d, struct err *err)
{
    struct runtime_ref ref = {.handle = made->handle, .kernel_session = made->kernel_session};
    char dir[PATH_MAX];

    if (sb->files != FILES_IN_WORKSPACE)
        return sb->ops->bind(sb, &ref, NULL, d, err);
    if (m->place.keeper)
        return keeper_bind(m->place.keeper, made->handle, s->workspace_id, err);
    if (workspace_dir(m->place.dir, s->workspace_id, dir, sizeof dir) < 0)
        return err_set(err, ERR_INTERNAL, "the workspaces' path is too long");
    return sb->ops->bind(sb, &ref, dir, d, err);
}

/* A kernel that is told its directory through a channel need not be at once: it goes out by the
 * channel of the first code, ahead of it, and an open from the pool makes none. */
static bool
binds_later(const struct manager *m, const struct sandbox *sb)
{
    return sb->files == FILES_IN_WORKSPACE && !m->place.keeper;
}

/* How long one of the pool may take to answer: one that hangs must leave time for a start. */
static int64_t
pool_answer_ms(const struct manager *m)
{
    return m->o.start_timeout_ms / 6;
}

/* One of the pool for this session: bound, or known to be there. */
static int
make_ready(struct manager *m, struct sandbox *sb, const struct session *s,
           const struct runtime_made *made, struct deadline d, struct err *err)
{
    enum alive alive = ALIVE_UNKNOWN;

    if (!binds_later(m, sb))
        return bind_workspace(m, sb, s, made, d, err);
    if (sb->ops->alive(sb, made->handle, d, &alive, err) < 0)
        return -1;
    if (alive == ALIVE_NO)
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "the gateway does not know it any more");
    if (alive == ALIVE_UNKNOWN)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable", "the gateway does not answer");
    return 0;
}

int
runtime_had_state(struct manager *m, const struct session *s, const char *except_eid)
{
    return !s->unbound || execution_store_ran(m->db, s->sid, s->generation, except_eid, NULL) != 0;
}

int
runtime_ref_of(struct manager *m, const struct session *s, char dir[PATH_MAX],
               struct runtime_ref *ret, struct err *err)
{
    *ret = (struct runtime_ref){.handle = s->handle, .kernel_session = s->kernel_session};
    if (!s->unbound)
        return 0;
    if (workspace_dir(m->place.dir, s->workspace_id, dir, PATH_MAX) < 0)
        return err_set(err, ERR_INTERNAL, "the workspaces' path is too long");
    ret->dir = dir;
    ret->dir_ms = pool_answer_ms(m);
    return 0;
}

/* One of the pool. 1 done, 0 none that works, all ended that were tried; -1. */
static int
from_pool(struct manager *m, struct sandbox *sb, const struct session *s, struct runtime_made *made,
          struct deadline all, bool *ret_uncertain, struct err *err)
{
    for (int i = 0; i < POOL_TRIES; i++) {
        struct deadline d = deadline_min(all, deadline_in(pool_answer_ms(m)));
        struct err why = ERR_INIT;
        int r = pool_claim(m, s, binds_later(m, sb), made, err);
        bool dead;

        if (r <= 0)
            return r;
        if (make_ready(m, sb, s, made, d, &why) == 0) {
            if (m->o.pooled_given)
                m->o.pooled_given(m->o.ctx, made->handle, s->name);
            return 1;
        }
        log_warning("pooled kernel %s is of no use: %s", made->handle, why.msg);
        dead = why.code == ERR_TIMEOUT || (why.slug && strcmp(why.slug, "runtime_gone") == 0);
        *ret_uncertain = !runtime_end(m, s->backend, made->handle);
        if (*ret_uncertain || !dead) {
            if (err)
                *err = why;
            return -1;
        }
    }
    return 0;
}

int
runtime_start(struct manager *m, const struct session *s, struct runtime_made *made,
              bool *ret_uncertain, struct err *err)
{
    char key[RUNTIME_KEY_SIZE];
    struct sandbox *sb = NULL;
    struct deadline d = deadline_in(m->o.start_timeout_ms);
    int r;

    *ret_uncertain = false;
    memset(made, 0, sizeof *made);
    runtime_key(s->workspace_id, key);
    if (manager_backend_of(m, s, &sb, err) < 0 ||
        (isolation_kept(m, sb) && isolation_check(m, false, err) < 0) ||
        (sb->files == FILES_IN_WORKSPACE &&
         place_create(&m->place, s->workspace_id, NULL, err) < 0))
        return -1;
    manager_promise(m, m->o.start_timeout_ms + m->o.sandbox.http_timeout_ms * 2);
    r = from_pool(m, sb, s, made, d, ret_uncertain, err);
    if (r != 0)
        return r < 0 ? -1 : 0;
    /* What of the pool was tried is ended; the row must not name it while another is started. */
    if (made->handle[0] && runtime_store_note(m->db, s->sid, s->generation, "", "", err) < 0)
        return -1;
    memset(made, 0, sizeof *made);
    manager_promise(m, m->o.start_timeout_ms + m->o.sandbox.http_timeout_ms * 2);
    if (sb->ops->open(sb, key, made, d, err) < 0) {
        *ret_uncertain = err && err->code == ERR_UNCERTAIN;
        if (*ret_uncertain && !err->slug)
            err->slug = "start_failed";
        return -1;
    }
    r = runtime_store_note(m->db, s->sid, s->generation, made->handle, made->kernel_session, err);
    if (r > 0)
        r = bind_workspace(m, sb, s, made, d, err) < 0 ? -1 : 1;
    else if (r == 0)
        r = err_slug(err, ERR_CONFLICT, "session_closing", "the session was closed meanwhile");
    if (r > 0)
        return 0;
    *ret_uncertain = !runtime_undo(m, s->backend, made);
    return -1;
}

static enum room
room_of(enum runtime_begin_outcome how)
{
    return how == RUNTIME_BEGIN_FULL         ? ROOM_SERVICE
           : how == RUNTIME_BEGIN_OWNER_FULL ? ROOM_OWNER
                                             : ROOM_BACKEND;
}

/* The row in state starting, with room made for it. */
static int
begin_row(struct manager *m, struct session *s, struct wait *w, struct err *err)
{
    bool settled = false;

    for (;;) {
        struct runtime_begin_args a = {.sid = s->sid,
                                       .generation = s->generation,
                                       .max_sessions = m->o.max_sessions,
                                       .max_per_owner = m->o.max_sessions_per_owner,
                                       .max_of_backend = manager_max_of(m, s->backend),
                                       .now = manager_now(m)};
        enum runtime_begin_outcome how;
        int64_t generation = 0;
        int r;

        if (runtime_store_begin(m->db, &a, &how, &generation, err) < 0)
            return -1;
        switch (how) {
        case RUNTIME_BEGIN_OK:
            s->generation = generation;
            return 0;
        case RUNTIME_BEGIN_STALE:
            return err_slug(err, ERR_CONFLICT, "session_closing",
                            "the session was closed or changed meanwhile");
        case RUNTIME_BEGIN_QUARANTINED:
            r = settled ? 0 : runtime_settle_quarantined(m, s->owner, s->name, err);
            settled = true;
            if (r == 0)
                err_slug(err, ERR_UNAVAILABLE, "runtime_quarantined",
                         "the end of the session's earlier kernel is not confirmed yet");
            break;
        default:
            r = close_for_room(m, s->owner, how == RUNTIME_BEGIN_BACKEND_FULL ? s->backend : NULL,
                               s->sid, err);
            if (r == 0)
                (void)no_room(m, room_of(how), err);
        }
        if (r == 0 && err)
            err->retry_after_s = RETRY_AFTER_S;
        if (r <= 0 || wait_step(w, err) < 0)
            return -1;
    }
}

int
runtime_make(struct manager *m, struct session *s, struct wait *w, struct err *err)
{
    struct runtime_made made;
    struct runtime_drop_args drop = {.sid = s->sid, .handle = made.handle};
    bool uncertain = false;
    int r;

    if (begin_row(m, s, w, err) < 0)
        return -1;
    r = runtime_start(m, s, &made, &uncertain, err);
    if (r == 0) {
        r = runtime_store_ready(m->db, s->sid, s->generation, made.handle, made.kernel_session,
                                err);
        if (r > 0)
            return manager_reread(m, s, err);
        uncertain = !runtime_undo(m, s->backend, &made);
        if (r == 0)
            err_slug(err, ERR_CONFLICT, "session_closing", "the session was closed meanwhile");
    }
    drop.generation = s->generation;
    drop.ended = !uncertain;
    drop.now = manager_now(m);
    if (runtime_store_drop(m->db, &drop, NULL) < 0)
        log_warning("a runtime that failed to start keeps its row until the reaper comes by");
    return -1;
}

/* Its state goes; files that it holds stay where they are. */
static bool
let_go(struct manager *m, const struct session *s)
{
    struct runtime_ref ref = {.handle = s->handle, .kernel_session = s->kernel_session};
    struct err err = ERR_INIT;
    struct sandbox *sb = NULL;

    if (manager_files_of(m, s->backend) != FILES_KEYED)
        return runtime_end(m, s->backend, s->handle);
    manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
    if (manager_backend(m, s->backend, &sb, &err) < 0 ||
        sb->ops->leave(sb, &ref, manager_end_deadline(m), &err) < 0)
        log_warning("what ran in runtime %s may still run: %s", s->handle, err.msg);
    return true;
}

int
runtime_replace_begin(struct manager *m, struct session *s, int lost, struct err *err)
{
    struct runtime_drop_args a = {.sid = s->sid, .generation = s->generation, .lost = lost};

    a.ended = !s->handle[0] || let_go(m, s);
    a.now = manager_now(m);
    if (runtime_store_drop(m->db, &a, err) < 0)
        return -1;
    return manager_reread(m, s, err);
}
