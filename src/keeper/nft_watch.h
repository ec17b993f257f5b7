/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_NFT_WATCH_H
#define HUSK_KEEPER_NFT_WATCH_H

#include "base/err.h"

#include <stdbool.h>

struct nlmsghdr;

/*
 * What others do to our nftables table: the kernel tells it to those that ask (the group
 * NFNLGRP_NFTABLES of netlink), so that a table a reload of the host's rules has taken along is
 * missed for milliseconds and not until the next sweep.
 */

/* A descriptor, the caller's, that is readable when rules of this network namespace changed; or
 * -1. */
int nft_watch_open(struct err *err);
/* Takes what has come; true when our table may be another than before, be it by ourselves. */
bool nft_watch_read(int fd);
/* Whether a message of nftables' is about our table. */
bool nft_is_ours(const struct nlmsghdr *m);

#endif
