/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKER_WARM_H
#define HUSK_WORKER_WARM_H

#include "base/clock.h"
#include "manager/manager.h"
#include "super/scoreboard.h"

/*
 * Channels opened ahead: of what the first execution in a kernel of the pool takes, two thirds are
 * the opening of its channel.  So the first few idle workers of lane exec look once a second
 * whether the pool has a kernel without one, open it and note it on the scoreboard by the kernel's
 * id; when a session gets the kernel the note is put to its name, and the session's first request
 * is handed to that worker like any other (worker/hand.h).  Nothing depends on it: without such a
 * channel whoever serves the request opens one.
 */
struct warm {
    struct manager *manager; /* borrowed, as the others */
    struct scoreboard *board;
    struct score_slot *slot;
    struct deadline next; /* of the next look */
};

/* Between two requests, when warm->next has passed: opens one channel at most. While it does so
 * this worker is not idle to others. */
void warm_look(struct warm *w);

#endif
