/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SUPER_SCOREBOARD_H
#define HUSK_SUPER_SCOREBOARD_H

#include "base/clock.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What each worker is doing, in a shared file mapping made by the master (RUNTIME_DIR/scoreboard).
 * A slot has one writer (its worker; the master only while the slot has none; super/affinity.h for
 * what is claimed), so plain C11 atomics do and nothing is ever locked.  The master kills a worker
 * five seconds past the deadline it published, or when it was claimed and did not move. Counters
 * for /metrics are summed over slots; a slot's go on when its worker is replaced.
 */
enum lane { LANE_EXEC, LANE_API, LANE_BULK, LANE_CTL, LANE_COUNT };
const char *lane_name(enum lane l);
int lane_parse(const char *s, enum lane *ret);

enum slot_state {
    SLOT_EMPTY,
    SLOT_STARTING,
    SLOT_IDLE,
    SLOT_WORKING,
    SLOT_DRAINING,
    SLOT_CLAIMED, /* another worker is handing it a connection (super/affinity.h) */
    SLOT_ENDING /* its answer is about to be whole: idle in a moment, and may be claimed already */
};

#define SCORE_STATUS_CLASSES 6 /* 0 unused, 1xx … 5xx */
#define SCORE_BUCKETS 14       /* of the duration histograms, the last is +Inf */
#define SCORE_REASONS 13       /* EXEC_REASONS of model/execution.h */
#define SCORE_KEPT 8           /* channels a worker keeps */
extern const double score_bucket_s[SCORE_BUCKETS - 1];

struct score_histogram {
    _Atomic uint64_t count[SCORE_BUCKETS];
    _Atomic uint64_t sum_us;
};

struct score_slot {
    _Atomic int32_t pid;
    _Atomic int32_t lane;
    _Atomic int32_t state;
    _Atomic int64_t since_ms;    /* CLOCK_MONOTONIC */
    _Atomic int64_t deadline_ms; /* CLOCK_MONOTONIC; 0 none */
    _Atomic int64_t generation;  /* of the master's configuration */
    _Atomic uint64_t requests;
    _Atomic uint64_t requests_by[LANE_COUNT][SCORE_STATUS_CLASSES];
    _Atomic uint64_t executions[SCORE_REASONS];
    struct score_histogram request_time, exec_time, gateway_time;
    _Atomic uint64_t bytes_in, bytes_out;
    _Atomic uint64_t kept[SCORE_KEPT]; /* tags of kept channels, 0 none; hints for any reader */
    _Atomic uint32_t offers;           /* made by this slot so far */
    _Atomic uint32_t offered;          /* the connection that it is handing over, 0 none */
};

struct scoreboard;

int scoreboard_create(const char *path, int n_slots, struct scoreboard **ret, struct err *err);
int scoreboard_attach(const char *path, bool writable, struct scoreboard **ret, struct err *err);
void scoreboard_free(struct scoreboard *b); /* unmaps */
int scoreboard_slots(const struct scoreboard *b);
struct score_slot *scoreboard_slot(struct scoreboard *b, int i); /* NULL out of range */
int scoreboard_count(const struct scoreboard *b, enum lane l, enum slot_state s);
void score_observe(struct score_histogram *h, int64_t us);
void score_set(struct score_slot *s, enum slot_state state, struct deadline d);

/* What the master passes to a worker it execs: the listening socket is fd 0; the environment holds
 * HUSK_SLOT, HUSK_LANE, HUSK_GENERATION and HUSK_READY_FD (one byte is written when ready). */

#endif
