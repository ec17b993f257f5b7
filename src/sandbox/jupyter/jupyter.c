/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/jupyter.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/jupyter/transfer.h"

#define CLEAN_UP_MS 8000 /* to end a kernel that did not come up, whatever the deadline said */
#define STARTS_MAX 2
/* Of a run nobody waits for: as at a deadline, a second interrupt, and when it is taken to ignore
 * them. */
#define STUBBORN_AGAIN_MS 2000
#define STUBBORN_MS 5000
#define STUBBORN_LOOK_MS 100

static struct jupyter *
of(struct sandbox *sb)
{
    return (struct jupyter *)sb;
}

enum hook_verdict
jupyter_turn(struct jupyter *j, const struct exec_hooks *hooks, int max_ms)
{
    /* curl's descriptors are its own: look at a call under way every few milliseconds. */
    if (gateway_pending(j->gateway) != CALL_NONE && max_ms > 10)
        max_ms = 10;
    return turn_wait(&j->turn, j->pool, hooks, max_ms);
}

/* A kernel that answers, or -1 with nothing left (ERR_UNCERTAIN: ret->handle may live). */
static int
start_one(struct jupyter *j, struct runtime_made *ret, struct deadline d, struct err *err)
{
    struct runtime_ref rt = {.handle = ret->handle};
    struct channel *c = NULL;
    struct err why = ERR_INIT;

    if (gateway_start(j->gateway, ret->handle, d, err) < 0) {
        ret->handle[0] = '\0';
        return -1;
    }
    if (jupyter_attach(j, &rt, NULL, d, &c, err) == 0) {
        (void)snprintf(ret->kernel_session, sizeof ret->kernel_session, "%s", c->kernel_session);
        kept_put(&j->kept, c);
        return 0;
    }
    if (gateway_delete(j->gateway, ret->handle, deadline_in(CLEAN_UP_MS), &why) == 0)
        return -1;
    if (err != NULL)
        *err = why;
    return -1;
}

static int
op_open(struct sandbox *sb, const char *key, struct runtime_made *ret, struct deadline d,
        struct err *err)
{
    struct jupyter *j = of(sb);
    struct err why = ERR_INIT;

    (void)key; /* a kernel is anonymous until it is bound */
    d = deadline_min(d, deadline_in(j->o.start_timeout_ms));
    for (int i = 0; i < STARTS_MAX; i++) {
        memset(ret, 0, sizeof *ret);
        why = (struct err)ERR_INIT;
        if (start_one(j, ret, d, &why) == 0)
            return 0;
        if (why.code != ERR_CONFLICT || deadline_passed(d))
            break; /* only a kernel that died while it started is worth another */
    }
    if (why.code == ERR_CONFLICT)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error", "no kernel came up: %s", why.msg);
    if (err != NULL)
        *err = why;
    return -1;
}

static int
op_interrupt(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, struct err *err)
{
    struct gateway *g = of(sb)->gateway;
    int64_t began_ms = clock_mono_ms(), waited_ms;
    bool again = false;

    if (gateway_interrupt(g, rt->handle, d, err) < 0)
        return -1;
    for (;;) {
        int busy = gateway_busy(g, rt->handle, d, err);

        waited_ms = clock_mono_ms() - began_ms;
        if (busy <= 0)
            return busy;
        if (waited_ms >= STUBBORN_MS || deadline_passed(d))
            return err_set(err, ERR_TIMEOUT, "kernel %s ignores interrupts", rt->handle);
        if (!again && waited_ms >= STUBBORN_AGAIN_MS) {
            again = true;
            if (gateway_interrupt(g, rt->handle, d, err) < 0)
                return -1;
        }
        (void)poll(NULL, 0, STUBBORN_LOOK_MS);
    }
}

static int
op_close(struct sandbox *sb, const char *handle, struct deadline d, struct err *err)
{
    kept_drop(&of(sb)->kept, handle);
    return gateway_delete(of(sb)->gateway, handle, d, err);
}

static int
op_alive(struct sandbox *sb, const char *handle, struct deadline d, enum alive *ret,
         struct err *err)
{
    return gateway_alive(of(sb)->gateway, handle, d, ret, err);
}

static int
op_list(struct sandbox *sb, sandbox_list_cb cb, void *ctx, struct deadline d, struct err *err)
{
    return gateway_list(of(sb)->gateway, cb, ctx, d, err);
}

static int
op_ping(struct sandbox *sb, struct deadline d, struct err *err)
{
    return gateway_ping(of(sb)->gateway, d, err);
}

static int
op_warm(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, struct err *err)
{
    struct jupyter *j = of(sb);
    struct channel *c;

    /* A session's channel is worth more than one that perhaps nobody needs. */
    if (!kept_room(&j->kept))
        return err_set(err, ERR_LIMIT, "no further channel can be kept");
    if (jupyter_attach(j, rt, NULL, d, &c, err) < 0)
        return -1;
    c->warm = true;
    kept_put(&j->kept, c);
    return 0;
}

static int
op_idle_fds(struct sandbox *sb, struct pollfd *fds, int max)
{
    return kept_fds(&of(sb)->kept, fds, max);
}

static void
op_idle(struct sandbox *sb)
{
    kept_service(&of(sb)->kept);
}

static void
op_forget(struct sandbox *sb, const char *handle)
{
    kept_drop(&of(sb)->kept, handle);
}

static void
op_free(struct sandbox *sb)
{
    struct jupyter *j = of(sb);

    if (sb == NULL)
        return;
    kept_drop(&j->kept, NULL);
    ws_pool_free(j->pool);
    gateway_free(j->gateway);
    free(j);
}

static const struct sandbox_ops OPS = {.name = "jupyter",
                                       .open = op_open,
                                       .bind = jupyter_bind,
                                       .exec = jupyter_exec,
                                       .interrupt = op_interrupt,
                                       .close = op_close,
                                       .alive = op_alive,
                                       .list = op_list,
                                       .ping = op_ping,
                                       .put_file = transfer_put,
                                       .get_file = transfer_get,
                                       .stat_path = transfer_stat,
                                       .list_files = transfer_list,
                                       .remove_path = transfer_remove,
                                       .warm = op_warm,
                                       .idle_fds = op_idle_fds,
                                       .idle = op_idle,
                                       .forget = op_forget,
                                       .free = op_free};

int
jupyter_new(const struct sandbox_options *o, struct sandbox **ret, struct err *err)
{
    struct jupyter *j = xcalloc(1, sizeof *j);

    j->base.ops = &OPS;
    j->base.files = o->transfer_kernel ? FILES_IN_RUNTIME : FILES_IN_WORKSPACE;
    j->o = *o;
    if (gateway_new(o, &j->gateway, err) < 0 ||
        ws_pool_new(o->gateway_ca_file, &j->pool, err) < 0) {
        op_free(&j->base);
        return -1;
    }
    j->kept.pool = j->pool;
    j->kept.max = o->keep_channels < 0          ? 0
                  : o->keep_channels > KEPT_MAX ? KEPT_MAX
                                                : o->keep_channels;
    *ret = &j->base;
    return 0;
}
