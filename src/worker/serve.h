/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKER_SERVE_H
#define HUSK_WORKER_SERVE_H

#include "api/api.h"
#include "base/err.h"
#include "fcgi/fcgi.h"
#include "manager/manager.h"
#include "super/scoreboard.h"
#include "worker/hand.h"
#include "worker/warm.h"

#include <stdint.h>

/* What the loop works with; all borrowed. */
struct serve {
    struct fcgi *fcgi;
    struct api *api;
    struct manager *manager;
    struct score_slot *slot; /* NULL without a scoreboard */
    struct hand *hand;       /* NULL where connections are not handed over */
    struct warm *warm;       /* NULL: opens no channels ahead */
    int listen_fd;
    int signal_fd;        /* readable when the worker shall end (base/sig.h) */
    int64_t max_requests; /* 0: no bound */
};

/* Tells the master until when it may wait for this worker; a NULL slot is fine. */
void serve_publish(struct score_slot *slot, struct deadline d);

/* Serves until a signal says to end (the request in hand is finished first) or max_requests are
 * served: 0. -1: the listening socket is unusable. */
int serve_loop(const struct serve *s, struct err *err);

#endif
