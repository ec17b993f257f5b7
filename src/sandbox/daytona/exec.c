/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/daytona.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/log.h"
#include "sandbox/daytona/api.h"
#include "sandbox/daytona/chunk.h"
#include "sandbox/daytona/toolbox.h"
#include "sandbox/ending.h"

/*
 * One execution: a socket of its own to the context's interpreter, the code, then what it prints
 * until it says how it ended.  A stop (deadline, interrupt, caller gone, flood) is: an interrupt to
 * the context's process, another, the end of the context and with it of the session's state.  The
 * reason is what was done here, never what the exception is called.
 */

#define SILENCE_MS 5000 /* without a message before the context is looked for */
#define LOST_PAUSE_MS 500
#define UNREACHED_MAX 4
#define LOOK_TIMEOUT_MS 3000
#define LAST_CALL_MS 1000 /* an interrupt under way when the code ends */
#define BACKSTOP_S                                                                                 \
    30 /* beyond our own deadline: the interpreter's own, for the case that we die                 \
        */
#define URL_BYTES 1024
#define REQUEST_MAX (WS_SEND_MAX - 1024)
#define COMMAND_BYTES 512

#define CLOSED_TIMEOUT 4008 /* RFC 6455 leaves these to applications */
#define CLOSED_REFUSED 1008
#define CLOSED_FAULT 1011

enum asked { ASKED_NOTHING, ASKED_INTERRUPT, ASKED_END, ASKED_CONTEXTS };

struct run {
    struct daytona *dt;
    const struct exec_hooks *hooks;
    const char *id;
    struct context context;
    struct ws *ws;
    struct output *out;
    struct chunk_reader reader;
    struct deadline deadline;
    int64_t flood_bytes;
    enum chunk_type ended; /* how the interpreter says it ended; CHUNK_OTHER: not yet */
    struct ending end;
    enum asked asked; /* the call to the toolbox that is under way */
    int64_t heard_ms, looked_ms;
    int unreached;
    bool refused;      /* nothing ran */
    const char *nonce; /* of the runner's messages; NULL: the code goes as it is */
    bool incomplete;
};

static void
on_piece(void *ctx, const char *p, size_t n, bool first, bool final)
{
    struct run *r = ctx;
    enum chunk_type t = chunk_add(&r->reader, p, n, final);

    (void)first;
    r->heard_ms = clock_mono_ms();
    if (t == CHUNK_COMPLETED || t == CHUNK_INTERRUPTED)
        r->ended = t;
    if (t == CHUNK_NO_RUNNER)
        r->refused = true;
}

static void
ask(struct run *r, enum asked what)
{
    _cleanup_buf_ struct buf body = BUF_INIT(COMMAND_BYTES);
    char text[200];
    const char *method = what == ASKED_INTERRUPT ? "POST" : what == ASKED_END ? "DELETE" : "GET";
    const char *path = TOOLBOX_CONTEXTS;
    struct err why = ERR_INIT;

    if (what == ASKED_INTERRUPT) {
        (void)snprintf(text, sizeof text, "kill -INT %lld", (long long)r->context.pid);
        toolbox_command(&body, text);
        path = "/process/execute";
    } else if (what == ASKED_END) {
        (void)snprintf(text, sizeof text, TOOLBOX_CONTEXTS "/%s", r->context.id);
        path = text;
    }
    r->asked = ASKED_NOTHING;
    if (toolbox_begin(r->dt, r->id, method, path, body.len > 0 ? buf_str(&body) : NULL,
                      deadline_in(LOOK_TIMEOUT_MS), &why) < 0)
        log_warning("sandbox %s: %s", r->id, why.msg);
    else
        r->asked = what;
}

