/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/jupyter.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "sandbox/jupyter/silent.h"

/*
 * Before code is sent on a new channel the kernel says who it is: a gateway restarts a dead kernel
 * under the same id without telling those who come later, and code must not run in a kernel that
 * has lost its state without anybody noticing.  One that is still to be told its directory is told
 * that instead: its answer says who it is as well.
 *
 * A gateway opens a channel to a kernel it takes for busy before it is subscribed to what the
 * kernel publishes (jupyter_server's "not nudging busy kernel"): an answer can come while the
 * output of what is sent next would be lost.  So something published must have come too.
 */

#define ASK_AGAIN_MS 3000    /* a request sent while the kernel starts may be lost */
#define LOOK_AFTER_MS 2000   /* silence before the gateway is asked, and between such questions */
#define REFUSED_PAUSE_MS 300 /* between questions when the channel is refused */
#define PUBLISHED_MS 100     /* from an answer until what is published with it must be there */
#define PUBLISHED_ASKS 20    /* then the kernel is taken for one that publishes no status */
#define UNREACHED_MAX 3

/* A JSON-bound message larger than what may be kept is of no use whole. */
#define MESSAGE_SLACK (1024 * 1024)

struct attach {
    struct jupyter *j;
    const struct runtime_ref *rt;
    struct channel *ch;
    const char *code; /* tells it its directory, in place of the question; NULL: it has one */
    int64_t asked_ms;
    int64_t answered_ms; /* since when what is published is waited for */
    int64_t looked_ms;
    int unreached;
    int asked_again; /* as nothing published had come */
    bool reached;    /* the gateway has answered a question */
    bool again;      /* the channel was refused once although the kernel lives */
};

static int
gone(const struct attach *a, const char *why, struct err *err)
{
    return err_slug(err, ERR_CONFLICT, "runtime_gone", "kernel %s: %s", a->rt->handle, why);
}

/* The gateway's word on the kernel, when it has come. 0 to go on. */
static int
heed_gateway(struct attach *a, struct err *err)
{
    struct gateway_answer ans;

    if (gateway_step(a->j->gateway, &ans) == 0)
        return 0;
    if (!ans.reached) {
        if (++a->unreached >= UNREACHED_MAX)
            return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                            "the gateway does not answer");
        return 0;
    }
    a->unreached = 0;
    a->reached = true;
    if (ans.alive == ALIVE_NO)
        return gone(a, "the gateway does not know it any more", err);
    if (ws_state(a->ch->ws) != WS_CLOSED)
        return 0;
    if (a->again)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "the gateway refuses a channel to kernel %s: %s", a->rt->handle,
                        ws_reason(a->ch->ws));
    a->again = true;
    return channel_again(a->ch, a->j->gateway, err);
}

/* Asks the gateway when the kernel is silent or the channel was refused. */
static void
look_after(struct attach *a)
{
    int64_t now = clock_mono_ms();
    bool closed = ws_state(a->ch->ws) == WS_CLOSED;
    int64_t pause = closed ? REFUSED_PAUSE_MS : LOOK_AFTER_MS;
    int64_t since = a->looked_ms;

    if (!closed && a->ch->heard_ms > since)
        since = a->ch->heard_ms;
    if (gateway_pending(a->j->gateway) != CALL_NONE || now - since < pause)
        return;
    a->looked_ms = now;
    if (gateway_begin(a->j->gateway, CALL_ALIVE, a->rt->handle, deadline_in(INT32_MAX), NULL) < 0)
        a->unreached++;
}

/* The kernel has answered: 1 when its output would come too, 0 not yet, or not until it is asked
 * once more. */
