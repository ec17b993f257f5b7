/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKER_HAND_H
#define HUSK_WORKER_HAND_H

#include "base/err.h"
#include "super/scoreboard.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A worker that keeps the channel to a session's kernel shall get that session's next request.
 * Whoever accepted the connection looks at it without reading, and hands it, still unread, to the
 * idle worker that keeps the channel: nothing is proxied and nothing can be run twice.  Where that
 * cannot be had, the one who accepted serves it: any worker can serve any session.
 */
struct hand {
    struct scoreboard *board; /* borrowed */
    struct score_slot *own;
    int slot;                /* its number */
    const char *runtime_dir; /* borrowed */
    enum lane lane;
    int post_fd; /* where others hand connections to us */
};

/* Opens this worker's post at RUNTIME_DIR/post-<slot>. */
int hand_open(struct hand *h, struct scoreboard *board, int slot, enum lane lane,
              const char *runtime_dir, struct err *err);
void hand_close(struct hand *h);

/* The tag of the session an accepted connection is about; 0 if it is about none. */
uint64_t hand_tag(int conn);
/* Hands the connection to the idle worker that keeps the tag (any idle one for tag 0): true, and
 * conn is closed here; false: it is still ours, also where that worker did not take it in time. */
bool hand_over(struct hand *h, int conn, uint64_t tag);
/* Waits up to wait_ms for a connection handed to us: a descriptor, or -1, also when what came had
 * been withdrawn by then. */
int hand_receive(struct hand *h, int wait_ms);

#endif
