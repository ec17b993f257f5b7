/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/log.h"
#include "store/runtime_store.h"
#include "store/session_store.h"
#include "store/workspace_store.h"

/*
 * Rows and runtimes held against each other.  A runtime that no row knows is an orphan: it ends
 * once it is older than the longest open.  A row whose runtime is gone (its gateway was restarted)
 * becomes an honest cold session.
 *
 * Nothing is concluded from a list that failed or was cut short.  Rows are read before the list is
 * asked for, so that what the list lacks was not merely too new for it; and the backend is asked
 * for each by name as well, since the list holds only those of the kernel's name now set.
 */
#define BATCH 64
#define STRANGERS_MAX 2048
#define LIVE_MAX 16384
/* Beyond what an open may take: clocks are read at different moments. */
#define GRACE_MS 5000
/* An abandoned start goes on counting that many times the longest open, whatever hinders the list.
 */
#define ABANDONED_TIMES 10

struct known {
    struct runtime_live row;
    bool seen;
};

struct comparison {
    struct manager *m;
    const struct backend_slot *b;
    struct known *known; /* by handle */
    int n_known;
    struct orphan_handle *strangers;
    int n_strangers;
    bool failed;
};

static void
note(const char *step, const struct err *err)
{
    log_warning("reconciling, %s: %s", step, err->msg);
}

static int64_t
longest_open_ms(const struct manager *m)
{
    return m->o.start_timeout_ms + m->o.sandbox.http_timeout_ms + GRACE_MS;
}

static int
by_handle(const void *handle, const void *known)
{
    return strcmp(handle, ((const struct known *)known)->row.handle);
}

/* Does a row know it? One that holds files belongs to the workspace it has as its key; while that
 * is kept for a session to come, it shall not run. */
static int
is_known(struct comparison *c, const struct runtime_seen *seen)
{
    enum workspace_state state;
    int64_t workspace_id;
    int r = runtime_store_knows(c->m->db, seen->handle, NULL);

    if (r != 0 || !seen->key || !runtime_key_parse(seen->key, &workspace_id))
        return r;
    r = workspace_store_state(c->m->db, workspace_id, &state, NULL);
    if (r <= 0 || state == WORKSPACE_ROW_DOOMED)
        return r < 0 ? -1 : 0;
    if (state == WORKSPACE_ROW_KEPT && seen->running)
        (void)runtime_end_keeping(c->m, c->b->name, seen->handle);
    return 1;
}

static int
on_seen(void *ctx, const struct runtime_seen *seen)
{
    struct comparison *c = ctx;
    size_t n = strlen(seen->handle);
    struct known *k =
        c->n_known ? bsearch(seen->handle, c->known, (size_t)c->n_known, sizeof *k, by_handle)
                   : NULL;
    int r;

    if (k)
        k->seen = true;
    if (k || n == 0 || n > HANDLE_MAX)
        return 0;
    r = is_known(c, seen);
    if (r == 0 && c->n_strangers < STRANGERS_MAX) /* the others' turn comes when these are gone */
        memcpy(c->strangers[c->n_strangers++].handle, seen->handle, n + 1);
    c->failed = r < 0;
    return c->failed;
}

static void
end_orphans(struct comparison *c, const struct orphan_handle *old, int n, struct deadline d,
            struct sweep_report *r)
{
    struct manager *m = c->m;

    for (int i = 0; i < n && !sweep_over(m, d); i++) {
        struct err err = ERR_INIT;

        /* A row may have come to know it since the list was taken. */
        if (runtime_store_knows(m->db, old[i].handle, NULL) != 0)
            continue;
        log_warning("runtime %s belongs to no session: it is ended", old[i].handle);
        if (!runtime_end(m, c->b->name, old[i].handle))
            continue;
        r->orphans++;
        if (runtime_store_orphan_gone(m->db, old[i].handle, &err) < 0)
            note("an orphan", &err);
    }
}

static void
orphans(struct comparison *c, struct deadline d, struct sweep_report *r)
{
    struct manager *m = c->m;
    struct orphan_handle old[BATCH];
    struct err err = ERR_INIT;
    struct db_now now = manager_now(m);
    int n = runtime_store_orphans(m->db, c->b->name, c->strangers, c->n_strangers,
                                  longest_open_ms(m), &now, old, BATCH, &err);

    if (n < 0)
        note("orphans", &err);
    else
        end_orphans(c, old, n, d, r);
}

/* Under the exclusive lock, so that nobody is at work in it: whoever is meets the loss himself. */
static void
turn_cold(struct manager *m, const struct runtime_live *row, bool ended, struct sweep_report *r)
{
    struct session s = {0};
    struct err err = ERR_INIT;
    struct runtime_drop_args a = {.sid = row->sid, .generation = row->generation, .ended = ended};
    int rc = lock_try_exclusive(m->lock_fd, row->sid);

    if (rc <= 0)
        return;
    rc = session_store_by_sid(m->db, row->sid, &s, &err);
    if (rc > 0 && s.state == SESSION_READY && strcmp(s.handle, row->handle) == 0) {
        a.lost = runtime_had_state(m, &s, "");
        a.now = manager_now(m);
        rc = runtime_store_drop(m->db, &a, &err);
        if (rc > 0) {
            log_warning("the runtime %s of session %s is gone: it is cold", row->handle, s.name);
            r->lost++;
        }
    }
    if (rc < 0)
        note("a session whose runtime is gone", &err);
    (void)lock_release(m->lock_fd, row->sid);
    session_done(&s);
}

