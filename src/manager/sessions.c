/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <stdlib.h>
#include <string.h>

#include "manager/internal.h"
#include "store/session_store.h"

/* The caller's live session: one past its TTL is none. */
static int
live(struct manager *m, const struct caller *c, const char *name, struct session *ret,
     struct err *err)
{
    if (session_resolve(m, c, name, ret, err) < 0)
        return -1;
    if (!session_expired(m, ret))
        return 0;
    session_done(ret);
    return err_slug(err, ERR_NOT_FOUND, "session_not_found", "there is no such session");
}

int
manager_get(struct manager *m, const struct caller *c, const char *name, bool tell,
            struct session *ret, struct err *err)
{
    if (live(m, c, name, ret, err) < 0)
        return -1;
    if (tell && ret->state_lost) {
        /* Of two that look at the same time only one is told. */
        int r = session_store_take_state_lost(m->db, ret->sid, err);

        if (r < 0) {
            session_done(ret);
            return -1;
        }
        ret->state_lost = r > 0;
    }
    session_derive(m, ret);
    return 0;
}

/* Leaves out of the list those that are gone for every caller; how many are left. */
static size_t
keep_live(struct manager *m, struct session *list, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (session_expired(m, &list[i])) {
            session_done(&list[i]);
            continue;
        }
        session_derive(m, &list[i]);
        if (kept != i)
            list[kept] = list[i];
        kept++;
    }
    return kept;
}

int
manager_list(struct manager *m, const struct caller *c, const struct session_filter *f,
             struct session **ret, size_t *ret_n, bool *ret_more, struct err *err)
{
    struct session_query q = {.owner = caller_owner(c),
                              .state = f->state,
                              .label_key = f->label_key,
                              .label_value = f->label_value,
                              .after_created = f->after_sid_created,
                              .after_sid = f->after_sid,
                              .limit = f->limit};
    struct session *list = NULL;
    size_t n = 0;
    bool more = false;

    for (;;) {
        if (session_store_list(m->db, &q, &list, &n, &more, err) < 0)
            return -1;
        if (n > 0) {
            q.after_created = list[n - 1].created_at;
            q.after_sid = list[n - 1].sid;
        }
        n = keep_live(m, list, n);
        if (n > 0 || !more)
            break;
        free(list); /* none is left of this page, and an empty one would look like the last */
    }
    *ret = list;
    *ret_n = n;
    *ret_more = more;
    return 0;
}

int
manager_patch(struct manager *m, const struct caller *c, const char *name, bool has_ttl,
              int64_t ttl_ms, const char *labels, struct session *ret, struct err *err)
{
    struct session s = {0};
    int r;

    if (live(m, c, name, &s, err) < 0)
        return -1;
    if (s.state == SESSION_CLOSING) {
        session_done(&s);
        return err_slug(err, ERR_CONFLICT, "session_closing", "the session is being closed");
    }
    r = session_store_patch(m->db, s.sid, has_ttl ? manager_clamp_ttl(m, ttl_ms) : -1, labels, ret,
                            err);
    session_done(&s);
    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "session_not_found", "there is no such session");
    if (r < 0)
        return -1;
    session_derive(m, ret);
    return 0;
}
