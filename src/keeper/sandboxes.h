/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_SANDBOXES_H
#define HUSK_KEEPER_SANDBOXES_H

#include "base/clock.h"
#include "base/err.h"
#include "keeper/keeper.h"
#include "keeper/wire.h"

#include <stdbool.h>

/*
 * Which sandboxes live: each one's monitor listens at run_dir/m/<kernel id> (0600 in 0700), so that
 * any keeper finds it, also one that was started after it.
 */

/* Is it NUL-terminated within WIRE_KERNEL_MAX, and [0-9a-f-]{8,39}? */
bool kernel_id_valid(const char kernel[WIRE_KERNEL_MAX]);

/* At the keeper's start: run_dir's folders, with their modes. */
int sandboxes_prepare(const struct keeper_options *o, struct err *err);

/* A monitor's listening socket. It appears under its name only when it listens. ERR_CONFLICT: this
 * id has had a kernel already, live or not. */
int sandbox_listen(const struct keeper_options *o, const char *kernel, struct err *err);
void sandbox_forget(const struct keeper_options *o, const char *kernel);

/* To a monitor. ERR_NOT_FOUND: no such sandbox; *ret_dead (or NULL) says that its socket is there
 * without a monitor. */
int sandbox_connect(const struct keeper_options *o, const char *kernel, struct deadline d,
                    bool *ret_dead, struct err *err);
/* One question (HELLO, ATTACH, END) and its answer; tree -1: none rides along. */
int sandbox_ask(int fd, enum wire_op op, uint64_t workspace, int tree, struct wire_reply *ret,
                struct deadline d, struct err *err);
bool sandbox_lives(const struct keeper_options *o, const char *kernel);

/* The id after `after` in the order of ids ("" begins): 1, or 0 there is none. *ret_count (or NULL)
 * is how many sockets there are. */
int sandboxes_next(const struct keeper_options *o, const char *after, char ret[WIRE_KERNEL_MAX],
                   int64_t *ret_count);

/*
 * What a sandbox had used when it ended, kept a while so that the reason of a death can be told,
 * and so that a second kernel under the same id is refused.
 */
#define ENDED_KEPT_S 600
int ended_write(const struct keeper_options *o, const char *kernel, const struct wire_counters *c);
/* 1 known, 0 not. */
int ended_read(const struct keeper_options *o, const char *kernel, struct wire_counters *ret);

#endif
