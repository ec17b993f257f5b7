/* SPDX-License-Identifier: MIT */
#include "manager/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "store/pool_store.h"

/*
 * The warm pool: kernels started before they are wanted, one at a time and only while nobody waits
 * for a start of its own.  A kernel belongs to whoever deleted its row; whoever is killed after
 * that leaves a kernel that no row knows, which the sweep ends as an orphan, or one that its
 * session's row in state starting names, which ends with that row.
 */
#define ROWS_MAX (2 * POOL_MAX) /* what an earlier setting left is seen too */
#define PAUSE_MS 2000           /* after a start that failed; doubling */
#define PAUSE_MAX_MS 60000
/* A start takes a core for as long as it lasts: of each five such times at most one is used, but
 * where starts are slow the pool must be filled all the same. */
#define PACE 4
#define PACE_MAX_MS 3000

static struct pool_kind
kind(struct manager *m)
{
    const struct backend_slot *b = manager_pool_backend(m);

    return (struct pool_kind){.backend = b ? b->name : "",
                              .kernel_name = m->o.pool_kind             ? m->o.pool_kind
                                             : m->o.sandbox.kernel_name ? m->o.sandbox.kernel_name
                                                                        : "",
                              .max_age_ms = m->o.pool_max_age_ms};
}

int
pool_claim(struct manager *m, const struct session *s, bool unbound, struct runtime_made *ret,
           struct err *err)
{
    struct pool_kind k = kind(m);
    struct db_now now = manager_now(m);
    struct pool_row row;
    int r;

    if (m->o.pool_size <= 0 || strcmp(s->backend, k.backend) != 0)
        return 0;
    r = pool_store_claim(m->db, &k, s->sid, s->generation, unbound, &now, &row, err);
    if (r > 0) {
        memcpy(ret->handle, row.handle, sizeof row.handle);
        memcpy(ret->kernel_session, row.kernel_session, sizeof row.kernel_session);
    }
    return r;
}

int
manager_pooled(struct manager *m, struct manager_pooled *ret, int max, struct err *err)
{
    const struct backend_slot *b = manager_pool_backend(m);
    struct pool_row rows[POOL_MAX];
    struct pool_kind k = kind(m);
    struct db_now now = manager_now(m);
    int n = 0, all;

    if (m->o.pool_size <= 0 || !b || !b->sb->ops->warm)
        return 0;
    all = pool_store_list(m->db, &k, &now, rows, POOL_MAX, err);
    for (int i = 0; i < all && n < max; i++) {
        if (!rows[i].fit)
            continue;
        memcpy(ret[n].handle, rows[i].handle, sizeof ret[n].handle);
        memcpy(ret[n].kernel_session, rows[i].kernel_session, sizeof ret[n].kernel_session);
        n++;
    }
    return all < 0 ? -1 : n;
}

int
manager_warm(struct manager *m, const struct manager_pooled *p, struct deadline d, struct err *err)
{
    const struct runtime_ref rt = {.handle = p->handle, .kernel_session = p->kernel_session};
    struct sandbox *sb = manager_pool_backend(m)->sb;

    return sb->ops->warm(sb, &rt, d, err);
}

/* Why one of the pool must go; NULL: it stays. *ret_known is cleared when the backend does not say
 * whether it lives. */
static const char *
fault(struct manager *m, const struct pool_row *row, bool surplus, bool *ret_known)
{
    struct err err = ERR_INIT;
    enum alive alive = ALIVE_UNKNOWN;
    struct sandbox *sb = NULL;

    if (!row->fit)
        return "is too old or of another kind";
    if (surplus)
        return "is one too many";
    if (manager_backend(m, row->backend, &sb, &err) == 0 && isolation_dead(m, sb, row->handle))
        return "has died";
    if (!*ret_known)
        return NULL;
    if (!sb || sb->ops->alive(sb, row->handle, manager_end_deadline(m), &alive, &err) < 0)
        alive = ALIVE_UNKNOWN;
    *ret_known = alive != ALIVE_UNKNOWN;
    return alive == ALIVE_NO ? "has died" : NULL;
}

