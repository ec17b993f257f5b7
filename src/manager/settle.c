/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include "base/lock.h"
#include "base/log.h"
#include "store/execution_store.h"
#include "store/session_store.h"

int
settle_unfinished(struct manager *m, const struct session *s, struct err *err)
{
    struct sandbox *sb = NULL;
    struct err ierr = ERR_INIT;
    struct db_now now;

    if (!s->busy_execution[0])
        return 0;
    log_warning("execution %s was left behind by a process that died", s->busy_execution);
    manager_promise(m, m->o.sandbox.http_timeout_ms * 2);
    if (s->handle[0] && (manager_backend(m, s->backend, &sb, &ierr) < 0 ||
                         sb->ops->interrupt(sb, s->handle, manager_end_deadline(m), &ierr) < 0))
        log_warning("it could not be interrupted: %s", ierr.msg);
    now = manager_now(m);
    return execution_store_abort(m->db, s->busy_execution, &now, err);
}

int
settle_if_dead(struct manager *m, int64_t sid, bool *ret_alive, struct err *err)
{
    struct session s = {0};
    int r = lock_try_exclusive(m->lock_fd, sid | LOCK_HIGH);

    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    *ret_alive = r == 0;
    if (r == 0)
        return 0;
    r = session_store_by_sid(m->db, sid, &s, err);
    if (r > 0)
        r = settle_unfinished(m, &s, err);
    (void)lock_release(m->lock_fd, sid | LOCK_HIGH);
    session_done(&s);
    return r;
}
