/* SPDX-License-Identifier: MIT */
#include "workspace/place.h"

#include "workspace/keeper_client.h"

int
place_create(const struct workspace_place *p, int64_t workspace_id, bool *ret_existed,
             struct err *err)
{
    if (p->keeper)
        return keeper_make(p->keeper, workspace_id, ret_existed, err);
    return workspace_create(p->dir, workspace_id, ret_existed, err);
}

int
place_open(const struct workspace_place *p, int64_t workspace_id, struct workspace *ret,
           struct err *err)
{
    if (p->keeper)
        return keeper_root(p->keeper, workspace_id, &ret->root_fd, err);
    return workspace_open(p->dir, workspace_id, ret, err);
}

int
place_remove(const struct workspace_place *p, int64_t workspace_id, struct err *err)
{
    struct workspace ws;

    if (p->keeper && keeper_remove(p->keeper, workspace_id, err) < 0)
        return -1;
    if (p->keeper) { /* it may be from before there was a keeper */
        if (workspace_open(p->dir, workspace_id, &ws, NULL) < 0)
            return 0;
        workspace_close(&ws);
    }
    return workspace_remove(p->dir, workspace_id, err);
}

int
place_usage(const struct workspace_place *p, int64_t workspace_id, int64_t max_entries,
            int64_t *ret_bytes, struct err *err)
{
    struct workspace ws = {.root_fd = -1};
    int rc;

    if (p->keeper)
        return keeper_usage(p->keeper, workspace_id, ret_bytes, err);
    if (workspace_open(p->dir, workspace_id, &ws, err) < 0)
        return -1;
    rc = workspace_usage(&ws, max_entries, ret_bytes, err);
    workspace_close(&ws);
    return rc;
}
