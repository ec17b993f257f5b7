/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/daytona.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "sandbox/daytona/api.h"
#include "sandbox/daytona/runner.h"
#include "sandbox/daytona/toolbox.h"

/*
 * From a key to a box that answers.  A box is paid for from its creation on: one that does not come
 * up is deleted here, and one whose creation nobody heard of is found by its labels.
 */
#define TRIES 2           /* one that is there and broken is replaced once */
#define CLEAN_UP_MS 8000  /* to delete what did not come up, whatever the deadline said */
#define LOOK_FIRST_MS 100 /* between two looks at one that is on its way */
#define LOOK_MOST_MS 1000
#define ANSWER_MS 5000 /* a fresh toolbox may take a request and never answer it */
#define AGAIN_MS 200
#define BOOT_BYTES 65536
#define SPARES_MAX 16 /* boxes of one key beyond the first */

bool
context_parse(const char *kernel_session, struct context *ret)
{
    const char *colon = strchr(kernel_session, ':');
    size_t n = colon != NULL ? (size_t)(colon - kernel_session) : 0;

    if (n == 0 || n >= sizeof ret->id ||
        num_i64(colon + 1, strlen(colon + 1), 0, INT32_MAX, &ret->pid) != 1)
        return false;
    memcpy(ret->id, kernel_session, n);
    ret->id[n] = '\0';
    return true;
}

static int
context_format(const struct context *c, char ret[HANDLE_MAX + 1])
{
    int n = snprintf(ret, HANDLE_MAX + 1, "%s:%lld", c->id, (long long)c->pid);

    return n > 0 && n <= HANDLE_MAX ? 0 : -1;
}

/* Until it is started. It may have been stopped, or be stopped on the way. ERR_CONFLICT
 * "runtime_gone": it is of no use any more. */
static int
await_started(struct daytona *dt, struct box *b, struct deadline d, struct err *err)
{
    struct err why = ERR_INIT;
    int pause = LOOK_FIRST_MS;

    for (;;) {
        if (b->state == BOX_STARTED)
            return 0;
        if (b->state == BOX_BROKEN || b->state == BOX_ENDED)
            return err_slug(err, ERR_CONFLICT, "runtime_gone", "the sandbox is %s", b->state_name);
        if (b->state == BOX_STOPPED && api_start(dt, b->id, d, err) < 0)
            return -1;
        if (deadline_passed(d))
            return err_slug(err, ERR_TIMEOUT, "start_failed", "the sandbox is still %s in the end",
                            b->state_name);
        (void)poll(NULL, 0, deadline_poll_ms(d, pause));
        pause = pause * 2 > LOOK_MOST_MS ? LOOK_MOST_MS : pause * 2;
        why = (struct err)ERR_INIT;
        if (api_get(dt, b->id, b, d, &why) == 0)
            continue;
        if (why.code == ERR_NOT_FOUND)
            return err_slug(err, ERR_CONFLICT, "runtime_gone", "the sandbox is gone");
        if (deadline_passed(d) || why.slug == NULL ||
            strcmp(why.slug, "gateway_unavailable") != 0) {
            if (err != NULL)
                *err = why;
            return -1;
        }
    }
}

int
daytona_wake(struct daytona *dt, const char *id, struct deadline d, struct err *err)
{
    struct err why = ERR_INIT;
    struct box b;

    if (api_get(dt, id, &b, d, &why) < 0) {
        if (why.code == ERR_NOT_FOUND)
            return err_slug(err, ERR_CONFLICT, "runtime_gone", "the sandbox is gone");
        if (err != NULL)
            *err = why;
        return -1;
    }
    return await_started(dt, &b, d, err);
}

/* ---- the toolbox of one that has just come up ---- */

enum step { STEP_FOLDER, STEP_CLEAN, STEP_CONTEXT, STEPS };

struct getting_ready {
    struct daytona *dt;
    const struct box *b;
    struct context c; /* id "" where there is no interpreter */
};

/* Our half is put into the context; it tells the process that the code runs in, which is what an
 * interrupt is sent to. */
