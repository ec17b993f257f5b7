/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <string.h>

#include "base/lock.h"
#include "manager/internal.h"
#include "store/execution_store.h"
#include "store/session_store.h"

static int
found(int r, struct err *err)
{
    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "execution_not_found", "there is no such execution");
    return r < 0 ? -1 : 0;
}

int
manager_execution_get(struct manager *m, const struct caller *c, const char *eid,
                      struct execution *ret, struct err *err)
{
    return found(execution_store_get(m->db, caller_owner(c), eid, ret, err), err);
}

int
manager_execution_by_request(struct manager *m, const struct caller *c, const char *request_id,
                             struct execution *ret, struct err *err)
{
    return found(execution_store_by_request(m->db, caller_owner(c), request_id, ret, err), err);
}

/* Whose history is asked for: the caller's own, else (an admin) that of whoever has the name. */
static int
history_owner(struct manager *m, const struct caller *c, const char *name, char ret[OWNER_MAX + 1],
              struct err *err)
{
    struct session s = {0};
    int r = execution_store_session_known(m->db, c->owner, name, err);

    if (r > 0) {
        memcpy(ret, c->owner, OWNER_MAX + 1);
        return 0;
    }
    if (r == 0 && c->admin)
        r = session_store_find_any_owner(m->db, name, &s, err);
    if (r < 0)
        return -1;
    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "session_not_found", "there is no such session");
    memcpy(ret, s.owner, sizeof s.owner);
    session_done(&s);
    return 0;
}

int
manager_executions(struct manager *m, const struct caller *c, const char *session_name,
                   int64_t after_created, const char *after_eid, int limit, struct execution **ret,
                   size_t *ret_n, bool *ret_more, struct err *err)
{
    char owner[OWNER_MAX + 1];
    struct execution_query q = {.owner = owner,
                                .session_name = session_name,
                                .after_created = after_created,
                                .after_eid = after_eid ? after_eid : "",
                                .limit = limit};

    if (history_owner(m, c, session_name, owner, err) < 0)
        return -1;
    return execution_store_list(m->db, &q, ret, ret_n, ret_more, err);
}

int
manager_execution_settle(struct manager *m, struct execution *e, struct err *err)
{
    struct session s = {0};
    bool alive = false;
    int r;

    if (e->reason != REASON_NONE)
        return 0;
    if (settle_if_dead(m, e->sid, &alive, err) < 0)
        return -1;
    r = session_store_by_sid(m->db, e->sid, &s, err);
    if (r < 0)
        return -1;
    /* Its session is gone or went on without it: nobody will ever end it. */
    if (r == 0 || strcmp(s.busy_execution, e->eid) != 0)
        r = settle_execution(m, e->eid, err);
    session_done(&s);
    if (r < 0)
        return -1;
    return found(execution_store_get(m->db, NULL, e->eid, e, err), err);
}
