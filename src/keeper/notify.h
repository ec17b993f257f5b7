/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_NOTIFY_H
#define HUSK_KEEPER_NOTIFY_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <seccomp.h>
#include <sys/types.h>

/*
 * Policy public where the keeper may not make network devices: the calls that name an address are
 * held by seccomp and told to a supervisor, which copies the address once, looks at the copy, makes
 * the call itself on a duplicate of the caller's socket and hands its result back.  Nothing is ever
 * let through to the kernel as the caller wrote it, so there is no moment to change it in.
 *
 * Refused with EPERM: denied addresses and the host's own, listening and binding on the network
 * (but for bind to the wildcard and port 0), abstract names of unix sockets, ancillary data other
 * than descriptors on a unix socket.
 */

/* Adds the supervised calls and what would go round them to a sandbox's filter, whose default is to
 * allow. 0, or a negative errno as libseccomp returns it. */
int notify_rules(scmp_filter_ctx filter);

/* Tries on a child what a supervisor has to do. ERR_UNAVAILABLE says what the machine refuses;
 * ERR_INVALID: the resolver is no address. */
int notify_prepare(const struct keeper_options *o, struct err *err);

/* See egress_supervise(). */
pid_t notify_supervise(const struct keeper_options *o, uid_t uid, const char *home, int notify_fd,
                       struct err *err);

#endif
