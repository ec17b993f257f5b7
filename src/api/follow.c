/* SPDX-License-Identifier: MIT */
#include "api/follow.h"

#include <poll.h>

#include "api/render.h"
#include "api/sse.h"
#include "base/fd.h"

#define POLL_MS 25          /* how often a running one's spool is looked at */
#define SETTLE_MS 1000      /* how often its row is, and whether anybody still runs it */
#define ENDED_GRACE_MS 2000 /* between the row's end and the spool's, or the result's */

/* Waits a little; ends early when the peer moves. true: it is gone. */
static bool
wait_peer(struct api_call *c, bool write)
{
    struct pollfd p;

    if (c->x->carrier->pollfd(c->x->carrier_ctx, write, &p) == 1)
        (void)poll(&p, 1, POLL_MS);
    else
        (void)poll(NULL, 0, POLL_MS);
    return c->x->carrier->gone(c->x->carrier_ctx);
}

/* Brings the row up to date now and then; true once it has been over for the grace. */
struct pace {
    int64_t settled_ms, ended_ms;
};

static bool
over(struct api_call *c, struct execution *row, struct pace *pace)
{
    int64_t now = clock_mono_ms();

    if (row->reason == REASON_NONE && now - pace->settled_ms >= SETTLE_MS) {
        struct err err = ERR_INIT;
        struct execution fresh;

        pace->settled_ms = now;
        api_renew(c);
        if (manager_execution_get(c->api->o.manager, &c->caller, row->eid, &fresh, &err) == 0) {
            *row = fresh;
            (void)manager_execution_settle(c->api->o.manager, row, &err);
        }
    }
    if (row->reason != REASON_NONE && pace->ended_ms == 0)
        pace->ended_ms = now;
    return pace->ended_ms != 0 && now - pace->ended_ms >= ENDED_GRACE_MS;
}

static void
end_stream(struct api_call *c, struct sse *s, struct execution *row, int64_t after_seq)
{
    struct session session = {0};
    struct execution_result r;
    struct err err = ERR_INIT;
    struct execution fresh;
    bool known;

    if (row->reason == REASON_NONE &&
        manager_execution_get(c->api->o.manager, &c->caller, row->eid, &fresh, &err) == 0)
        *row = fresh;
    if (row->reason == REASON_NONE)
        row->reason = REASON_ABORTED;
    known =
        manager_get(c->api->o.manager, &c->caller, row->session_name, false, &session, &err) == 0;
    result_of_row(row, &r);
    sse_end(s, row, &r, known ? &session : NULL, after_seq);
    execution_result_done(&r);
    session_done(&session);
}

/* Sends events until the end; false: the peer is gone or takes nothing. */
static bool
follow_events(struct api_call *c, struct sse *s, struct execution *row)
{
    int64_t stall = c->api->o.stall_ms > 0 ? c->api->o.stall_ms : 60000;
    struct pace pace = {.ended_ms = row->reason != REASON_NONE ? clock_mono_ms() : 0};

    for (;;) {
        enum sse_state st = sse_pump(s);

        /* Without a result (it did not fit) the row says how it ended, perhaps in a moment. */
        if (st == SSE_ENDED && (s->result_seen || row->reason != REASON_NONE))
            return true;
        if (st == SSE_GONE)
            return false;
        if (st == SSE_PENDING && clock_mono_ms() - s->moved_ms >= stall) {
            c->x->carrier->break_off(c->x->carrier_ctx);
            c->x->broken = true;
            return false;
        }
        if (over(c, row, &pace) && st == SSE_IDLE)
            return true;
        if (st == SSE_PENDING)
            api_renew(c);
        if (wait_peer(c, st == SSE_PENDING)) {
            c->x->broken = true;
            return false;
        }
    }
}

/* A run that has just begun makes its spool in a moment. */
static int
open_spool(struct api_call *c, struct execution *row, int64_t after_seq, struct spool_reader **ret,
           struct err *err)
{
    struct deadline d = deadline_in(ENDED_GRACE_MS);

    for (;;) {
        int rc = spool_open(c->api->o.spool_dir, row->eid, after_seq, ret, err);

        if (rc == 0 || err->code != ERR_NOT_FOUND || row->reason != REASON_NONE ||
            deadline_passed(d) || wait_peer(c, false))
            return rc;
        *err = (struct err)ERR_INIT;
    }
}

void
follow_stream(struct api_call *c, struct execution *row, int64_t after_seq)
{
    struct err err = ERR_INIT;
    struct spool_reader *probe = NULL;
    struct sse s;

    /* Whether there is anything to follow must be known before the head goes out.  Of a run whose
     * worker died before it had made the spool there is the end. */
    if (open_spool(c, row, after_seq, &probe, &err) < 0 &&
        !(err.code == ERR_NOT_FOUND && row->reason == REASON_ABORTED)) {
        if (err.code == ERR_NOT_FOUND)
            (void)err_slug(&err, ERR_NOT_FOUND, "events_gone",
                           "the events of execution %s are not kept any longer", row->eid);
        api_problem(c, &err);
        return;
    }
    if (sse_begin(&s, c) == 0 && c->x->req.method != HTTP_HEAD) {
        s.reader = steal_ptr(probe);
        s.last_seq = after_seq;
        if (s.reader == NULL || follow_events(c, &s, row))
            end_stream(c, &s, row, after_seq);
    }
    spool_reader_free(probe);
    sse_done(&s);
}

static void
send_kept(struct api_call *c, const struct execution *row)
{
    _cleanup_buf_ struct buf json = BUF_INIT(render_result_max(&c->api->o));
    struct session session = {0};
    struct execution_result r;
    struct err err = ERR_INIT;
    int rc = spool_get_result(c->api->o.spool_dir, row->eid, &json, &err);

    if (rc < 0) {
        bool known = manager_get(c->api->o.manager, &c->caller, row->session_name, false, &session,
                                 &err) == 0;

        buf_clear(&json);
        result_of_row(row, &r);
        (void)render_result(&c->api->o, row, &r, known ? &session : NULL, true, &json);
        execution_result_done(&r);
        session_done(&session);
    }
    api_send_json(c, 200, &json);
}

void
follow_result(struct api_call *c, struct execution *row)
{
    const struct api_options *o = &c->api->o;
    struct deadline d =
        deadline_in(limit_exec_ms(o->start_timeout_ms, o->turn_wait_ms, o->max_exec_timeout_ms));
    _cleanup_buf_ struct buf kept = BUF_INIT(render_result_max(&c->api->o));
    struct pace pace = {0};
    struct err err = ERR_INIT;

    while (!over(c, row, &pace)) {
        if (row->reason != REASON_NONE &&
            spool_get_result(c->api->o.spool_dir, row->eid, &kept, &err) == 0)
            break;
        buf_clear(&kept);
        if (wait_peer(c, false)) {
            c->x->broken = true;
            return;
        }
        if (deadline_passed(d)) {
            (void)err_set(&err, ERR_TIMEOUT, "execution %s still runs", row->eid);
            api_problem(c, &err);
            return;
        }
    }
    send_kept(c, row);
}
