/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "spool/spool.h"
#include "store/execution_store.h"
#include "store/runtime_store.h"
#include "store/session_store.h"

#define REBOOT_MAX 1024

/* Its worker had come as far as saying how it ended: readers have seen that. */
static int
end_as_said(struct manager *m, const char *eid, const struct spool_end *e, struct err *err)
{
    struct execution row = {.ended_at = e->ended_at,
                            .duration_ms = e->duration_ms,
                            .ok = e->ok,
                            .reason = e->reason,
                            .bytes_stdout = e->bytes_stdout,
                            .bytes_stderr = e->bytes_stderr,
                            .bytes_rich = e->bytes_rich,
                            .truncated = e->truncated,
                            .runtime_invalidated = e->runtime_invalidated};
    struct db_now now = manager_now(m);

    memcpy(row.eid, eid, strnlen(eid, sizeof row.eid - 1));
    memcpy(row.error_name, e->error_name, sizeof row.error_name);
    /* Code that ran had its directory. */
    bool bound = e->reason == REASON_COMPLETED || e->reason == REASON_EXCEPTION;
    return execution_store_finish(
        m->db, &row, (e->state_lost_told ? FINISH_TELLS_LOST : 0U) | (bound ? FINISH_BOUND : 0U),
        &now, NULL, err);
}

int
settle_execution(struct manager *m, const char *eid, struct err *err)
{
    struct spool_end end;
    struct db_now now;

    if (spool_get_end(m->o.spool_dir, eid, &end, NULL) == 0)
        return end_as_said(m, eid, &end, err);
    now = manager_now(m);
    return execution_store_abort(m->db, eid, &now, err);
}

void
settle_before_reboot(struct manager *m)
{
    struct execution_id ids[REBOOT_MAX];
    struct err err = ERR_INIT;
    int n = execution_store_unfinished(m->db, false, ids, REBOOT_MAX, &err);

    for (int i = 0; i < n; i++) {
        struct spool_end end;

        if (spool_get_end(m->o.spool_dir, ids[i].eid, &end, NULL) == 0 &&
            end_as_said(m, ids[i].eid, &end, &err) < 0)
            n = -1;
    }
    if (n < 0)
        log_warning("executions from before the machine's restart: %s", err.msg);
}

/* What only ends with the runtime would keep it from any other code. */
static void
end_stubborn(struct manager *m, const struct session *s)
{
    struct err err = ERR_INIT;
    struct runtime_drop_args a = {.sid = s->sid,
                                  .generation = s->generation,
                                  .ended = runtime_end(m, s->backend, s->handle),
                                  .lost = 1,
                                  .now = manager_now(m)};

    if (runtime_store_drop(m->db, &a, &err) < 0)
        log_warning("a runtime that must go is left to the next call: %s", err.msg);
}

struct deadline
interrupt_deadline(const struct manager *m)
{
    return deadline_in(INTERRUPT_MS + m->o.sandbox.http_timeout_ms);
}

int
settle_unfinished(struct manager *m, const struct session *s, struct err *err)
{
    const struct runtime_ref ref = {.handle = s->handle, .kernel_session = s->kernel_session};
    struct sandbox *sb = NULL;
    struct err ierr = ERR_INIT;
    struct spool_end end;

    if (!s->busy_execution[0])
        return 0;
    if (spool_get_end(m->o.spool_dir, s->busy_execution, &end, NULL) == 0)
        return end_as_said(m, s->busy_execution, &end, err);
    log_warning("execution %s was left behind by a process that died", s->busy_execution);
    manager_promise(m, INTERRUPT_MS + m->o.sandbox.http_timeout_ms * 3);
    if (s->handle[0] && (manager_backend(m, s->backend, &sb, &ierr) < 0 ||
                         sb->ops->interrupt(sb, &ref, interrupt_deadline(m), &ierr) < 0)) {
        log_warning("it could not be interrupted: %s", ierr.msg);
        if (ierr.code == ERR_TIMEOUT)
            end_stubborn(m, s);
    }
    return settle_execution(m, s->busy_execution, err);
}

int
settle_held(struct manager *m, struct session *s, struct err *err)
{
    struct sandbox *sb = NULL;

    if (manager_reread_usable(m, s, err) < 0 || manager_backend_of(m, s, &sb, err) < 0)
        return -1;
    if (!s->busy_execution[0])
        return 0;
    /* It may lose its runtime by that. */
    return settle_unfinished(m, s, err) < 0 ? -1 : manager_reread_usable(m, s, err);
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
