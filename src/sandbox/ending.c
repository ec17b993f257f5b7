/* SPDX-License-Identifier: MIT */
#include "sandbox/ending.h"

#include "base/clock.h"

#define AGAIN_MS 2000
#define KILL_MS 5000
#define GIVE_UP_MS 9000

void
ending_stop(struct ending *e, enum exec_reason why)
{
    if (e->forced != REASON_NONE)
        return;
    e->forced = why;
    e->stop_ms = clock_mono_ms();
}

enum ending_step
ending_due(const struct ending *e)
{
    int64_t since = clock_mono_ms() - e->stop_ms;

    if (e->stop_ms == 0)
        return ENDING_NOTHING;
    return since >= GIVE_UP_MS ? ENDING_GIVE_UP
           : since >= KILL_MS  ? ENDING_KILL
           : since >= AGAIN_MS ? ENDING_AGAIN
                               : ENDING_INTERRUPT;
}

bool
ending_interrupts(struct ending *e, enum ending_step due)
{
    if (e->taken >= ENDING_AGAIN || e->taken >= due)
        return false;
    e->taken = e->taken == ENDING_NOTHING ? ENDING_INTERRUPT : ENDING_AGAIN;
    return true;
}

void
ending_died(struct ending *e, enum exec_reason why)
{
    if (e->forced == REASON_NONE)
        e->forced = why;
    e->invalid = true;
    e->over = true;
}
