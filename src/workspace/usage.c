/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include "base/walk.h"
#include "workspace/beneath.h"

int
workspace_usage(const struct workspace *w, int64_t max_entries, int64_t *ret_bytes, struct err *err)
{
    int64_t bytes = 0;

    if (workspace_walk(w->root_fd, "", max_entries, DEADLINE_NEVER, walk_add_usage, &bytes, err) <
        0)
        return -1;
    *ret_bytes = bytes;
    return 0;
}
