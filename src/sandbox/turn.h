/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_TURN_H
#define HUSK_SANDBOX_TURN_H

#include "sandbox/sandbox.h"
#include "sandbox/transport/ws.h"

#include <stdbool.h>
#include <stdint.h>

/* How often the hooks of an execution are asked, whatever backend runs it. */
struct turn_clock {
    int64_t ticked_ms; /* when a hook was last asked; 0: it shall be with the next turn */
    bool news;         /* an event was handed on since */
};

/*
 * Waits once, at most max_ms (and never above 100), for a connection of the pool or the hooks' own
 * descriptor, and asks the hooks (or NULL): soon after an event, so that whoever follows the run
 * sees it, but not for each of a flood.
 */
enum hook_verdict turn_wait(struct turn_clock *t, struct ws_pool *pool,
                            const struct exec_hooks *hooks, int max_ms);

/* Where a run's events go: to the hooks, which are then asked soon. */
struct turn_events {
    struct turn_clock *clock;
    const struct exec_hooks *hooks; /* with an event hook */
};
/* As struct output_options' event, whose ctx is then a struct turn_events. */
void turn_hand_on(void *ctx, const struct exec_event *ev);

#endif
