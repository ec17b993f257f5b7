/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_SWEEP_H
#define HUSK_KEEPER_SWEEP_H

#include "keeper/keeper.h"

/* Takes away what killed monitors have left: their sockets (with a mark that their kernels have
 * ended), control groups, links, folders lent to kernels; and ends that are older than
 * ENDED_KEPT_S. Takes its time, so it runs in a child of the keeper's. */
void sweep_run(const struct keeper_options *o);

#endif