static void
lost(struct comparison *c, struct deadline d, struct sweep_report *r)
{
    struct manager *m = c->m;
    struct sandbox *sb = c->b->sb;

    for (int i = 0; i < c->n_known && !sweep_over(m, d); i++) {
        enum alive alive = ALIVE_UNKNOWN;
        struct err err = ERR_INIT;

        if (isolation_dead(m, sb, c->known[i].row.handle)) {
            bool ended = runtime_end(m, c->b->name, c->known[i].row.handle);

            turn_cold(m, &c->known[i].row, ended, r);
            continue;
        }
        if (c->known[i].seen)
            continue;
        manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
        if (sb->ops->alive(sb, c->known[i].row.handle, manager_end_deadline(m), &alive, &err) < 0) {
            note("a runtime", &err); /* nor would the backend tell of the others */
            return;
        }
        if (alive == ALIVE_NO)
            turn_cold(m, &c->known[i].row, true, r);
    }
}

/* The gateway answers: those quarantined that are not there any more need not wait for their next
 * try, which an outage may have put off for minutes. */
static void
quarantined(struct comparison *c, struct deadline d, struct sweep_report *r)
{
    struct manager *m = c->m;
    struct sandbox *sb = c->b->sb;
    struct runtime_row rows[BATCH];
    struct err err = ERR_INIT;
    const struct db_now ever = {.boot_ms = INT64_MAX};
    int n = runtime_store_quarantined(m->db, NULL, NULL, &ever, rows, BATCH, &err);

    for (int i = 0; i < n && !sweep_over(m, d); i++) {
        enum alive alive = ALIVE_UNKNOWN;

        if (strcmp(rows[i].backend, c->b->name) != 0)
            continue;
        manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
        if (sb->ops->alive(sb, rows[i].handle, manager_end_deadline(m), &alive, &err) < 0)
            n = -1;
        else if (alive == ALIVE_NO && runtime_store_ended(m->db, rows[i].rid, &err) >= 0)
            r->quarantine_ended++;
    }
    if (n < 0)
        note("quarantined runtimes", &err);
}

/* 0, or -1: nothing is known. */
static int
compare(struct comparison *c, struct deadline d, struct err *err)
{
    struct manager *m = c->m;
    struct sandbox *sb = c->b->sb;
    struct runtime_live *rows = xcalloc(LIVE_MAX, sizeof *rows);
    int n = runtime_store_live(m->db, c->b->name, rows, LIVE_MAX, err);

    c->known = xcalloc(n > 0 ? (size_t)n : 1, sizeof *c->known);
    for (int i = 0; i < n; i++)
        c->known[c->n_known++].row = rows[i];
    free(rows);
    if (n < 0)
        return -1;
    c->strangers = xcalloc(STRANGERS_MAX, sizeof *c->strangers);
    manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
    if (sb->ops->list(sb, on_seen, c, deadline_min(d, manager_end_deadline(m)), err) < 0)
        return -1;
    return c->failed ? err_set(err, ERR_INTERNAL, "the rows could not be read") : 0;
}

static void
abandoned(struct manager *m, const struct backend_slot *b, bool compared)
{
    struct err err = ERR_INIT;
    int64_t now = clock_wall_ms();
    int64_t end = now - (b->sb->ops->list ? ABANDONED_TIMES : 1) * longest_open_ms(m);
    /* What was sent before its opener died may take that long to show. */
    int64_t since = compared ? now - longest_open_ms(m) : end;

    if (runtime_store_abandoned_end(m->db, b->name, since, end, &err) < 0)
        note("abandoned starts", &err);
}

static void
reconcile(struct manager *m, const struct backend_slot *b, struct deadline d,
          struct sweep_report *r)
{
    struct comparison c = {.m = m, .b = b};
    struct err err = ERR_INIT;
    bool compared = false;

    if (b->sb->ops->list) {
        compared = compare(&c, d, &err) == 0;
        if (!compared)
            note("runtimes", &err);
    }
    if (compared) {
        orphans(&c, d, r);
        lost(&c, d, r);
        quarantined(&c, d, r);
    }
    abandoned(m, b, compared);
    free(c.known);
    free(c.strangers);
}

/* A start for a session that was there before: its process died, and nobody uses the session. */
static void
undo_start(struct manager *m, const struct runtime_row *row, struct sweep_report *r)
{
    struct runtime_row now_there;
    struct err err = ERR_INIT;
    struct runtime_drop_args a = {.sid = row->sid, .generation = row->generation};
    int rc = lock_try_exclusive(m->lock_fd, row->sid);

    if (rc <= 0)
        return;
    rc = runtime_store_starting(m->db, row->sid, &now_there, 1, &err);
    if (rc > 0 && now_there.rid == row->rid) {
        a.ended = now_there.handle[0] && runtime_end_keeping(m, row->backend, now_there.handle);
        a.now = manager_now(m);
        rc = runtime_store_drop(m->db, &a, &err);
        r->starts_undone += rc > 0;
    }
    if (rc < 0)
        note("a start that was left behind", &err);
    (void)lock_release(m->lock_fd, row->sid);
}

void
reconcile_runtimes(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct runtime_row rows[BATCH];
    struct err err = ERR_INIT;
    int n = runtime_store_starting(m->db, 0, rows, BATCH, &err);

    if (n < 0)
        note("starts", &err);
    for (int i = 0; i < n && !sweep_over(m, d); i++)
        undo_start(m, &rows[i], r);
    for (int i = 0; i < m->n_backends && !sweep_over(m, d); i++)
        reconcile(m, &m->backends[i], d, r);
}
