/* SPDX-License-Identifier: MIT */
#include "workspace/acl.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/xattr.h>

#define ACL_XATTR "system.posix_acl_default"
#define ACL_VERSION 2
#define ACL_NO_ID 0xffffffffu

enum { TAG_USER_OBJ = 0x01, TAG_GROUP_OBJ = 0x04, TAG_MASK = 0x10, TAG_OTHER = 0x20 };

/* The entries in the order the kernel demands (by tag). */
static const struct {
    uint16_t tag, perm;
} entries[] = {{TAG_USER_OBJ, 7}, {TAG_GROUP_OBJ, 7}, {TAG_MASK, 7}, {TAG_OTHER, 0}};

#define N_ENTRIES (sizeof(entries) / sizeof(entries[0]))
#define ENTRY_SIZE 8

int
acl_set_default_group(int dir_fd, struct err *err)
{
    uint8_t raw[4 + N_ENTRIES * ENTRY_SIZE];
    uint32_t version = htole32(ACL_VERSION);
    uint32_t id = htole32(ACL_NO_ID);

    memcpy(raw, &version, 4);
    for (size_t i = 0; i < N_ENTRIES; i++) {
        uint16_t tag = htole16(entries[i].tag);
        uint16_t perm = htole16(entries[i].perm);
        uint8_t *p = raw + 4 + i * ENTRY_SIZE;

        memcpy(p, &tag, 2);
        memcpy(p + 2, &perm, 2);
        memcpy(p + 4, &id, 4);
    }
    if (fsetxattr(dir_fd, ACL_XATTR, raw, sizeof(raw), 0) == 0 || errno == EOPNOTSUPP)
        return 0;
    return err_sys(err, ERR_INTERNAL, errno, "setting a default ACL");
}
