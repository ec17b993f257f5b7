/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "manager/internal.h"
#include "store/session_store.h"

/* The directory, made anew if the session's code removed it. */
static int
open_workspace(struct manager *m, int64_t workspace_id, struct workspace *ret, struct err *err)
{
    struct err first = ERR_INIT;

    if (workspace_open(m->o.workspaces_dir, workspace_id, ret, &first) == 0)
        return 0;
    if (first.code != ERR_NOT_FOUND) {
        if (err)
            *err = first;
        return -1;
    }
    if (workspace_create(m->o.workspaces_dir, workspace_id, NULL, err) < 0)
        return -1;
    return workspace_open(m->o.workspaces_dir, workspace_id, ret, err);
}

int
manager_files_begin(struct manager *m, const struct caller *c, const char *name,
                    struct file_lease *ret, struct err *err)
{
    struct wait w = {.d = deadline_in(m->o.start_timeout_ms)};
    struct session s = {0};
    int64_t *held;

    if (hold_take(m, c, name, &w, &s, err) < 0)
        return -1;
    ret->ws.root_fd = -1;
    if (open_workspace(m, s.workspace_id, &ret->ws, err) < 0) {
        hold_leave(m, s.sid);
        session_done(&s);
        return -1;
    }
    held = xcalloc(1, sizeof *held);
    *held = s.sid;
    session_derive(m, &s);
    ret->session = s;
    ret->hold = held;
    return 0;
}

void
manager_files_end(struct manager *m, struct file_lease *l, bool worked)
{
    struct err err = ERR_INIT;
    struct db_now now = manager_now(m);
    int64_t *held = l->hold;

    if (!held)
        return;
    workspace_close(&l->ws);
    /* First the row, then the lock: nobody may find it free and expired in between. */
    if (worked && session_store_touch(m->db, *held, &now, NULL, &err) < 0)
        log_warning("the session's idle clock was not set: %s", err.msg);
    hold_leave(m, *held);
    free(held);
    l->hold = NULL;
    session_done(&l->session);
}
