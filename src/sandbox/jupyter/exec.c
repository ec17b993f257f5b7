/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/jupyter.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "sandbox/ending.h"
#include "sandbox/jupyter/collect.h"

/*
 * One execution: the request goes out, messages go to the collector, and each turn of the loop asks
 * what has happened.  It ends when the reply and idle for this request were seen; one missing ends
 * it after a grace, in which the gateway has to have shown that it is at work.  A stop (deadline,
 * interrupt, caller gone, flood) is: interrupt, interrupt again, end the kernel.  The reason is
 * what was done here, never what the exception is called.
 */

#define GRACE_MS 1000        /* idle without reply */
#define OUTPUT_GRACE_MS 3000 /* reply without idle: a gateway under a flood brings output late */
#define DELETE_AGAIN_MS 1000 /* between tries to end the kernel */
#define STALLED_MAX_MS 30000 /* the grace of a gateway that does not answer meanwhile */
#define SILENCE_MS 2000      /* without a message before the gateway is asked */
#define MISSED_PAUSE_MS 500  /* the same when the channel is lost or a message is missing */
#define UNREACHED_MAX 4
#define RECONNECTS_MAX 3
#define SENDS_MAX 20      /* of a request that is refused unrun */
#define LAST_CALL_MS 1000 /* an interrupt under way when the cell ends */

struct run {
    struct jupyter *j;
    const struct exec_hooks *hooks;
    struct channel *ch;
    struct collect *out;
    struct deadline deadline;
    struct ending end;
    int64_t half_ms;     /* since when one of reply and idle is there */
    int64_t looked_ms;   /* when the gateway was last asked */
    int64_t answered_ms; /* when it first answered a question asked since half_ms */
    int unreached;
    int reconnects;
    bool asked_after; /* the new channel's kernel_info_request is out */
    bool incomplete;
    bool stale; /* the channel still carries what nobody waits for */
};

static void
sink_text(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n)
{
    (void)h;
    collect_text(ctx, s, p, n);
}

static void
sink_message(void *ctx, const struct kmsg *m)
{
    collect_message(ctx, m);
}

static void
sink_oversize(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    collect_oversize(ctx, h, s, n);
}

static void
ask_gateway(struct run *r, enum gateway_call call)
{
    if (gateway_begin(r->j->gateway, call, r->ch->handle, deadline_in(INT32_MAX), NULL) < 0)
        log_warning("kernel %s: a call to the gateway could not be begun", r->ch->handle);
}

static void
escalate(struct run *r)
{
    enum ending_step due = ending_due(&r->end);
    struct collect_state s;

    if (due == ENDING_NOTHING)
        return;
    collect_state(r->out, &s);
    if (s.replied && due >= ENDING_KILL) {
        /* The cell is over; only its output has not all come: that goes with the channel. */
        r->incomplete = true;
        r->stale = true;
        r->end.over = true;
    } else if (due == ENDING_GIVE_UP) {
        ending_died(&r->end, r->end.forced);
    } else if (due == ENDING_KILL) {
        r->end.invalid = true;
        if (gateway_pending(r->j->gateway) == CALL_DELETE ||
            (r->end.taken >= ENDING_KILL && clock_mono_ms() - r->looked_ms < DELETE_AGAIN_MS))
            return;
        r->end.taken = ENDING_KILL;
        r->looked_ms = clock_mono_ms();
        ask_gateway(r, CALL_DELETE);
    } else if (ending_interrupts(&r->end, due)) {
        ask_gateway(r, CALL_INTERRUPT);
    }
}

/* The channel broke while the kernel lives: the gateway replays what it held back. */
static void
reconnect(struct run *r)
{
    struct err why = ERR_INIT;

    if (++r->reconnects > RECONNECTS_MAX) {
        ending_died(&r->end, REASON_GATEWAY_LOST);
        return;
    }
    r->incomplete = true;
    r->asked_after = false;
    if (channel_again(r->ch, r->j->gateway, &why) < 0)
        log_warning("kernel %s: %s", r->ch->handle, why.msg);
}

