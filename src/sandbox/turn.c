/* SPDX-License-Identifier: MIT */
#include "sandbox/turn.h"

#include "base/clock.h"

#define TICK_MS 40 /* between two questions to the hooks when nothing is new */
#define NEWS_MS 5  /* from an event to the next question, when the last was just asked */

enum hook_verdict
turn_wait(struct turn_clock *t, struct ws_pool *pool, const struct exec_hooks *hooks, int max_ms)
{
    struct pollfd extra = {.fd = -1};
    int64_t now;
    int n = 0;

    if (hooks != NULL && hooks->extra_fd != NULL)
        n = hooks->extra_fd(hooks->ctx, &extra);
    if (t->news && max_ms > NEWS_MS)
        max_ms = NEWS_MS;
    ws_wait(pool, &extra, n, max_ms > 100 ? 100 : max_ms);
    if (hooks == NULL || hooks->tick == NULL)
        return HOOK_GO_ON;
    now = clock_mono_ms();
    if ((n == 0 || extra.revents == 0) && now - t->ticked_ms < (t->news ? NEWS_MS : TICK_MS))
        return HOOK_GO_ON;
    t->ticked_ms = now;
    t->news = false;
    return hooks->tick(hooks->ctx);
}

void
turn_hand_on(void *ctx, const struct exec_event *ev)
{
    const struct turn_events *t = ctx;

    t->clock->news = true;
    t->hooks->event(t->hooks->ctx, ev);
}
