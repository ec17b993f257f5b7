/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_ENDING_H
#define HUSK_SANDBOX_ENDING_H

#include "model/execution.h"

#include <stdbool.h>
#include <stdint.h>

/* How an execution ends that does not end by itself, by what was done or found here. The first
 * reason stays. */
struct ending {
    enum exec_reason forced; /* REASON_NONE while nothing */
    int64_t stop_ms;         /* when the stop began, on the monotonic clock */
    bool invalid;            /* the runtime, or its state, is gone or must go */
    bool over;               /* nothing more is waited for */
};

/* A stop begins: what it takes to make the code end is the backend's. */
void ending_stop(struct ending *e, enum exec_reason why);
/* The end of the runtime, however it was noticed. */
void ending_died(struct ending *e, enum exec_reason why);

#endif
