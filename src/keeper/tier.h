/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_TIER_H
#define HUSK_KEEPER_TIER_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * What this machine can do, found out by trying it: each tier by making its namespaces, mounts and
 * filters in a child that ends.  `wanted` is auto or a tier's name, `minimum` a tier's name.
 */
struct tier_probe {
    enum tier tier;   /* the best there is, or the one asked for */
    bool enough;      /* at least the minimum, and what was asked for */
    char detail[200]; /* what is missing for more, and how to get it; "" if nothing is */
};
/* Fails only where `wanted` or `minimum` is no such name. Takes up to a few tens of milliseconds a
 * tier. */
int tier_probe(const char *wanted, const char *minimum, struct tier_probe *ret, struct err *err);
const char *tier_name(enum tier t);
/* Tier rootless, before anything else: a user namespace with our own uid and gid as they are, and a
 * mount namespace in it. */
int tier_enter_rootless(struct err *err);

#endif