static void
escalate(struct run *r)
{
    enum ending_step due = ending_due(&r->end);

    if (due == ENDING_NOTHING)
        return;
    if (due == ENDING_GIVE_UP) {
        ending_died(&r->end, r->end.forced);
    } else if (due == ENDING_KILL || r->context.pid == 0) {
        r->end.invalid = true;
        if (r->asked == ASKED_END ||
            (r->end.taken >= ENDING_KILL && clock_mono_ms() - r->looked_ms < LOST_PAUSE_MS))
            return;
        r->end.taken = ENDING_KILL;
        r->looked_ms = clock_mono_ms();
        ask(r, ASKED_END);
    } else if (ending_interrupts(&r->end, due)) {
        ask(r, ASKED_INTERRUPT);
    }
}

static bool
is_lost(const struct run *r)
{
    return r->ws == NULL || ws_state(r->ws) == WS_CLOSED;
}

/* The toolbox has said whether the context is there. */
static void
heed_contexts(struct run *r, const struct rest_reply *a)
{
    int listed = toolbox_context_listed(a, r->context.id);

    if (a->status >= 500 || a->status == 429 || listed < 0) {
        r->unreached++;
        return;
    }
    r->unreached = 0;
    /* A box that was stopped or is gone refuses: nothing runs there. */
    if (listed == 0) {
        ending_died(&r->end, REASON_KERNEL_DIED);
    } else if (is_lost(r)) {
        if (r->end.forced == REASON_TIMEOUT && ws_close_code(r->ws) == CLOSED_TIMEOUT)
            r->end.over = true; /* interrupted by its own clock, and its state is there */
        else
            ending_died(&r->end, REASON_GATEWAY_LOST); /* what still runs there is nobody's */
    }
}

static void
heed_toolbox(struct run *r)
{
    struct rest_reply a;
    enum asked asked = r->asked;
    int rc;

    if (asked == ASKED_NOTHING)
        return;
    rc = rest_step(r->dt->toolbox, &a, NULL);
    if (rc == 0)
        return;
    r->asked = ASKED_NOTHING;
    if (asked == ASKED_CONTEXTS && rc > 0)
        heed_contexts(r, &a);
    else if (asked == ASKED_CONTEXTS)
        r->unreached++;
    else if (asked == ASKED_END && rc > 0 && (a.status < 300 || a.status == 404))
        ending_died(&r->end, r->end.forced);
    if (is_lost(r) && r->unreached >= UNREACHED_MAX && r->end.taken < ENDING_KILL)
        ending_died(&r->end, REASON_GATEWAY_LOST);
}

/* The socket is gone before the interpreter said how it ended. */
static void
heed_close(struct run *r)
{
    int code = ws_close_code(r->ws);

    if (code == CLOSED_REFUSED) {
        r->refused = true;
        r->end.over = true;
    } else if (code == CLOSED_FAULT) {
        ending_died(&r->end, REASON_KERNEL_DIED);
    } else if (code == CLOSED_TIMEOUT && r->end.forced == REASON_NONE) {
        r->end.forced = REASON_TIMEOUT;
    }
}

static void
look_after(struct run *r)
{
    int64_t now = clock_mono_ms();
    bool lost = is_lost(r);

    if (lost)
        heed_close(r);
    if (r->end.over || r->asked != ASKED_NOTHING || r->end.taken >= ENDING_KILL ||
        now - r->looked_ms < (lost ? LOST_PAUSE_MS : SILENCE_MS) ||
        (!lost && now - r->heard_ms < SILENCE_MS))
        return;
    r->looked_ms = now;
    ask(r, ASKED_CONTEXTS);
}

/* An interrupt under way must have landed before the next code goes out. */
static void
settle(struct run *r)
{
    struct deadline d = deadline_in(LAST_CALL_MS);
    struct rest_reply a;

    while (r->asked == ASKED_INTERRUPT && !deadline_passed(d)) {
        if (rest_step(r->dt->toolbox, &a, NULL) != 0)
            r->asked = ASKED_NOTHING;
        else
            (void)turn_wait(&r->dt->turn, r->dt->pool, NULL, 5);
    }
    if (r->asked != ASKED_NOTHING)
        rest_cancel(r->dt->toolbox);
}

