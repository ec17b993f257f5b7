/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SUPER_AFFINITY_H
#define HUSK_SUPER_AFFINITY_H

#include "super/scoreboard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which worker keeps a channel for which session, on the scoreboard: a session's next request is
 * handed to it if it is idle.  Tags are hints (a wrong one costs a new channel, nothing else), so
 * they may be written by several; who serves is decided by one compare-and-swap on the slot's
 * state.
 */

/* A tag of some bytes (FNV-1a); never 0. */
uint64_t affinity_tag(const void *p, size_t n);

/* Notes that this slot's worker, and no other, keeps a channel for the tag. */
void affinity_keep(struct scoreboard *b, struct score_slot *own, uint64_t tag);
bool affinity_keeps(const struct score_slot *s, uint64_t tag);
/* Does any slot's worker? */
bool affinity_kept(struct scoreboard *b, uint64_t tag);
/* This slot's worker keeps none for the tag after all. */
void affinity_drop(struct score_slot *own, uint64_t tag);
/* Whoever keeps a channel for tag `from` keeps it for `to` from now on, and nobody else does. */
void affinity_rename(struct scoreboard *b, uint64_t from, uint64_t to);
/* Is this slot's worker among the first n idle ones of its lane, itself taken for idle? */
bool affinity_among_first(struct scoreboard *b, const struct score_slot *own, enum lane lane,
                          int n);
/* Forgets all of a slot, what its last worker was handing over too: its worker is new. */
void affinity_clear(struct score_slot *s);

/* Claims an idle worker of the lane, other than `own`, that keeps the tag (0: any), or one that
 * keeps it and is just ending: its slot's number, or -1. A claimed worker accepts nothing until it
 * got the connection, or gave up waiting for it. */
int affinity_claim(struct scoreboard *b, const struct score_slot *own, enum lane lane,
                   uint64_t tag);

/*
 * A claimed worker may be stopped, or too slow: it must not hold the connection hostage.  So the
 * connection is offered, and exactly one of the two serves it: the claimed one if it takes the
 * offer, the one who offered if it withdraws it first.  A claimed worker whose offer was withdrawn
 * stays claimed until it moves (nobody else runs into it), or the master kills it for that.
 */

/* A new offer of the slot's worker, to be sent along with the connection. */
uint64_t affinity_offer(struct scoreboard *b, int own);
/* Waits up to wait_ms until the offer is taken: true; false: it is withdrawn. */
bool affinity_await(struct scoreboard *b, uint64_t offer, int wait_ms);
/* Takes an offer: true, and the connection is the caller's; false when it was withdrawn. */
bool affinity_take(struct scoreboard *b, uint64_t offer);

/* Takes a claim back whose connection could not be handed over. */
void affinity_unclaim(struct score_slot *s);

/* Idle to `state`: true; false when it was claimed in the meantime. */
bool affinity_leave_idle(struct score_slot *own, enum slot_state state);

/* Working to ending: whoever got our answer may be back with the next request before this worker
 * is through with tidying up. */
void affinity_ending(struct score_slot *own);
/* Idle from whatever came before; a worker that was claimed while it ended stays claimed. No
 * deadline is published any more. */
void affinity_become_idle(struct score_slot *own);

#endif
