/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <string.h>

#include "manager/internal.h"
#include "store/session_store.h"

static struct backend_stats *
backend_of(struct manager_stats *st, const char *name)
{
    int i = 0;

    while (i < st->n_backends && strcmp(st->backends[i].name, name) != 0)
        i++;
    if (i == STATS_BACKENDS_MAX)
        return NULL;
    if (i == st->n_backends)
        memcpy(st->backends[st->n_backends++].name, name, strlen(name) + 1);
    return &st->backends[i];
}

static int
by_backend(struct manager *m, struct manager_stats *st, struct err *err)
{
    struct backend_counts counts[STATS_BACKENDS_MAX];
    int n = session_store_backend_counts(m->db, counts, STATS_BACKENDS_MAX, err);

    for (int i = 0; i < m->n_backends; i++) {
        struct backend_stats *b = backend_of(st, m->backends[i].name);
        int64_t own = manager_max_of(m, b->name);

        b->set_up = true;
        b->max_runtimes = own > 0 && own < m->o.max_sessions ? own : m->o.max_sessions;
        b->max_kept = m->backends[i].sb->files == FILES_KEYED ? m->o.max_kept_keyed : 0;
    }
    for (int i = 0; i < n; i++) {
        struct backend_stats *b = backend_of(st, counts[i].backend);

        if (!b)
            break;
        b->sessions = counts[i].sessions;
        b->runtimes = counts[i].runtimes;
        b->workspaces_kept = counts[i].workspaces_kept;
    }
    return n < 0 ? -1 : 0;
}

int
manager_stats(struct manager *m, struct manager_stats *ret, struct err *err)
{
    struct session_counts c;

    if (session_store_counts(m->db, &c, err) < 0)
        return -1;
    memset(ret, 0, sizeof *ret);
    memcpy(ret->sessions, c.by_state, sizeof ret->sessions);
    memcpy(ret->executions_by_reason, c.executions_by_reason, sizeof ret->executions_by_reason);
    ret->runtimes_live = c.live;
    ret->runtimes_starting = c.starting;
    ret->runtimes_quarantined = c.quarantined;
    ret->runtimes_pooled = c.pooled;
    ret->waiting_turns = c.waiting_turns;
    ret->workspaces = c.workspaces_used + c.workspaces_kept;
    ret->workspaces_kept = c.workspaces_kept;
    ret->workspaces_kept_bytes = c.workspaces_kept_bytes;
    ret->workspaces_dropped = c.workspaces_dropped;
    ret->last_sweep_at = c.swept_at;
    db_sizes(m->db, &ret->db_bytes, &ret->wal_bytes);
    return by_backend(m, ret, err);
}