static void
loop(struct run *r)
{
    while (!r->end.over) {
        int max = deadline_poll_ms(r->deadline, r->end.forced == REASON_NONE ? 100 : 50);
        enum hook_verdict v;

        if (r->end.forced != REASON_NONE)
            max = 50;
        if (r->asked != ASKED_NOTHING && max > 10)
            max = 10; /* curl's descriptors are its own */
        v = turn_wait(&r->dt->turn, r->dt->pool, r->hooks, max);
        if (r->ended != CHUNK_OTHER)
            break;
        heed_toolbox(r);
        if (output_bytes(r->out) > r->flood_bytes)
            ending_stop(&r->end, REASON_OUTPUT_LIMIT);
        if (v != HOOK_GO_ON)
            ending_stop(&r->end, v == HOOK_INTERRUPT ? REASON_INTERRUPTED : REASON_CLIENT_GONE);
        if (deadline_passed(r->deadline))
            ending_stop(&r->end, REASON_TIMEOUT);
        if (!r->end.over)
            look_after(r);
        if (!r->end.over)
            escalate(r);
    }
    settle(r);
}

/* ---- the socket ---- */

static int
socket_url(struct run *r, char out[URL_BYTES], struct deadline d, struct err *err)
{
    char base[BOX_URL_MAX + 1];
    size_t n;
    bool tls;

    if (api_toolbox_url(r->dt, r->id, base, d, err) < 0)
        return -1;
    for (n = strlen(base); n > 0 && base[n - 1] == '/'; n--)
        base[n - 1] = '\0';
    tls = strncasecmp(base, "https://", 8) == 0;
    (void)snprintf(out, URL_BYTES, "%s%s/%s/process/interpreter/execute", tls ? "wss://" : "ws://",
                   base + (tls ? 8 : 7), r->id);
    return 0;
}

/* Open, or -1 with nothing sent. */
static int
connect_socket(struct run *r, struct deadline d, struct err *err)
{
    char url[URL_BYTES];
    struct err why = ERR_INIT;

    d = deadline_min(d, deadline_in(r->dt->o.http_timeout_ms));
    if (socket_url(r, url, d, err) < 0)
        return -1;
    if (ws_connect(r->dt->pool, url, r->dt->authorization, on_piece, r, &r->ws, &why) < 0)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                        "the sandbox's interpreter cannot be reached: %s", why.msg);
    while (ws_state(r->ws) == WS_CONNECTING) {
        if (turn_wait(&r->dt->turn, r->dt->pool, r->hooks, deadline_poll_ms(d, 100)) != HOOK_GO_ON)
            return err_slug(err, ERR_ABORTED, "client_closed", "ended before the code was sent");
        if (deadline_passed(d))
            return err_slug(err, ERR_TIMEOUT, "gateway_unavailable",
                            "the sandbox's interpreter did not answer in time");
    }
    if (ws_state(r->ws) != WS_OPEN)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                        "the sandbox's interpreter cannot be reached: %s", ws_reason(r->ws));
    return 0;
}

static int
send_code(struct run *r, const char *code, size_t n, struct err *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(REQUEST_MAX), call = BUF_INIT(REQUEST_MAX);
    int64_t left = deadline_left_ms(r->deadline);

    if (r->nonce != NULL) {
        runner_call(&call, r->nonce, code, n);
        if (buf_check(&call, "the code as it travels", err) < 0)
            return -1;
        code = call.data;
        n = call.len;
    }
    chunk_request(&request, code, n, r->context.id, left / 1000 + BACKSTOP_S);
    if (buf_check(&request, "the code as it travels", err) < 0)
        return -1;
    return ws_send(r->ws, request.data, request.len, err);
}

/* Sends and waits for the end. 0 it was sent, -1 it was not. */
static int
run_it(struct run *r, const struct output_options *o, const char *code, size_t n, struct err *err)
{
    r->out = output_new(o);
    chunk_reader_init(&r->reader, r->out, r->nonce);
    r->dt->turn.ticked_ms = 0;
    if (connect_socket(r, r->deadline, err) < 0 || send_code(r, code, n, err) < 0)
        return -1;
    r->heard_ms = r->looked_ms = clock_mono_ms();
    loop(r);
    if (r->refused)
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "the interpreter is not there any more");
    return 0;
}

