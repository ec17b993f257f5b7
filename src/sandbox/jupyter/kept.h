/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_KEPT_H
#define HUSK_SANDBOX_JUPYTER_KEPT_H

#include "sandbox/jupyter/channel.h"

#include <poll.h>

#define KEPT_MAX 16              /* channels of one process */
#define KEPT_IDLE_MS (60 * 1000) /* longest time a channel is kept unused, once it was used */

/* Channels kept between executions: a new one costs three times what an execution does. */
struct kept {
    struct ws_pool *pool;
    int max; /* at most KEPT_MAX; 0: none are kept */
    int n;
    struct channel *list[KEPT_MAX]; /* the least recently used first */
};

/* Is there room for one more without another's end? */
bool kept_room(const struct kept *k);
/* Takes out the channel to a kernel, NULL if there is no fit one. */
struct channel *kept_take(struct kept *k, const char *handle);
/* Puts a channel aside (or frees it, if it is unfit); it belongs to k then. */
void kept_put(struct kept *k, struct channel *c);
/* Frees the channel to a kernel, or (NULL) all. */
void kept_drop(struct kept *k, const char *handle);
/* Services all; frees what is unfit or unused for too long. */
void kept_service(struct kept *k);
int kept_fds(const struct kept *k, struct pollfd *fds, int max);

#endif