static int
answered(struct attach *a, struct err *err)
{
    const char *expected = a->rt->kernel_session;
    int64_t now = clock_mono_ms();

    if (expected != NULL && expected[0] != '\0' && strcmp(expected, a->ch->kernel_session) != 0)
        return gone(a, "its process is another one than before", err);
    if (a->ch->refused[0] != '\0')
        return err_set(err, ERR_INTERNAL, "kernel %s: its directory was not set: %s", a->rt->handle,
                       a->ch->refused);
    if (a->ch->subscribed)
        return 1;
    if (a->answered_ms == 0)
        a->answered_ms = now;
    if (now - a->answered_ms < PUBLISHED_MS)
        return 0;
    if (a->asked_again == PUBLISHED_ASKS) {
        log_warning("kernel %s publishes no status", a->rt->handle);
        return 1;
    }
    a->asked_again++;
    a->answered_ms = a->asked_ms = 0;
    return 0;
}

static int
ask(struct attach *a, struct err *err)
{
    a->asked_ms = clock_mono_ms();
    return a->code != NULL && a->asked_again == 0 ? channel_tell(a->ch, a->code, err)
                                                  : channel_ask(a->ch, err);
}

/* One turn: 1 attached, 0 not yet. */
static int
step(struct attach *a, struct err *err)
{
    int rc;

    if (heed_gateway(a, err) < 0)
        return -1;
    if (a->ch->restarted)
        return gone(a, "its process was restarted", err);
    if (a->ch->info_replied) {
        rc = answered(a, err);
        if (rc != 0)
            return rc;
    }
    if (ws_state(a->ch->ws) == WS_OPEN && !ws_sending(a->ch->ws) &&
        (a->asked_ms == 0 || clock_mono_ms() - a->asked_ms >= ASK_AGAIN_MS) && ask(a, err) < 0)
        return -1;
    look_after(a);
    return 0;
}

static int
connect_and_check(struct attach *a, const struct exec_hooks *hooks, struct deadline d,
                  struct err *err)
{
    for (;;) {
        int rc = step(a, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        if (deadline_passed(d) && a->looked_ms != 0 && !a->reached)
            return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                            "the gateway does not answer");
        if (deadline_passed(d))
            return err_set(err, ERR_TIMEOUT, "kernel %s did not answer in time", a->rt->handle);
        if (jupyter_turn(a->j, hooks, deadline_poll_ms(d, 100)) != HOOK_GO_ON)
            return err_set(err, ERR_ABORTED, "ended before the code was sent");
    }
}

int
jupyter_attach(struct jupyter *j, const struct runtime_ref *rt, const struct exec_hooks *hooks,
               struct deadline d, struct channel **ret, struct err *err)
{
    struct attach a = {.j = j, .rt = rt};
    size_t max = (size_t)j->o.max_output_bytes + MESSAGE_SLACK;
    _cleanup_buf_ struct buf code = BUF_INIT(0);
    int rc;

    gateway_cancel(j->gateway);
    *ret = kept_take(&j->kept, rt->handle);
    if (*ret != NULL && rt->kernel_session != NULL && rt->kernel_session[0] != '\0' &&
        strcmp((*ret)->kernel_session, rt->kernel_session) != 0) {
        channel_free(*ret);
        *ret = NULL;
        return gone(&a, "its process is another one than before", err);
    }
    if (*ret != NULL && rt->dir == NULL)
        return 0;
    a.ch = *ret;
    *ret = NULL;
    if (a.ch != NULL) /* by a channel that was opened ahead: what it answered then is old */
        a.ch->info_replied = false;
    if (rt->dir != NULL) {
        d = deadline_min(d, deadline_in(rt->dir_ms));
        if (jupyter_directory_code(rt->dir, &code, err) < 0) {
            channel_free(a.ch);
            return -1;
        }
        a.code = buf_str(&code);
    }
    if (a.ch == NULL && channel_new(j->gateway, j->pool, rt->handle, max, &a.ch, err) < 0)
        return -1;
    rc = connect_and_check(&a, hooks, d, err);
    gateway_cancel(j->gateway);
    if (rc < 0) {
        channel_free(a.ch);
        return -1;
    }
    *ret = a.ch;
    return 0;
}
