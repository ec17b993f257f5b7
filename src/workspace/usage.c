/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "workspace/beneath.h"

#define BLOCK 512 /* of st_blocks, whatever the file system's own is */

static enum walk_next
add_blocks(void *ctx, const struct walk_entry *e)
{
    int64_t *bytes = ctx;
    struct stat st;

    if (fstatat(e->dir_fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *bytes += (int64_t)st.st_blocks * BLOCK;
    return WALK_INTO;
}

int
workspace_usage(const struct workspace *w, int64_t max_entries, int64_t *ret_bytes, struct err *err)
{
    int64_t bytes = 0;

    if (workspace_walk(w->root_fd, "", max_entries, DEADLINE_NEVER, add_blocks, &bytes, err) < 0)
        return -1;
    *ret_bytes = bytes;
    return 0;
}
