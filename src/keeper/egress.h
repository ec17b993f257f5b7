/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_EGRESS_H
#define HUSK_KEEPER_EGRESS_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * Where sessions may connect to.  none: an empty network namespace.  public on a host: a veth pair
 * per sandbox and nftables rules of our own table (libmnl, libnftnl; no programs run).  public
 * without NET_ADMIN: seccomp user notification, a child of the monitor makes the connections itself
 * after it has looked at a copy of the address.  open: everything, by the host's network.
 * What public denies is the table of keeper/deny.h, and every address of the host itself.
 */

/* At the keeper's start: the nft table, or what notifications need. ERR_UNAVAILABLE says what is
 * missing (forwarding that is off, a kernel without nftables, a resolver that cannot be reached
 * this way) and how to get it. ERR_INVALID: the resolver is no address. A table that a predecessor
 * left is replaced in one step, so that live sandboxes are never without one. */
int egress_prepare(const struct keeper_options *o, struct err *err);

/* A descriptor, the caller's, that is readable when egress_changed() has something to take. -1 with
 * err where it cannot be watched, and without where the policy does not rest on such a table. */
int egress_watch(const struct keeper_options *o, struct err *err);
/* Takes what has come on it: true when what egress_restore() looks at may be another than before.
 */
bool egress_changed(int watch_fd);
/* Looks whether the table is as egress_prepare() made it, and makes it anew if not: the host's own
 * firewall may have been loaded again. What it did, or could not, is logged. */
void egress_restore(const struct keeper_options *o);

/* The veth pair of a slot (1 to SLOTS_MAX), its far end in init's network namespace, addressed and
 * up, with a default route; IPv6 off. Replaces what a predecessor left under this slot. Does
 * nothing where the policy is not held that way. On failure nothing is left. */
int egress_attach(const struct keeper_options *o, int slot, pid_t init, struct err *err);

/* Gone with the namespace already is fine. */
void egress_detach(const struct keeper_options *o, int slot);

/* Removes links of slots that nobody holds. */
void egress_sweep(const struct keeper_options *o, bool (*taken)(void *ctx, int slot), void *ctx);

/* Starts the process that serves the notifications of one sandbox (box_is_supervised()), whose
 * processes run as uid and, in the container tier, live in the folder home ("" elsewhere). It ends
 * by itself when the last of them is gone or its parent ends, and needs no wait but the parent's
 * reaping of children. Takes no ownership: the caller closes notify_fd (at once, if it likes).
 * Returns its pid or -1. */
pid_t egress_supervise(const struct keeper_options *o, uid_t uid, const char *home, int notify_fd,
                       struct err *err);

#endif
