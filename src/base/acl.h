/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_ACL_H
#define HUSK_BASE_ACL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * POSIX ACLs.  Spec: the kernel's include/uapi/linux/posix_acl_xattr.h (little endian, version 2).
 */
enum acl_kind {
    ACL_OF_ITSELF,
    ACL_INHERITED /* a folder's: whatever is made in it gets this in place of the maker's umask */
};
#define ACL_USERS_MAX 4

/* Gives the owner, these users (ascending ids) and, where `group` says so, the group everything,
 * others nothing. 0; -1 with errno (EOPNOTSUPP: the file system has no ACLs). */
int acl_set(int fd, enum acl_kind kind, const uid_t *users, size_t n_users, bool group);

/* The inherited one for owner and group; a file system without ACLs is left as it is. */
int acl_set_default_group(int dir_fd, struct err *err);

#endif
