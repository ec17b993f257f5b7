/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_EGRESS_H
#define HUSK_KEEPER_EGRESS_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * Where sessions may connect to.  none: an empty network namespace.  public on a host: a veth pair
 * per sandbox and nftables rules of our own table (libmnl, libnftnl; no programs run).  public
 * without NET_ADMIN: seccomp user notification, the monitor makes the connections itself after it
 * has looked at a copy of the address.  open: everything, by the host's network.
 */
/* Is this address one that policy public denies? One table serves nft and the supervisor; v4-mapped
 * and NAT64 forms are looked at as what they stand for. Local addresses are asked of the kernel. */
bool egress_denied(const struct sockaddr *sa, socklen_t n);
/* At the keeper's start: the nft table (public on a host). ERR_UNAVAILABLE says what is missing. */
int egress_prepare(const struct keeper_options *o, struct err *err);
/* The veth pair of a slot, its far end in init's namespace, addressed and up, with a default route;
 * v6 off. Needs nothing where the policy is not public or there is no NET_ADMIN. */
int egress_attach(const struct keeper_options *o, int slot, pid_t init, struct err *err);
/* Gone with the namespace already is fine. */
void egress_detach(const struct keeper_options *o, int slot);
/* Serves the notifications of one sandbox until its filter is gone: runs in a thread-less child or
 * in the monitor's loop when notify_fd is readable. One call serves one notification. */
int egress_serve(const struct keeper_options *o, int notify_fd, struct err *err);
/* Removes links of slots that nobody holds. */
void egress_sweep(const struct keeper_options *o, bool (*taken)(void *ctx, int slot), void *ctx);

#endif
