/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_NFT_H
#define HUSK_KEEPER_NFT_H

#include "base/err.h"

#include <netinet/in.h>

/*
 * The nftables table `inet husk`: what the sandboxes' links may reach.  It decides about packets
 * that come from or go to our links only, and lets all others pass to whatever else filters.
 */
#define NFT_TABLE "husk"

/* Makes it, or replaces it in one transaction. `resolver` (or NULL) may be asked at port 53 even
 * where its address is denied or the host's own. */
int nft_install(const struct in_addr *resolver, struct err *err);
/* 1 when it has as many rules as it was given, 0 when some are missing or were added, or all of it
 * is gone (`nft flush ruleset`, a reload of the host's own rules). */
int nft_is_whole(const struct in_addr *resolver, struct err *err);

#endif
