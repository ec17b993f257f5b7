/* SPDX-License-Identifier: MIT */
#include "sandbox/ending.h"

#include "base/clock.h"

void
ending_stop(struct ending *e, enum exec_reason why)
{
    if (e->forced != REASON_NONE)
        return;
    e->forced = why;
    e->stop_ms = clock_mono_ms();
}

void
ending_died(struct ending *e, enum exec_reason why)
{
    if (e->forced == REASON_NONE)
        e->forced = why;
    e->invalid = true;
    e->over = true;
}
