/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "spool/spool.h"
#include "store/execution_store.h"
#include "store/runtime_store.h"
#include "store/session_store.h"
#include "store/workspace_store.h"

#define BATCH 64
#define PRUNE_BATCH 500
#define OPTIMIZE_EVERY_MS (24 * INT64_C(3600000))

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
    for (int i = 0; i < n && !sweep_over(m, d); i++) {
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

void
upkeep_runtimes(struct manager *m, struct deadline d, struct sweep_report *r)
{
    quarantined(m, d, r);
    reconcile_runtimes(m, d, r);
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

    if (spools > m->o.history_retention_ms) /* the row, which leads to it, goes then */
        spools = m->o.history_retention_ms;
    while (n == PRUNE_BATCH && !sweep_over(m, d)) {
        n = execution_store_old_spools(m->db, now - spools, ids, PRUNE_BATCH, &err);
        for (int i = 0; i < n; i++)
            spool_remove(m->o.spool_dir, ids[i].eid);
        /* Files first: whoever is killed between the two leaves none that no row leads to. */
        if (n > 0 && execution_store_spools_removed(m->db, ids, n, &err) < 0)
            n = -1;
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
