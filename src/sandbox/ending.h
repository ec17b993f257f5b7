/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_ENDING_H
#define HUSK_SANDBOX_ENDING_H

#include "model/execution.h"

#include <stdbool.h>
#include <stdint.h>

/* A stop is made of steps, each due some time after its begin; both backends take the same ones. */
enum ending_step {
    ENDING_NOTHING,
    ENDING_INTERRUPT,
    ENDING_AGAIN,  /* a second interrupt, after 2 s */
    ENDING_KILL,   /* the end of what runs, after 5 s */
    ENDING_GIVE_UP /* nobody waits for that any more, after 9 s */
};

/* How an execution ends that does not end by itself, by what was done or found here. The first
 * reason stays. */
struct ending {
    enum exec_reason forced; /* REASON_NONE while nothing */
    int64_t stop_ms;         /* when the stop began, on the monotonic clock; 0: it did not */
    enum ending_step taken;  /* the last of the stop's steps that was taken */
    bool invalid;            /* the runtime, or its state, is gone or must go */
    bool over;               /* nothing more is waited for */
};

/* A stop begins: what it takes to make the code end is the backend's. */
void ending_stop(struct ending *e, enum exec_reason why);
/* The last step that is due by now; ENDING_NOTHING while there is no stop. */
enum ending_step ending_due(const struct ending *e);
/* Takes the first interrupt or the second, if one is due: true, and the caller sends it. */
bool ending_interrupts(struct ending *e, enum ending_step due);
/* The end of the runtime, however it was noticed. */
void ending_died(struct ending *e, enum exec_reason why);

#endif
