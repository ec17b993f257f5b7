/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/daytona.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "sandbox/daytona/api.h"
#include "sandbox/daytona/toolbox.h"

#define API_ANSWER_MAX (8u * 1024 * 1024) /* a page of 200 boxes */
#define TOOLBOX_ANSWER_MAX                                                                         \
    (64u * 1024 * 1024) /* what a run without an interpreter printed, a list */
#define DISCARD_MAX 32
#define SOFTLY_MS 3000 /* for a run to end when it is interrupted */

static struct daytona *
of(struct sandbox *sb)
{
    return (struct daytona *)sb;
}

static int
op_bind(struct sandbox *sb, const struct runtime_ref *rt, const char *dir, struct deadline d,
        struct err *err)
{
    (void)sb, (void)rt, (void)dir, (void)d, (void)err;
    return 0; /* it was made for its session, in its own workspace */
}

/* A signal to the context's process, and then a word from it: code goes through a context one after
 * the other, so that the run is over when that comes. */
static bool
interrupt_softly(struct daytona *dt, const struct runtime_ref *rt, struct deadline d)
{
    _cleanup_buf_ struct buf body = BUF_INIT(200), answer = BUF_INIT(100);
    char command[60];
    struct context c;
    struct rest_reply r;
    struct err why = ERR_INIT;

    if (!context_parse(rt->kernel_session, &c) || c.pid <= 0)
        return false;
    (void)snprintf(command, sizeof command, "kill -INT %lld", (long long)c.pid);
    toolbox_command(&body, command);
    d = deadline_min(d, deadline_in(SOFTLY_MS));
    if (toolbox_ask(dt, rt->handle, "POST", "/process/execute", buf_str(&body), "interrupt a run",
                    d, &r, &why) == 0 &&
        api_judge(&r, "the sandbox", "interrupt a run", &why) == 0 &&
        daytona_probe(dt, rt->handle, c.id, "print(1)", &answer, d, &why) == 0)
        return true;
    log_info("sandbox %s: a run that nobody waits for is ended with its state: %s", rt->handle,
             why.msg);
    return false;
}

static int
op_interrupt(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, struct err *err)
{
    struct err why = ERR_INIT;

    if (interrupt_softly(of(sb), rt, d) || toolbox_contexts_end(of(sb), rt->handle, d, &why) == 0 ||
        why.code == ERR_CONFLICT)
        return 0;
    if (err != NULL)
        *err = why;
    return -1;
}

static int
op_close(struct sandbox *sb, const char *handle, struct deadline d, struct err *err)
{
    return api_delete(of(sb), handle, d, err);
}

static int
op_park(struct sandbox *sb, const char *handle, struct deadline d, struct err *err)
{
    return api_stop(of(sb), handle, d, err);
}

struct ids {
    int n;
    char id[DISCARD_MAX][HANDLE_MAX + 1];
};

static int
on_box(void *ctx, const struct box *b)
{
    struct ids *ids = ctx;

    memcpy(ids->id[ids->n++], b->id, sizeof b->id);
    return ids->n == DISCARD_MAX;
}

static int
op_discard(struct sandbox *sb, const char *key, struct deadline d, struct err *err)
{
    struct ids ids = {0};

    if (api_each(of(sb), key, on_box, &ids, d, err) < 0)
        return -1;
    for (int i = 0; i < ids.n; i++)
        if (api_delete(of(sb), ids.id[i], d, err) < 0)
            return -1;
    return 0;
}

static int
op_alive(struct sandbox *sb, const char *handle, struct deadline d, enum alive *ret,
         struct err *err)
{
    struct err why = ERR_INIT;
    struct box b;

    *ret = ALIVE_UNKNOWN;
    if (api_get(of(sb), handle, &b, d, &why) == 0)
        *ret = b.state == BOX_BROKEN || b.state == BOX_ENDED ? ALIVE_NO : ALIVE_YES;
    else if (why.code == ERR_NOT_FOUND)
        *ret = ALIVE_NO;
    if (*ret != ALIVE_UNKNOWN)
        return 0;
    if (err != NULL)
        *err = why;
    return -1;
}