static bool
is_lost(const struct run *r)
{
    return r->ch->ws == NULL || ws_state(r->ch->ws) == WS_CLOSED;
}

static void
heed_gateway(struct run *r)
{
    struct gateway_answer a;

    if (gateway_step(r->j->gateway, &a) == 0)
        return;
    if (!a.reached) {
        if (++r->unreached >= UNREACHED_MAX && is_lost(r) && r->end.taken < ENDING_KILL)
            ending_died(&r->end, REASON_GATEWAY_LOST);
        return;
    }
    r->unreached = 0;
    if (r->half_ms != 0 && r->answered_ms == 0 && r->looked_ms >= r->half_ms)
        r->answered_ms = clock_mono_ms();
    if (a.alive == ALIVE_NO)
        ending_died(&r->end, REASON_KERNEL_DIED);
    else if (a.call == CALL_ALIVE && is_lost(r))
        reconnect(r);
}

/* Silence and a lost channel make us ask the gateway, at a bounded rate. */
static void
look_after(struct run *r)
{
    int64_t now = clock_mono_ms();
    bool lost = is_lost(r);
    int64_t pause = lost || r->half_ms != 0 ? MISSED_PAUSE_MS : SILENCE_MS;

    if (r->ch->restarted) {
        ending_died(&r->end, REASON_KERNEL_DIED);
        return;
    }
    if (r->reconnects > 0 && !lost && !r->asked_after && ws_state(r->ch->ws) == WS_OPEN) {
        /* The kernel answers this when the cell is over, whatever was lost on the way. */
        r->asked_after = channel_ask(r->ch, NULL) == 0;
    }
    if (gateway_pending(r->j->gateway) != CALL_NONE || now - r->looked_ms < pause ||
        (!lost && now - r->ch->heard_ms < pause))
        return;
    r->looked_ms = now;
    ask_gateway(r, CALL_ALIVE);
}

/* Is the grace over for the message that is missing?  A gateway that stands still, or a worker that
 * did, has not lost it: half of the grace comes after an answer of the gateway. */
static bool
grace_is_over(const struct run *r, bool idle)
{
    int64_t grace = idle ? GRACE_MS : OUTPUT_GRACE_MS;
    int64_t now = clock_mono_ms();
    /* Output may queue behind a reply that overtook it; nothing comes behind idle. */
    int64_t since = !idle && r->ch->heard_ms > r->half_ms ? r->ch->heard_ms : r->half_ms;

    if (r->answered_ms == 0)
        return now - since >= STALLED_MAX_MS;
    return now - since >= grace && now - r->answered_ms >= grace / 2;
}

/* Has the cell ended? */
static void
check_end(struct run *r)
{
    struct collect_state s;
    bool after = r->asked_after && r->ch->info_replied;

    collect_state(r->out, &s);
    if (s.idle && s.replied) {
        r->end.over = true;
        return;
    }
    if (s.bytes > r->j->o.flood_bytes)
        ending_stop(&r->end, REASON_OUTPUT_LIMIT);
    if (!s.idle && !s.replied && !after)
        return;
    if (r->half_ms == 0)
        r->half_ms = clock_mono_ms();
    if (!grace_is_over(r, s.idle))
        return;
    r->incomplete = true;
    r->end.over = true;
}

static void
loop(struct run *r)
{
    while (!r->end.over) {
        int max = r->half_ms != 0 ? 20 : deadline_poll_ms(r->deadline, 100);
        enum hook_verdict v = jupyter_turn(r->j, r->hooks, r->end.forced == REASON_NONE ? max : 50);

        check_end(r);
        if (r->end.over)
            break;
        heed_gateway(r);
        if (v != HOOK_GO_ON)
            ending_stop(&r->end, v == HOOK_INTERRUPT ? REASON_INTERRUPTED : REASON_CLIENT_GONE);
        if (deadline_passed(r->deadline))
            ending_stop(&r->end, REASON_TIMEOUT);
        if (!r->end.over)
            look_after(r);
        if (!r->end.over)
            escalate(r);
    }
}

