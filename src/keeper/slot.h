/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_SLOT_H
#define HUSK_KEEPER_SLOT_H

#include "base/err.h"
#include "keeper/keeper.h"

/* A uid of one's own: a locked file per number, so that two live sandboxes never share one. Fills
 * *ret_slot (1 and up); returns the lock, which the caller keeps and init inherits, or -1. */
int slot_take(const struct keeper_options *o, int *ret_slot, struct err *err);

#endif
