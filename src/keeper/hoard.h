/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_HOARD_H
#define HUSK_KEEPER_HOARD_H

#include "keeper/keeper.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Memory that the kernel keeps for a session and counts for no control group: what waits in netlink
 * sockets and in sockets' queues of errors, and file locks. A process may have gigabytes of it. And
 * connections without an owner, of which the machine can have a number only.
 * Nothing bounds it, so that the keeper watches what the machine's kernel keeps altogether, and
 * where that has grown looks whose it is.
 */
#define HOARD_LOOK_MS 250

struct hoard_watch {
    int fd;          /* /proc/meminfo */
    int64_t low_kib; /* the least since it was last found grown */
};

/* Where /proc tells nothing, nothing is ever suspected. */
void hoard_open(struct hoard_watch *w);
/* Has what the kernel keeps grown so much that it may be one session's? */
bool hoard_suspected(struct hoard_watch *w);
void hoard_close(struct hoard_watch *w);

/* Looks into at most max_sandboxes and ends those that hoard, until none does. It takes its time:
 * for a child with an alarm. */
void hoard_end(const struct keeper_options *o, int max_sandboxes);

#endif
