/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "workspace/beneath.h"
#include "workspace/removal.h"

#define ENTRIES_MAX 1000000

struct tidying {
    const struct workspace *w;
    struct err *err;
    bool failed;
};

static enum walk_next
consider(void *ctx, const struct walk_entry *e)
{
    struct tidying *t = ctx;

    if (!beneath_own_name(e->name, strlen(e->name)))
        return e->d_type == DT_DIR ? WALK_INTO : WALK_ON;
    if (workspace_removal(t->w->root_fd, e->dir_fd, e->name, e->path, t->err) < 0)
        t->failed = true;
    return WALK_ON;
}

int
workspace_tidy(const struct workspace *w, struct deadline d, struct err *err)
{
    struct tidying t = {.w = w, .err = err};

    if (workspace_walk(w->root_fd, "", ENTRIES_MAX, d, consider, &t, err) < 0)
        return -1;
    return t.failed ? -1 : 0;
}