/* An interrupt under way must have landed before the next request goes out. */
static void
settle(struct run *r)
{
    struct deadline d = deadline_in(LAST_CALL_MS);
    struct gateway_answer a;

    while (gateway_pending(r->j->gateway) == CALL_INTERRUPT && !deadline_passed(d)) {
        if (gateway_step(r->j->gateway, &a) == 0)
            (void)jupyter_turn(r->j, NULL, 5);
    }
}

static void
conclude(struct run *r, struct execution_result *ret)
{
    struct collect_state s;

    collect_state(r->out, &s);
    collect_take(r->out, ret);
    if (r->end.forced != REASON_NONE) {
        ret->reason = r->end.forced;
        ret->ok = false;
        ret->exit_code = -1;
    } else if (!s.replied) {
        ret->ok = false;
        /* without a gap in between an error would have come before idle */
        ret->reason = s.has_error                    ? REASON_EXCEPTION
                      : s.idle && r->reconnects == 0 ? REASON_COMPLETED
                                                     : REASON_GATEWAY_LOST;
    }
    ret->incomplete = ret->incomplete || r->incomplete;
    ret->runtime_invalidated = ret->runtime_invalidated || r->end.invalid;
}

/* A kernel that has just ended a cell with an error refuses for a moment what follows, without
 * running any of it: that is sent once more. */
static int
run_once(struct run *r, const struct kmsg_execute *x, const struct output_options *co,
         struct err *err)
{
    struct kmsg_handler sink = {
        .text = sink_text, .message = sink_message, .oversize = sink_oversize};
    struct collect_state s;

    collect_free(r->out);
    r->out = collect_new(co);
    r->end.over = false;
    r->half_ms = r->answered_ms = 0;
    sink.ctx = r->out;
    if (channel_execute(r->ch, x, &sink, err) < 0)
        return -1;
    r->looked_ms = clock_mono_ms();
    r->j->turn.ticked_ms = 0;
    loop(r);
    channel_done(r->ch);
    collect_state(r->out, &s);
    return s.aborted && r->end.forced == REASON_NONE && !r->incomplete ? 1 : 0;
}

int
jupyter_exec(struct sandbox *sb, const struct runtime_ref *rt, const struct execution_request *req,
             const struct exec_hooks *hooks, struct execution_result *ret, struct err *err)
{
    struct jupyter *j = (struct jupyter *)sb;
    struct run r = {.j = j, .hooks = hooks, .deadline = deadline_in(req->timeout_ms)};
    struct turn_events events = {&j->turn, hooks};
    struct output_options co = {.max_output_bytes = j->o.max_output_bytes,
                                .ctx = &events,
                                .event =
                                    hooks != NULL && hooks->event != NULL ? turn_hand_on : NULL};
    struct kmsg_execute x = {
        .code = req->code, .code_len = req->code_len, .store_history = true, .stop_on_error = true};
    int rc = 1;

    if (jupyter_attach(j, rt, hooks, r.deadline, &r.ch, err) < 0)
        return -1;
    for (int i = 0; rc == 1 && i < SENDS_MAX; i++)
        rc = run_once(&r, &x, &co, err);
    if (rc < 0) {
        collect_free(r.out);
        channel_free(r.ch);
        return -1;
    }
    settle(&r);
    gateway_cancel(j->gateway);
    conclude(&r, ret);
    collect_free(r.out);
    if (r.end.invalid || r.stale || r.reconnects > 0)
        channel_free(r.ch);
    else
        kept_put(&j->kept, r.ch);
    return 0;
}