void
pool_check(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct pool_row rows[ROWS_MAX];
    struct pool_kind k = kind(m);
    struct db_now now = manager_now(m);
    struct err err = ERR_INIT;
    int n = pool_store_list(m->db, &k, &now, rows, ROWS_MAX, &err);
    bool known = true;
    int64_t left = n;

    if (n < 0)
        log_warning("the pool could not be looked at: %s", err.msg);
    for (int i = 0; i < n && !sweep_over(m, d); i++) {
        const char *why = fault(m, &rows[i], left > m->o.pool_size, &known);

        if (!why)
            continue;
        left--;
        /* Somebody may have claimed it meanwhile: then it is not ours to end. */
        if (pool_store_take(m->db, rows[i].handle, &err) <= 0)
            continue;
        log_info("pooled kernel %s %s: it is ended", rows[i].handle, why);
        (void)runtime_end(m, rows[i].backend, rows[i].handle);
        r->pool_ended++;
    }
}

/* 1 one more is there, 0 it was not wanted after all, -1. */
static int
start_one(struct manager *m, struct deadline d, struct err *err)
{
    struct sandbox *sb = manager_pool_backend(m)->sb;
    struct pool_kind k = kind(m);
    struct runtime_made made = {.handle = ""};
    struct db_now now;
    int r;

    d = deadline_min(d, deadline_in(m->o.start_timeout_ms));
    if ((isolation_kept(m, sb) && isolation_check(m, false, err) < 0) ||
        sb->ops->open(sb, NULL, &made, d, err) < 0)
        return -1;
    now = manager_now(m);
    r = pool_store_put(m->db, &k, m->o.pool_size, made.handle, made.kernel_session, &now, err);
    if (r <= 0)
        (void)runtime_end(m, k.backend, made.handle);
    return r;
}

/* After a start: the pause that leaves the machine to the sessions. */
static void
pace(struct manager *m, int64_t took_ms)
{
    int64_t pause_ms = PACE * took_ms;

    m->pool_pause_ms = 0;
    m->pool_next_ms = clock_mono_ms() + (pause_ms < PACE_MAX_MS ? pause_ms : PACE_MAX_MS);
}

static void
back_off(struct manager *m)
{
    m->pool_pause_ms = m->pool_pause_ms == 0 ? PAUSE_MS : m->pool_pause_ms * 2;
    if (m->pool_pause_ms > PAUSE_MAX_MS)
        m->pool_pause_ms = PAUSE_MAX_MS;
    m->pool_next_ms = clock_mono_ms() + m->pool_pause_ms;
}

int
manager_refill(struct manager *m, struct deadline d, bool gently, int64_t *ret_again_ms,
               struct err *err)
{
    int64_t began = clock_mono_ms();
    int r;

    *ret_again_ms = -1;
    if (m->o.pool_size <= 0 || !manager_pool_backend(m))
        return 0;
    if (began < m->pool_next_ms) {
        *ret_again_ms = m->pool_next_ms - began;
        return 0;
    }
    r = lock_try_exclusive(m->lock_fd, LOCK_POOL);
    if (r < 0)
        return err_set(err, ERR_INTERNAL, "the lock file cannot be locked");
    if (r == 0)
        return 0;
    r = pool_store_wanted(m->db, m->o.pool_size, clock_wall_ms() - m->o.start_timeout_ms, err);
    if (r > 0)
        r = start_one(m, d, err);
    (void)lock_release(m->lock_fd, LOCK_POOL);
    if (r < 0) {
        back_off(m);
        return -1;
    }
    if (r == 0)
        return 0;
    pace(m, gently ? clock_mono_ms() - began : 0);
    *ret_again_ms = 0;
    return 0;
}
