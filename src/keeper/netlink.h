/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_NETLINK_H
#define HUSK_KEEPER_NETLINK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct mnl_socket;
struct nlmsghdr;

/* Room for one message of ours, and for one answer of the kernel's. */
#define NETLINK_MESSAGE_MAX 8192
#define NETLINK_BUFFER(name) char name[NETLINK_MESSAGE_MAX] __attribute__((aligned(8)))

/* One request after another on one netlink socket; no answer is waited for longer than 5 s. */
struct netlink {
    struct mnl_socket *socket;
    uint32_t seq;
};

/* bus: NETLINK_ROUTE, NETLINK_NETFILTER. The socket belongs to the network namespace the caller is
 * in now, whichever that is later. */
int netlink_open(struct netlink *ret, int bus, struct err *err);
void netlink_close(struct netlink *n); /* also one that was never opened, if zeroed */

/* Starts a request in buf (NETLINK_MESSAGE_MAX bytes): type, flags besides NLM_F_REQUEST, and a
 * family header of extra bytes, zeroed; *ret_extra points at it. */
struct nlmsghdr *netlink_begin(struct netlink *n, char *buf, uint16_t type, uint16_t flags,
                               size_t extra, void **ret_extra);
/* Sends one message and waits for its acknowledgement (NLM_F_ACK must be set), or for the end of
 * its dump. Each message that comes before is shown to cb (may be NULL). 0, or -1 with the kernel's
 * errno, or ETIMEDOUT. */
int netlink_ask(struct netlink *n, const struct nlmsghdr *m,
                void (*cb)(const struct nlmsghdr *m, void *ctx), void *ctx);
/* Sends a run of messages of which `acks` ask for an acknowledgement, waits for all of them. 0, or
 * -1 with the errno of the first that was refused. */
int netlink_batch(struct netlink *n, const void *messages, size_t len, unsigned acks);

/* How the kernel would route to an address: RTN_UNICAST, RTN_LOCAL, …; -1 with errno when it has
 * no route. AF_INET and AF_INET6 only; v4-mapped addresses must have been unmapped. */
int netlink_route_type(struct netlink *n, const struct sockaddr *to);

#endif
