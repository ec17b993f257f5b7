/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_VETH_H
#define HUSK_KEEPER_VETH_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A pair of virtual links per sandbox: "husk" and the slot's number on the host, "eth0" inside.
 * Point to point: the sandbox has 100.127.0.0 plus the slot, all of them see the host as
 * 100.127.255.254 (of the carriers' shared addresses, RFC 6598, which policy public denies).
 *
 * Neither end asks for hardware addresses (ARP): they are chosen here, and each end is told the
 * other's. The machine has one table of neighbours for all its network namespaces
 * (net.ipv4.neigh.default.gc_thresh3, 1024 entries), and whoever may ask fills it with what does
 * not answer: MSG_DONTROUTE and IP_PKTINFO make any address one of the own link's.
 */
#define VETH_PREFIX "husk"
#define VETH_NETWORK 0x647f0000u /* 100.127.0.0/16, host order */
#define VETH_NETWORK_BITS 16
#define VETH_GATEWAY 0x647ffffeu

/* The pair of a slot, the far end in init's network namespace; both ends addressed and up, with a
 * default route inside and IPv6 off. A pair that was there already is replaced. */
int veth_make(int slot, pid_t init, struct err *err);
void veth_remove(int slot);
/* Removes the links of our name whose slot nobody holds. */
void veth_sweep(bool (*taken)(void *ctx, int slot), void *ctx);

#endif
