/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_PRIV_H
#define HUSK_BASE_PRIV_H

#include "base/err.h"

#include <sys/types.h>

struct priv_ids {
    uid_t uid;
    gid_t gid;
    gid_t groups[16];
    int n_groups;
};

/* Looks a user and its groups up. ERR_NOT_FOUND names it. */
int priv_lookup(const char *user, struct priv_ids *ret, struct err *err);

/* A group's id by its name: 1 found, 0 there is none, -1 it cannot be looked up. */
int priv_lookup_group(const char *group, gid_t *ret, struct err *err);

/* gid, groups, uid for good, then proves that root cannot be had back. Does nothing when already
 * running as that uid. */
int priv_drop(const struct priv_ids *ids, struct err *err);

/* Root becomes, for good, the user that a folder belongs to, so that what it makes there is that
 * user's; any other user, and root where the folder is root's or not there, stays as it is. */
int priv_become_owner(const char *folder, struct err *err);

#endif
