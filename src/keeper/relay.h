/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_RELAY_H
#define HUSK_KEEPER_RELAY_H

#include "base/err.h"

#include <stdint.h>
#include <sys/socket.h>

/*
 * A kernel's stdout or stderr on its way to the gateway's log: a pipe that the monitor empties, so
 * that a session never holds a descriptor of the gateway's.  What exceeds RELAY_RATE is dropped and
 * counted.  A flood is read slowly (the session waits for its own output, not the machine's
 * processors for it), and the monitor never waits.
 */
#define RELAY_BURST (64 * 1024)
#define RELAY_RATE (8 * 1024) /* bytes a second once the burst is used up */

struct relay {
    int from;  /* the pipe's read end, -1 when it is over */
    int to;    /* where it goes, or -1: nowhere */
    uid_t uid; /* in whose name */
    gid_t gid;
    int64_t tokens;    /* bytes that may pass now */
    int64_t at_ms;     /* when tokens were counted */
    int64_t dropped;   /* since the last time that was said */
    int64_t resume_ms; /* not read before this point of the monotonic clock */
};

/* Takes `target`, which `owner` has passed. Returns the pipe's write end, for the kernel, or -1
 * with err. */
int relay_open(struct relay *r, int target, const struct ucred *owner, struct err *err);
/* When it may be read next: milliseconds from now, 0 at once, -1 it is over. */
int relay_wait_ms(const struct relay *r);
/* Moves what has come. Call when `from` is readable; closes it at its end. */
void relay_move(struct relay *r);
void relay_close(struct relay *r);

#endif