static void
run_done(struct run *r)
{
    ws_close(r->ws);
    chunk_reader_done(&r->reader);
    output_free(r->out);
}

/* An interrupt shows as the exception that it is to the code. */
static void
say_interrupted(struct run *r)
{
    struct failure f = {.name = xstrdup("KeyboardInterrupt"), .value = xstrdup("")};

    if (r->ended == CHUNK_INTERRUPTED && !output_has_error(r->out))
        output_error(r->out, &f);
    failure_done(&f);
}

static void
conclude(struct run *r, struct execution_result *ret)
{
    bool failed;

    say_interrupted(r);
    failed = output_has_error(r->out);
    output_take(r->out, NULL, ret);
    ret->execution_count = r->reader.runner.count;
    ret->ok = r->end.forced == REASON_NONE && !failed;
    ret->exit_code = r->end.forced != REASON_NONE ? -1 : failed ? 1 : 0;
    ret->reason = r->end.forced != REASON_NONE ? r->end.forced
                  : failed                     ? REASON_EXCEPTION
                                               : REASON_COMPLETED;
    ret->incomplete = r->incomplete || r->ended == CHUNK_OTHER;
    ret->runtime_invalidated = r->end.invalid;
}

int
daytona_exec(struct sandbox *sb, const struct runtime_ref *rt, const struct execution_request *req,
             const struct exec_hooks *hooks, struct execution_result *ret, struct err *err)
{
    struct daytona *dt = (struct daytona *)sb;
    struct run r = {.dt = dt,
                    .hooks = hooks,
                    .id = rt->handle,
                    .deadline = deadline_in(req->timeout_ms),
                    .flood_bytes = dt->o.flood_bytes};
    struct turn_events events = {&dt->turn, hooks};
    struct output_options o = {.max_output_bytes = dt->o.max_output_bytes,
                               .ctx = &events,
                               .event =
                                   hooks != NULL && hooks->event != NULL ? turn_hand_on : NULL};
    char nonce[RUNNER_NONCE_SIZE];
    struct err why = ERR_INIT;
    int rc;

    id_random_hex(nonce, RUNNER_NONCE_BYTES);
    r.nonce = nonce;
    if (strcmp(rt->kernel_session, RUNTIME_STATELESS) == 0)
        return daytona_code_run(dt, rt->handle, req, hooks, ret, err);
    if (!context_parse(rt->kernel_session, &r.context))
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "its interpreter is not known");
    rc = toolbox_context_lives(dt, rt->handle, r.context.id, r.deadline, &why);
    if (rc == 0 || (rc < 0 && why.code == ERR_CONFLICT))
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "%s",
                        rc == 0 ? "the session's interpreter has ended" : why.msg);
    if (rc < 0) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    rc = run_it(&r, &o, req->code, req->code_len, err);
    if (rc == 0)
        conclude(&r, ret);
    run_done(&r);
    return rc;
}

int
daytona_probe(struct daytona *dt, const char *id, const char *context, const char *code,
              struct buf *ret, struct deadline d, struct err *err)
{
    struct run r = {.dt = dt, .id = id, .deadline = d, .flood_bytes = INT64_MAX};
    struct output_options o = {.max_output_bytes = 4096};
    struct execution_result res;
    int rc;

    (void)snprintf(r.context.id, sizeof r.context.id, "%s", context);
    rc = run_it(&r, &o, code, strlen(code), err);
    if (rc < 0 && r.refused) /* that is no word on the sandbox and what is in it */
        rc = err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                      "the sandbox's interpreter refuses code");
    if (rc == 0) {
        conclude(&r, &res);
        if (!res.ok)
            rc = err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                          "the sandbox's interpreter does not work: %s",
                          res.error_name != NULL ? res.error_name : exec_reason_name(res.reason));
        else
            rc =
                buf_append(ret, res.out, res.out_len) < 0 ? err_set(err, ERR_LIMIT, "too long") : 0;
        execution_result_done(&res);
    }
    run_done(&r);
    return rc;
}