static int
send_runner(struct getting_ready *g, struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(256), boot = BUF_INIT(BOOT_BYTES);
    size_t n;

    runner_boot(&boot);
    if (buf_check(&boot, "the runner", err) < 0 ||
        daytona_probe(g->dt, g->b->id, g->c.id, buf_str(&boot), &out, d, err) < 0)
        return -1;
    for (n = out.len; n > 0 && out.data[n - 1] == '\n'; n--)
        continue;
    if (num_i64(buf_str(&out), n, 1, INT32_MAX, &g->c.pid) != 1)
        g->c.pid = 0; /* then an interrupt ends the context */
    return 0;
}

static int
take_step(struct getting_ready *g, enum step step, struct deadline d, struct err *err)
{
    int rc;

    switch (step) {
    case STEP_FOLDER:
        return toolbox_folder(g->dt, g->b->id, DAYTONA_WORKSPACE, strlen(DAYTONA_WORKSPACE), d,
                              err);
    case STEP_CLEAN: /* what an earlier life left running */
        return toolbox_contexts_end(g->dt, g->b->id, d, err);
    default:
        rc = toolbox_context_new(g->dt, g->b->id, g->c.id, sizeof g->c.id, d, err);
        if (rc == 0)
            return send_runner(g, d, err);
        if (err->code == ERR_NOT_FOUND) {
            log_info("sandbox %s has no interpreter: it runs code without state", g->b->id);
            rc = 0;
        }
        return rc;
    }
}

/* All of it, each step tried again while the toolbox does not answer. */
static int
get_ready(struct getting_ready *g, struct deadline d, struct err *err)
{
    for (int step = 0; step < STEPS; step++) {
        for (;;) {
            struct err why = ERR_INIT;

            if (take_step(g, (enum step)step, deadline_min(d, deadline_in(ANSWER_MS)), &why) == 0)
                break;
            if (deadline_left_ms(d) <= AGAIN_MS || why.slug == NULL ||
                strcmp(why.slug, "gateway_unavailable") != 0) {
                if (err != NULL)
                    *err = why;
                return -1;
            }
            if (step == STEP_CONTEXT)
                step = STEP_CLEAN; /* one that was made is of no use without our half */
            (void)poll(NULL, 0, AGAIN_MS);
        }
    }
    return 0;
}

static int
make_usable(struct daytona *dt, const struct box *b, struct runtime_made *ret, struct deadline d,
            struct err *err)
{
    struct getting_ready g = {.dt = dt, .b = b};

    if (get_ready(&g, d, err) < 0)
        return -1;
    memcpy(ret->handle, b->id, sizeof b->id);
    if (g.c.id[0] == '\0') {
        (void)snprintf(ret->kernel_session, sizeof ret->kernel_session, "%s", RUNTIME_STATELESS);
        return 0;
    }
    return context_format(&g.c, ret->kernel_session) == 0
               ? 0
               : err_set(err, ERR_INTERNAL, "the sandbox's interpreter has too long an id");
}

/* ---- which box ---- */

struct search {
    struct box best;
    bool found;
    int n_spares;
    char spares[SPARES_MAX][HANDLE_MAX + 1];
};

static void
spare(struct search *s, const struct box *b)
{
    if (s->n_spares < SPARES_MAX)
        memcpy(s->spares[s->n_spares++], b->id, sizeof b->id);
}

/* Pages that shift while they are read name one twice: it is not one too many. */
static bool
seen(const struct search *s, const struct box *b)
{
    for (int i = 0; i < s->n_spares; i++)
        if (strcmp(s->spares[i], b->id) == 0)
            return true;
    return s->found && strcmp(s->best.id, b->id) == 0;
}

/* One that is started is better than one that is not; of equals the first stays. */
static int
on_box(void *ctx, const struct box *b)
{
    struct search *s = ctx;

    if (seen(s, b))
        return 0;
    if (b->state == BOX_BROKEN) {
        spare(s, b);
        return 0;
    }
    if (s->found && b->state >= s->best.state) {
        spare(s, b);
        return 0;
    }
    if (s->found)
        spare(s, &s->best);
    s->best = *b;
    s->found = true;
    return 0;
}

