/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <string.h>
#include <strings.h>

#include "api/decode.h"
#include "api/follow.h"
#include "api/render.h"
#include "api/sse.h"
#include "base/log.h"

/* Ids of requests are kept as they come. */
_Static_assert(HTTP_REQUEST_ID_MAX == REQUEST_ID_MAX, "the row holds any request's id");

/* POST /v1/sessions/{id}/exec and POST /v1/exec: as one result, or as a stream of events. */
struct exec_run {
    struct api_call *call;
    bool stream;     /* events were asked for */
    bool stop_early; /* the run ends when the caller goes */
    bool begun;
    bool gone;
    struct sse sse;
};

static bool
is_event_stream(const char *p, size_t n)
{
    static const char type[] = "text/event-stream";
    size_t k = sizeof(type) - 1;

    if (n < k || strncasecmp(p, type, k) != 0 || (n > k && p[k] != ' ' && p[k] != ';'))
        return false;
    for (p += k, n -= k; n > 0 && (*p == ' ' || *p == ';'); p++, n--)
        ;
    /* q=0 says "anything but this" (RFC 9110 12.4.2) */
    return !(n >= 3 && strncasecmp(p, "q=0", 3) == 0 && strspn(p + 3, ".0") >= n - 3);
}

static bool
wants_stream(const struct api_call *c)
{
    const char *accept = http_header(c->x, "accept");

    for (const char *p = accept; p != NULL && *p != '\0';) {
        p += strspn(p, " \t");
        size_t n = strcspn(p, ",");
        if (is_event_stream(p, n))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static void
on_begun(void *ctx, const struct execution *row, const struct session *s)
{
    struct exec_run *run = ctx;
    struct err err = ERR_INIT;

    run->begun = true;
    log_set_session(s->name);
    log_set_execution(row->eid);
    if (!run->stream || run->gone)
        return;
    if (sse_begin(&run->sse, run->call) < 0) {
        run->gone = true;
        return;
    }
    /* Without a spool (a full disk) the stream has a result that holds everything. */
    if (sse_attach(&run->sse, row->eid, 0, &err) < 0)
        log_warning("execution without events: %s", err.msg);
}

static enum hook_verdict
on_tick(void *ctx)
{
    struct exec_run *run = ctx;
    struct http_exchange *x = run->call->x;

    if (!run->gone && x->carrier->gone(x->carrier_ctx))
        run->gone = true;
    if (!run->gone && run->begun && run->stream && sse_pump(&run->sse) == SSE_GONE)
        run->gone = true;
    if (!run->gone)
        return HOOK_GO_ON;
    x->broken = true;
    return run->stop_early ? HOOK_CLIENT_GONE : HOOK_GO_ON;
}

static int
on_extra_fd(void *ctx, struct pollfd *ret)
{
    struct exec_run *run = ctx;
    struct http_exchange *x = run->call->x;

    if (run->gone) /* it would be ready for ever */
        return 0;
    return x->carrier->pollfd(x->carrier_ctx, run->begun && run->stream && run->sse.out.len > 0,
                              ret);
}

/* What the answer tells of the session: nothing but its name when it is closed with the call. */
static const struct session *
session_of(const struct exec_outcome *o)
{
    return o->closes ? NULL : &o->session;
}

static int
on_render(void *ctx, const struct exec_outcome *o, bool full, struct buf *out)
{
    const struct exec_run *run = ctx;
    size_t max = full ? render_result_max(&run->call->api->o) : SPOOL_PAYLOAD_MAX;

    if (out->max > max)
        out->max = max;
    return render_result(&run->call->api->o, &o->row, &o->result, session_of(o), full, out);
}

static void
count(struct api_call *c, const struct exec_outcome *o)
{
    struct score_slot *slot = c->api->o.slot;

    if (slot == NULL || o->row.reason >= SCORE_REASONS)
        return;
    slot->executions[o->row.reason]++;
    score_observe(&slot->exec_time, o->row.duration_ms * 1000);
}

static void
answer(struct api_call *c, struct exec_run *run, struct exec_outcome *o)
{
    _cleanup_buf_ struct buf json = BUF_INIT(render_result_max(&c->api->o));

    log_set_execution(o->row.eid);
    if (o->replayed) {
        http_add_header(c->x, "Idempotent-Replayed", "true");
        if (run->stream)
            follow_stream(c, &o->row, 0);
        else
            follow_result(c, &o->row);
        return;
    }
    count(c, o);
    if (run->gone)
        return;
    if (run->stream) {
        run->sse.untold_bytes = o->untold_bytes;
        sse_end(&run->sse, &o->row, &o->result, session_of(o), 0);
        return;
    }
    (void)render_result(&c->api->o, &o->row, &o->result, session_of(o), true, &json);
    api_send_json(c, 200, &json);
}

/* The Idempotency-Key, checked; NULL if none was sent. */
static int
idempotency_key(struct api_call *c, const char **ret, struct err *err)
{
    const char *key = http_header(c->x, "idempotency-key");
    size_t n = key != NULL ? strlen(key) : 0;

    *ret = key;
    if (key == NULL)
        return 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)key[i] <= 0x20 || (unsigned char)key[i] >= 0x7f)
            n = 0;
    if (n == 0 || n > IDEMPOTENCY_KEY_MAX)
        return err_slug(err, ERR_INVALID, "bad_header",
                        "the header Idempotency-Key must be 1 to %d visible ASCII characters",
                        IDEMPOTENCY_KEY_MAX);
    return 0;
}

