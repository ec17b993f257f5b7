/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "spool/spool.h"
#include "store/execution_store.h"
#include "store/runtime_store.h"
#include "store/session_store.h"
#include "store/workspace_store.h"

#define BATCH 64
#define PRUNE_BATCH 500
#define HANDLES_MAX 2048
#define OPTIMIZE_EVERY_MS (24 * INT64_C(3600000))
/* Beyond what an open may take: clocks are read at different moments. */
#define ORPHAN_GRACE_MS 5000

static void
note(const char *step, const struct err *err)
{
    log_warning("upkeep, %s: %s", step, err->msg);
}

static void
quarantined(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct runtime_row rows[BATCH];
    struct err err = ERR_INIT;
    struct db_now now = manager_now(m);
    int n = runtime_store_quarantined(m->db, NULL, NULL, &now, rows, BATCH, &err);

    if (n < 0)
        note("quarantined runtimes", &err);
    for (int i = 0; i < n && !deadline_passed(d); i++) {
        int rc;

        r->quarantine_tried++;
        err = (struct err)ERR_INIT;
        now = manager_now(m);
        if (runtime_end(m, rows[i].backend, rows[i].handle)) {
            r->quarantine_ended++;
            rc = runtime_store_ended(m->db, rows[i].rid, &err);
        } else {
            rc = runtime_store_retry_later(m->db, rows[i].rid, &now, &err);
        }
        if (rc < 0)
            note("a quarantined runtime", &err);
    }
}

struct strangers {
    struct manager *m;
    const char *backend;
    struct orphan_handle *handles;
    int n;
    bool failed;
};

/* Does a row know it? One that holds files belongs to the workspace it has as its key; while that
 * is kept for a session to come, it shall not run. */
static int
is_known(struct manager *m, const char *backend, const struct runtime_seen *seen)
{
    enum workspace_state state;
    int64_t workspace_id;
    int r = runtime_store_knows(m->db, seen->handle, NULL);

    if (r != 0 || !seen->key || !runtime_key_parse(seen->key, &workspace_id))
        return r;
    r = workspace_store_state(m->db, workspace_id, &state, NULL);
    if (r <= 0 || state == WORKSPACE_ROW_DOOMED)
        return r < 0 ? -1 : 0;
    if (state == WORKSPACE_ROW_KEPT && seen->running)
        (void)runtime_end_keeping(m, backend, seen->handle);
    return 1;
}

static int
on_seen(void *ctx, const struct runtime_seen *seen)
{
    struct strangers *s = ctx;
    size_t n = strlen(seen->handle);
    int r;

    if (n == 0 || n > HANDLE_MAX)
        return 0;
    r = is_known(s->m, s->backend, seen);
    s->failed = s->failed || r < 0;
    if (r == 0)
        memcpy(s->handles[s->n++].handle, seen->handle, n + 1);
    return s->failed || s->n >= HANDLES_MAX;
}

static void
end_orphans(struct manager *m, const char *backend, const struct orphan_handle *old, int n,
            struct deadline d, struct sweep_report *r)
{
    for (int i = 0; i < n && !deadline_passed(d); i++) {
        struct err err = ERR_INIT;

        /* A row may have come to know it since the list was taken. */
        if (runtime_store_knows(m->db, old[i].handle, NULL) != 0)
            continue;
        log_warning("runtime %s belongs to no session: it is ended", old[i].handle);
        if (!runtime_end(m, backend, old[i].handle))
            continue;
        r->orphans++;
        if (runtime_store_orphan_gone(m->db, old[i].handle, &err) < 0)
            note("an orphan", &err);
    }
}

static void
orphans(struct manager *m, const struct backend_slot *b, struct deadline d, struct sweep_report *r)
{
    struct orphan_handle old[BATCH];
    struct strangers s = {.m = m, .backend = b->name};
    struct err err = ERR_INIT;
    struct deadline list_d = deadline_min(d, manager_end_deadline(m));
    struct db_now now;
    int n;

    if (!b->sb->ops->list)
        return;
    s.handles = xcalloc(HANDLES_MAX, sizeof *s.handles);
    manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
    if (b->sb->ops->list(b->sb, on_seen, &s, list_d, &err) < 0 || s.failed) {
        note("orphans", &err);
        free(s.handles);
        return;
    }
    now = manager_now(m);
    n = runtime_store_orphans(m->db, b->name, s.handles, s.n,
                              m->o.start_timeout_ms + m->o.sandbox.http_timeout_ms +
                                  ORPHAN_GRACE_MS,
                              &now, old, BATCH, &err);
    free(s.handles);
    if (n < 0)
        note("orphans", &err);
    else
        end_orphans(m, b->name, old, n, d, r);
}

void
upkeep_runtimes(struct manager *m, struct deadline d, struct sweep_report *r)
{
    quarantined(m, d, r);
    for (int i = 0; i < m->n_backends && !deadline_passed(d); i++)
        orphans(m, &m->backends[i], d, r);
}

static void
retention(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct execution_id *ids = xcalloc(PRUNE_BATCH, sizeof *ids);
    struct err err = ERR_INIT;
    int64_t now = clock_wall_ms();
    /* A result that may be asked for again by its key outlives the events' time. */
    int64_t spools = m->o.events_retention_ms > m->o.idempotency_retention_ms
                         ? m->o.events_retention_ms
                         : m->o.idempotency_retention_ms;
    int n = PRUNE_BATCH;

    while (n == PRUNE_BATCH && !deadline_passed(d)) {
        n = execution_store_prune_spools(m->db, now - spools, ids, PRUNE_BATCH, &err);
        for (int i = 0; i < n; i++)
            spool_remove(m->o.spool_dir, ids[i].eid);
        r->spools_removed += n > 0 ? n : 0;
    }
    free(ids);
    if (n >= 0)
        n = execution_store_prune(m->db, now - m->o.history_retention_ms, PRUNE_BATCH, &err);
    r->history_removed += n > 0 ? n : 0;
    if (n >= 0)
        n = session_store_prune_history(m->db, now - m->o.history_retention_ms, PRUNE_BATCH, &err);
    r->history_removed += n > 0 ? n : 0;
    if (n < 0)
        note("retention", &err);
}

void
upkeep_storage(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct err err = ERR_INIT;

    upkeep_workspaces(m, d, r);
    retention(m, d, r);
    upkeep_artifacts(m, d, r);
    if (clock_mono_ms() - m->optimized_ms >= OPTIMIZE_EVERY_MS) {
        m->optimized_ms = clock_mono_ms();
        if (db_optimize(m->db, &err) < 0)
            note("optimize", &err);
    }
}
