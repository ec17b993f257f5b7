/* SPDX-License-Identifier: MIT */
#include "worker/warm.h"

#include "base/log.h"
#include "super/affinity.h"

#include <string.h>

#define LOOK_MS 1000
#define OTHERS_LOOK_MS 10000 /* until a worker that is not among the first looks whether it is */
#define LOOKERS 8
#define STEP_MS (LOOK_MS / LOOKERS) /* between the looks of two: they begin at the same time */
#define OPEN_MS 1000
#define FAILED_MS 10000 /* of a kernel that does not answer the sweep takes care */
/* Sessions come first: with fewer idle workers, this one included, none is busy with this. */
#define IDLE_MIN 3

static uint64_t
tag_of(const struct manager_pooled *p)
{
    return affinity_tag(p->handle, strlen(p->handle));
}

/* The first of the pool that nobody keeps a channel to: 1, or 0. */
static int
find(struct warm *w, struct manager_pooled *ret)
{
    struct manager_pooled rows[POOL_MAX];
    struct err err = ERR_INIT;
    int n = manager_pooled(w->manager, rows, POOL_MAX, &err);

    if (n < 0)
        log_debug("the pool could not be looked at: %s", err.msg);
    for (int i = 0; i < n; i++) {
        if (affinity_kept(w->board, tag_of(&rows[i])))
            continue;
        *ret = rows[i];
        return 1;
    }
    return 0;
}

static void
open_channel(struct warm *w, const struct manager_pooled *p)
{
    struct err err = ERR_INIT;

    /* Noted before it is there: the others look at the same rows. */
    affinity_keep(w->board, w->slot, tag_of(p));
    if (manager_warm(w->manager, p, deadline_in(OPEN_MS), &err) == 0)
        return;
    affinity_drop(w->slot, tag_of(p));
    w->next = deadline_in(FAILED_MS);
    log_debug("no channel ahead of need to kernel %s: %s", p->handle, err.msg);
}

void
warm_look(struct warm *w)
{
    struct manager_pooled p;

    if (w->next.at_ms == 0) { /* each at a moment of its own */
        w->next = deadline_in((atomic_load(&w->slot->pid) % LOOKERS + 1) * STEP_MS);
        return;
    }
    if (!deadline_passed(w->next))
        return;
    if (!affinity_among_first(w->board, w->slot, LANE_EXEC, LOOKERS)) {
        w->next = deadline_in(OTHERS_LOOK_MS);
        return;
    }
    w->next = deadline_in(LOOK_MS);
    if (scoreboard_count(w->board, LANE_EXEC, SLOT_IDLE) < IDLE_MIN || !find(w, &p) ||
        !affinity_leave_idle(w->slot, SLOT_WORKING))
        return;
    open_channel(w, &p);
    affinity_become_idle(w->slot);
}
