/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_TURN_STORE_H
#define HUSK_STORE_TURN_STORE_H

#include "base/err.h"
#include "store/db.h"

#include <stdint.h>

/*
 * Who waits for a session's turn, first come first served.
 * turns(ticket INTEGER PRIMARY KEY AUTOINCREMENT, sid, lock_id, pid, since)
 * lock_id is a random number: the waiter holds the lock at that offset for as long as it lives, so
 * that others can tell a dead one.
 */
struct turn_row {
    int64_t ticket, lock_id, pid, since; /* since: wall ms */
};
#define TURN_ROWS_MAX 64

/* Inserts if fewer than max_waiters rows of this sid are there. 1 with *ret_ticket, 0 full. */
int turn_store_enter(struct db *db, int64_t sid, int64_t lock_id, int64_t pid, int max_waiters,
                     const struct db_now *now, int64_t *ret_ticket, struct err *err);
/* All of a sid, in order, at most TURN_ROWS_MAX; returns how many, or -1. */
int turn_store_list(struct db *db, int64_t sid, struct turn_row ret[TURN_ROWS_MAX],
                    struct err *err);
/* Deletes one (left, or found dead). */
int turn_store_leave(struct db *db, int64_t ticket, struct err *err);
/* All tickets of all sids, for the sweep; at most max; returns how many. */
int turn_store_all(struct db *db, struct turn_row *ret, int max, struct err *err);

#endif
