/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_PRIVILEGES_H
#define HUSK_KEEPER_PRIVILEGES_H

#include "base/err.h"
#include "keeper/keeper.h"

/* A monitor keeps the capabilities that signalling, mounting the workspace, giving folders back and
 * taking the network away need, and loses all others for good, with the right to gain any. */
int privileges_reduce(const struct keeper_options *o, struct err *err);

#endif
