/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_SLOT_H
#define HUSK_KEEPER_SLOT_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>

/* A uid of one's own: a locked byte per number in state_dir/slots, so that two live sandboxes never
 * share one. Fills *ret_slot (1 and up); returns the lock, which the caller keeps and init inherits
 * (an open file description's lock lives as long as any copy of the descriptor), or -1. */
int slot_take(const struct keeper_options *o, int *ret_slot, struct err *err);
/* This one: the lock's descriptor, or -1 where somebody has it or that cannot be found out. */
int slot_try(const struct keeper_options *o, int slot);
/* Does anybody hold this slot? True also where that cannot be found out. */
bool slot_taken(const struct keeper_options *o, int slot);

#endif
