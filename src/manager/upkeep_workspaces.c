/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <inttypes.h>

#include "base/log.h"
#include "store/workspace_store.h"

/*
 * Files that outlive their session.  Each workspace is measured once when it is kept: nobody
 * writes to it until a session takes it up again, and then it is measured anew.  Over the bound on
 * all of them together those kept longest go; those of live sessions are not counted and never go.
 * Where they are sandboxes at a backend, it is their number that is bounded.
 */
#define BATCH 64
#define ENTRIES_MAX 1000000 /* a workspace of more counts with what was seen */

static void
note(const struct err *err)
{
    log_warning("upkeep, workspaces: %s", err->msg);
}

/* What cannot be looked at counts nothing, or it would be tried at each sweep. */
static int64_t
usage_of(struct manager *m, int64_t workspace_id)
{
    struct err err = ERR_INIT;
    int64_t bytes = 0;

    if (place_usage(&m->place, workspace_id, ENTRIES_MAX, &bytes, &err) < 0 &&
        err.code != ERR_NOT_FOUND)
        note(&err);
    return bytes;
}

static void
measure(struct manager *m, struct deadline d)
{
    struct workspace_row rows[BATCH];
    struct err err = ERR_INIT;
    int n = BATCH;

    while (n == BATCH && !deadline_passed(d)) {
        n = workspace_store_unmeasured(m->db, rows, BATCH, &err);
        for (int i = 0; i < n && !deadline_passed(d); i++)
            if (workspace_store_measured(m->db, &rows[i], usage_of(m, rows[i].workspace_id), &err) <
                0)
                n = -1;
        if (n < 0)
            note(&err);
    }
}

static void
bound(struct manager *m, struct sweep_report *r)
{
    int64_t before, after;
    struct err err = ERR_INIT;
    int n = workspace_store_bound(m->db, m->o.workspaces_max_bytes, &before, &after, &err);

    if (n < 0)
        note(&err);
    if (n <= 0)
        return;
    r->workspaces_dropped += n;
    log_warning("kept workspaces take %" PRId64 " bytes, over SANDBOX_WORKSPACES_MAX_BYTES: the %d "
                "kept longest, of %" PRId64 " bytes, are dropped",
                before, n, before - after);
}

static void
bound_keyed(struct manager *m, struct sweep_report *r)
{
    for (int i = 0; i < m->n_backends; i++) {
        const char *backend = m->backends[i].name;
        struct err err = ERR_INIT;
        int n;

        if (m->backends[i].sb->files != FILES_KEYED)
            continue;
        n = workspace_store_bound_of(m->db, backend, m->o.max_kept_keyed, &err);
        if (n < 0)
            note(&err);
        if (n <= 0)
            continue;
        r->workspaces_dropped += n;
        log_warning("more than %" PRId64 " stopped sandboxes of the backend %s are kept "
                    "(DAYTONA_MAX_KEPT): the %d kept longest are deleted",
                    m->o.max_kept_keyed, backend, n);
    }
}

static void
remove_doomed(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct workspace_row rows[BATCH];
    int64_t kept_before = clock_wall_ms() - m->o.workspace_retention_ms;
    struct err err = ERR_INIT;
    int n = BATCH, removed = BATCH;

    /* Those that cannot be removed stay on the list. */
    while (n == BATCH && removed > 0 && !deadline_passed(d)) {
        removed = 0;
        n = workspace_store_doomed(m->db, kept_before, rows, BATCH, &err);
        if (n < 0)
            note(&err);
        for (int i = 0; i < n && !deadline_passed(d); i++) {
            err = (struct err)ERR_INIT;
            if (!runtime_discard(m, rows[i].backend, rows[i].workspace_id))
                continue;
            if (manager_workspace_remove(m, rows[i].backend, rows[i].workspace_id, &err) < 0 ||
                workspace_store_removed(m->db, rows[i].workspace_id, &err) < 0)
                note(&err);
            else
                removed++;
        }
        r->workspaces_removed += removed;
    }
}

void
upkeep_workspaces(struct manager *m, struct deadline d, struct sweep_report *r)
{
    measure(m, d);
    bound(m, r);
    bound_keyed(m, r);
    remove_doomed(m, d, r);
}
