/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_ACL_H
#define HUSK_WORKSPACE_ACL_H

#include "base/err.h"

/*
 * Gives a folder the default ACL user::rwx group::rwx mask::rwx other::---, which whatever is made
 * in it inherits in place of the maker's umask.  A file system without ACLs is left as it is.
 * Spec: the kernel's include/uapi/linux/posix_acl_xattr.h (little endian, version 2).
 */
int acl_set_default_group(int dir_fd, struct err *err);

#endif
