/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <string.h>

#include "manager/internal.h"
#include "store/session_store.h"

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
    return 0;
}