/* What the headers say about the run. */
static int
read_headers(struct api_call *c, struct execution_request *r, struct err *err)
{
    const char *key;

    if (idempotency_key(c, &key, err) < 0)
        return -1;
    r->request_id = c->x->req.request_id;
    r->client_request_id = c->x->req.client_request_id;
    r->idempotency_key = key;
    if (key != NULL) /* whoever can ask again wants it run to its end */
        r->on_disconnect = DISCONNECT_CONTINUE;
    return 0;
}

static struct exec_limits
limits_of(const struct api_options *o)
{
    return (struct exec_limits){o->max_code_bytes, o->exec_timeout_ms, o->max_exec_timeout_ms};
}

static struct exec_callbacks
callbacks_of(struct exec_run *run)
{
    return (struct exec_callbacks){.ctx = run,
                                   .begun = on_begun,
                                   .tick = on_tick,
                                   .extra_fd = on_extra_fd,
                                   .render = on_render};
}

/* Ends the call; rc and err are the manager's. */
static void
finish(struct exec_run *run, int rc, struct exec_outcome *outcome, const struct err *err)
{
    if (rc < 0) {
        if (!run->gone)
            api_problem(run->call, err);
    } else {
        answer(run->call, run, outcome);
        exec_outcome_done(outcome);
    }
    sse_done(&run->sse);
}

int
api_run_once(struct api_call *c, struct once_request *r, struct exec_outcome *ret, bool *ret_gone,
             struct err *err)
{
    struct exec_run run = {.call = c, .stop_early = true};
    const struct exec_callbacks cb = callbacks_of(&run);
    int rc;

    r->exec.request_id = c->x->req.request_id;
    r->exec.client_request_id = c->x->req.client_request_id;
    rc = manager_exec_once(c->api->o.manager, &c->caller, r, &cb, ret, err);
    if (rc == 0)
        count(c, ret);
    *ret_gone = run.gone;
    return rc;
}

void
handle_exec(struct api_call *c)
{
    struct exec_run run = {.call = c, .stream = wants_stream(c)};
    const struct exec_callbacks cb = callbacks_of(&run);
    const struct exec_limits limits = limits_of(&c->api->o);
    _cleanup_buf_ struct buf text = BUF_INIT((size_t)limit_exec_body(c->api->o.max_code_bytes));
    _cleanup_(exec_body_done) struct exec_body body = {0};
    struct exec_outcome outcome = {0};
    struct err err = ERR_INIT;
    const char *name;
    int rc;

    if (api_session_name(c, &name, &err) < 0 || api_read_json(c, text.max, &text, &err) < 0 ||
        decode_exec(buf_str(&text), text.len, &limits, &body, &err) < 0 ||
        read_headers(c, &body.req, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    log_set_session(name);
    run.stop_early = body.req.on_disconnect == DISCONNECT_INTERRUPT;
    rc = manager_exec(c->api->o.manager, &c->caller, name, &body.req, &cb, &outcome, &err);
    finish(&run, rc, &outcome, &err);
}

void
handle_exec_once(struct api_call *c)
{
    const struct api_options *o = &c->api->o;
    struct exec_run run = {.call = c, .stream = wants_stream(c)};
    const struct exec_callbacks cb = callbacks_of(&run);
    const struct once_limits limits = {limits_of(o), o->max_input_bytes};
    _cleanup_buf_ struct buf text =
        BUF_INIT((size_t)limit_once_body(o->max_code_bytes, o->max_input_bytes));
    _cleanup_(once_body_done) struct once_body body = {0};
    struct exec_outcome outcome = {0};
    struct err err = ERR_INIT;
    int rc;

    if (api_read_json(c, text.max, &text, &err) < 0 ||
        decode_once(buf_str(&text), text.len, &limits, &body, &err) < 0 ||
        read_headers(c, &body.req.exec, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    run.stop_early = body.req.exec.on_disconnect == DISCONNECT_INTERRUPT;
    rc = manager_exec_once(o->manager, &c->caller, &body.req, &cb, &outcome, &err);
    finish(&run, rc, &outcome, &err);
}
