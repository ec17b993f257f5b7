/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "store/workspace_store.h"

/*
 * Files that outlive their session.  Each workspace is measured once when it is kept: nobody
 * writes to it until a session takes it up again, and then it is measured anew.  Over the bound on
 * all of them together those kept longest go; those of live sessions are not counted and never go.
 * Where they are sandboxes at a backend, it is their number that is bounded.
 */
#define BATCH 64
#define DISCARD_FAILURES_MAX 3 /* of a backend in one sweep */
#define ENTRIES_MAX 1000000    /* a workspace of more counts with what was seen */

static void
note(const struct err *err)
{
    log_warning("upkeep, workspaces: %s", err->msg);
}

/* What cannot be looked at counts nothing, or it would be tried at each sweep; nor does what is at
 * a backend. */
static int64_t
usage_of(struct manager *m, const struct workspace_row *w)
{
    struct err err = ERR_INIT;
    int64_t bytes = 0;

    if (manager_files_of(m, w->backend) != FILES_KEYED &&
        place_usage(&m->place, w->workspace_id, ENTRIES_MAX, &bytes, &err) < 0 &&
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
            if (workspace_store_measured(m->db, &rows[i], usage_of(m, &rows[i]), &err) < 0)
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

/* What a backend holds is ended first. One that is not set up any more is not asked, one that does
 * not answer not for all: their workspaces wait, and those of others do not wait for them. */
static bool
discard(struct manager *m, const struct workspace_row *w, int failures[BACKENDS_MAX])
{
    int i = 0;

    if (manager_files_of(m, w->backend) != FILES_KEYED)
        return true;
    while (i < m->n_backends && strcmp(m->backends[i].name, w->backend) != 0)
        i++;
    if (i == m->n_backends || failures[i] >= DISCARD_FAILURES_MAX)
        return false;
    if (runtime_discard(m, w->backend, w->workspace_id))
        return true;
    failures[i]++;
    return false;
}

static void
remove_doomed(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct workspace_row rows[BATCH];
    int64_t kept_before = clock_wall_ms() - m->o.workspace_retention_ms, after = 0;
    int failures[BACKENDS_MAX] = {0};
    struct err err = ERR_INIT;
    int n = BATCH;

    while (n == BATCH && !deadline_passed(d)) {
        n = workspace_store_doomed(m->db, kept_before, after, rows, BATCH, &err);
        if (n < 0)
            note(&err);
        for (int i = 0; i < n && !deadline_passed(d); i++) {
            err = (struct err)ERR_INIT;
            after = rows[i].workspace_id;
            if (!discard(m, &rows[i], failures))
                continue;
            if (manager_workspace_remove(m, rows[i].backend, rows[i].workspace_id, &err) < 0 ||
                workspace_store_removed(m->db, rows[i].workspace_id, &err) < 0)
                note(&err);
            else
                r->workspaces_removed++;
        }
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
