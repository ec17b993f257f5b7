/* SPDX-License-Identifier: MIT */
#include "base/acl.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/xattr.h>

#define ACL_VERSION 2
#define ACL_NO_ID 0xffffffffu

enum {
    TAG_USER_OBJ = 0x01,
    TAG_USER = 0x02,
    TAG_GROUP_OBJ = 0x04,
    TAG_MASK = 0x10,
    TAG_OTHER = 0x20
};

#define HEAD_SIZE 4
#define ENTRY_SIZE 8
#define ENTRIES_MAX (4 + ACL_USERS_MAX)

static uint8_t *
put_entry(uint8_t *p, uint16_t tag, uint16_t perm, uint32_t id)
{
    tag = htole16(tag);
    perm = htole16(perm);
    id = htole32(id);
    memcpy(p, &tag, 2);
    memcpy(p + 2, &perm, 2);
    memcpy(p + 4, &id, 4);
    return p + ENTRY_SIZE;
}

int
acl_set(int fd, enum acl_kind kind, const uid_t *users, size_t n_users, bool group)
{
    uint8_t raw[HEAD_SIZE + ENTRIES_MAX * ENTRY_SIZE];
    uint32_t version = htole32(ACL_VERSION);
    uint8_t *p = raw + HEAD_SIZE;

    if (n_users > ACL_USERS_MAX) {
        errno = E2BIG;
        return -1;
    }
    memcpy(raw, &version, HEAD_SIZE);
    /* In the order the kernel demands: by tag, then by id. */
    p = put_entry(p, TAG_USER_OBJ, 7, ACL_NO_ID);
    for (size_t i = 0; i < n_users; i++)
        p = put_entry(p, TAG_USER, 7, users[i]);
    p = put_entry(p, TAG_GROUP_OBJ, group ? 7 : 0, ACL_NO_ID);
    p = put_entry(p, TAG_MASK, 7, ACL_NO_ID);
    p = put_entry(p, TAG_OTHER, 0, ACL_NO_ID);
    return fsetxattr(fd,
                     kind == ACL_INHERITED ? "system.posix_acl_default" : "system.posix_acl_access",
                     raw, (size_t)(p - raw), 0);
}

int
acl_set_default_group(int dir_fd, struct err *err)
{
    if (acl_set(dir_fd, ACL_INHERITED, NULL, 0, true) == 0 || errno == EOPNOTSUPP)
        return 0;
    return err_sys(err, ERR_INTERNAL, errno, "setting a default ACL");
}