/* The box of this key: 1 found, 0 none, -1. What is broken, or one too many, is deleted. */
static int
find(struct daytona *dt, const char *key, struct box *ret, struct deadline d, struct err *err)
{
    struct search s = {.found = false};

    if (api_each(dt, key, on_box, &s, d, err) < 0)
        return -1;
    for (int i = 0; i < s.n_spares; i++) {
        struct err why = ERR_INIT;

        log_warning("sandbox %s is broken, or one too many of its session: it is deleted",
                    s.spares[i]);
        if (api_delete(dt, s.spares[i], d, &why) < 0)
            log_warning("sandbox %s is left to the reaper: %s", s.spares[i], why.msg);
    }
    if (s.found)
        *ret = s.best;
    return s.found;
}

/* A new one. Where its creation was not heard of it is looked for. */
static int
create(struct daytona *dt, const char *key, struct box *ret, struct deadline d, struct err *err)
{
    struct err why = ERR_INIT;

    if (api_create(dt, key, ret, d, &why) == 0)
        return 0;
    if (why.code == ERR_UNCERTAIN && find(dt, key, ret, deadline_in(CLEAN_UP_MS), NULL) > 0)
        return 0;
    if (why.code == ERR_UNCERTAIN) { /* no handle to name: the reaper finds it by its labels */
        why.code = ERR_UNAVAILABLE;
        log_warning("a sandbox may have been made that is not seen yet: %s", why.msg);
    }
    if (err != NULL)
        *err = why;
    return -1;
}

/* One attempt: 0 done, -1 failed, with nothing left that was not there before (or ERR_UNCERTAIN).
 * *ret_again: what was there is gone or asleep now, and another attempt finds that. */
static int
open_once(struct daytona *dt, const char *key, struct runtime_made *ret, bool *ret_again,
          struct deadline d, struct err *err)
{
    struct box b;
    struct err why = ERR_INIT, cleaning = ERR_INIT;
    int found = find(dt, key, &b, d, err);

    *ret_again = false;
    if (found < 0 || (found == 0 && create(dt, key, &b, d, err) < 0))
        return -1;
    if (await_started(dt, &b, d, &why) == 0 && make_usable(dt, &b, ret, d, &why) == 0) {
        ret->found = found > 0;
        return 0;
    }
    if (err != NULL)
        *err = why;
    *ret_again = found > 0 && why.code == ERR_CONFLICT;
    /* One with files in it is not thrown away for a fault that may pass, nor for having been
     * stopped meanwhile. */
    if (found > 0 && (why.slug == NULL || strcmp(why.slug, "runtime_gone") != 0))
        return -1;
    if (api_delete(dt, b.id, deadline_in(CLEAN_UP_MS), &cleaning) == 0)
        return -1;
    *ret_again = false;
    memcpy(ret->handle, b.id, sizeof b.id);
    if (err != NULL)
        *err = cleaning;
    return -1;
}

int
daytona_open(struct sandbox *sb, const char *key, struct runtime_made *ret, struct deadline d,
             struct err *err)
{
    struct daytona *dt = (struct daytona *)sb;
    struct err why = ERR_INIT;
    bool again = true;

    d = deadline_min(d, deadline_in(dt->o.start_timeout_ms));
    for (int i = 0; i < TRIES && again; i++) {
        memset(ret, 0, sizeof *ret);
        why = (struct err)ERR_INIT;
        if (open_once(dt, key, ret, &again, d, &why) == 0)
            return 0;
    }
    if (why.code == ERR_CONFLICT || why.code == ERR_NOT_FOUND)
        return err_slug(err, ERR_UNAVAILABLE, "start_failed", "no sandbox came up: %s", why.msg);
    if (err != NULL)
        *err = why;
    return -1;
}

int
daytona_leave(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, struct err *err)
{
    struct context c;

    if (!context_parse(rt->kernel_session, &c))
        return 0;
    return toolbox_context_end((struct daytona *)sb, rt->handle, c.id, d, err);
}