struct listing {
    sandbox_list_cb cb;
    void *ctx;
};

static int
on_listed(void *ctx, const struct box *b)
{
    const struct listing *l = ctx;
    struct runtime_seen seen = {.handle = b->id,
                                .key = b->key[0] != '\0' ? b->key : NULL,
                                .running = b->state == BOX_STARTED};

    return l->cb(l->ctx, &seen);
}

static int
op_list(struct sandbox *sb, sandbox_list_cb cb, void *ctx, struct deadline d, struct err *err)
{
    struct listing l = {cb, ctx};

    return api_each(of(sb), NULL, on_listed, &l, d, err);
}

static int
op_ping(struct sandbox *sb, struct deadline d, struct err *err)
{
    return api_ping(of(sb), d, err);
}

static void
op_free(struct sandbox *sb)
{
    struct daytona *dt = of(sb);

    if (sb == NULL)
        return;
    ws_pool_free(dt->pool);
    rest_free(dt->api);
    rest_free(dt->toolbox);
    rest_free(dt->aside);
    free(dt->authorization);
    free(dt);
}

static const struct sandbox_ops OPS = {.name = "daytona",
                                       .open = daytona_open,
                                       .bind = op_bind,
                                       .exec = daytona_exec,
                                       .interrupt = op_interrupt,
                                       .close = op_close,
                                       .leave = daytona_leave,
                                       .park = op_park,
                                       .discard = op_discard,
                                       .alive = op_alive,
                                       .list = op_list,
                                       .ping = op_ping,
                                       .put_file = daytona_put,
                                       .get_file = daytona_get,
                                       .stat_path = daytona_stat,
                                       .list_files = daytona_list,
                                       .remove_path = daytona_remove,
                                       .free = op_free};

static int
make_clients(struct daytona *dt, struct err *err)
{
    const struct sandbox_options *o = &dt->o;
    size_t n = strlen(o->daytona_key) + sizeof "Bearer ";
    char organization[200] = "";
    struct rest_options ro = {
        .base_url = o->daytona_url, .ca_file = o->daytona_ca_file, .max_body = API_ANSWER_MAX};

    dt->authorization = xcalloc(1, n);
    (void)snprintf(dt->authorization, n, "Bearer %s", o->daytona_key);
    ro.authorization = dt->authorization;
    if (o->daytona_organization != NULL && o->daytona_organization[0] != '\0') {
        (void)snprintf(organization, sizeof organization, "X-Daytona-Organization-ID: %.128s",
                       o->daytona_organization);
        ro.header = organization;
    }
    if (rest_new(&ro, &dt->api, err) < 0)
        return -1;
    ro.header = NULL;
    ro.max_body = TOOLBOX_ANSWER_MAX;
    if (rest_new(&ro, &dt->toolbox, err) < 0 || rest_new(&ro, &dt->aside, err) < 0)
        return -1;
    return ws_pool_new(o->daytona_ca_file, &dt->pool, err);
}

int
daytona_new(const struct sandbox_options *o, struct sandbox **ret, struct err *err)
{
    struct daytona *dt;

    if (o->daytona_key == NULL || o->daytona_key[0] == '\0')
        return err_set(err, ERR_INVALID, "the backend daytona needs DAYTONA_API_KEY");
    if (o->daytona_auto_delete_min <= 0)
        return err_set(err, ERR_INVALID,
                       "DAYTONA_AUTO_DELETE_INTERVAL must be above 0: nothing else ends a sandbox "
                       "that nobody knows of");
    dt = xcalloc(1, sizeof *dt);
    dt->base.ops = &OPS;
    dt->base.files = FILES_KEYED;
    dt->o = *o;
    if (make_clients(dt, err) < 0) {
        op_free(&dt->base);
        return -1;
    }
    *ret = &dt->base;
    return 0;
}
