/* SPDX-License-Identifier: MIT */
#include "manager/run.h"

#include <poll.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "store/execution_store.h"
#include "store/runtime_store.h"

#define ASKED_EVERY_MS 150
/* Beyond the code's own deadline: two interrupts and the kill (5 s), answer out (5 s), the end of
 * the runtime confirmed. */
#define RUN_GRACE_MS 15000
#define EVENT_JSON_MAX 512
#define REPLACED_MAX 4 /* runtimes in one run */
/* How long the end of a run is tried to be recorded while the database is busy or its disk full. */
#define RECORD_TRY_MS 10000
#define RECORD_PAUSE_MS 100

/* What the caller says, as far as it counts for this run. */
static enum hook_verdict
verdict(struct run *r)
{
    enum hook_verdict v = r->cb->tick ? r->cb->tick(r->cb->ctx) : HOOK_GO_ON;

    return v == HOOK_CLIENT_GONE && r->goes_on ? HOOK_GO_ON : v;
}

bool
run_given_up(void *run)
{
    return verdict(run) != HOOK_GO_ON;
}

static void
write_event(struct run *r, const struct exec_event *ev)
{
    int64_t seq = r->seq + 1;

    if (r->spool)
        (void)spool_append(r->spool, ev, &seq);
    r->seq = seq;
    if (r->cb->event)
        r->cb->event(r->cb->ctx, ev, seq);
}

/*
 * Makes the spool and tells the caller that the run has begun.  It comes with the first turn of the
 * wait, before any event, when the code is on its way already: making a file can take as long as
 * all else here, and so it does while the kernel works.
 */
static void
announce(struct run *r)
{
    _cleanup_buf_ struct buf json = BUF_INIT(EVENT_JSON_MAX);
    struct err err = ERR_INIT;
    char started[CLOCK_RFC3339_SIZE];
    struct exec_event ev = {.type = EVENT_EXECUTION};

    if (r->announced)
        return;
    r->announced = true;
    if (spool_create(r->m->o.spool_dir, r->row.eid, r->m->o.spool_bytes, &r->spool, &err) < 0)
        log_warning("the events of execution %s are not kept: %s", r->row.eid, err.msg);
    if (r->cb->begun)
        r->cb->begun(r->cb->ctx, &r->row, &r->s);
    clock_rfc3339(r->row.started_at, started);
    /* All three are of alphabets that need no escaping. */
    (void)buf_printf(&json, "{\"execution_id\":\"%s\",\"session_id\":\"%s\",\"started_at\":\"%s\"}",
                     r->row.eid, r->s.name, started);
    ev.p = json.data;
    ev.n = json.len;
    write_event(r, &ev);
}

static void
on_event(void *ctx, const struct exec_event *ev)
{
    struct run *r = ctx;

    announce(r);
    write_event(r, ev);
}

static enum hook_verdict
on_tick(void *ctx)
{
    struct run *r = ctx;
    enum hook_verdict v;
    int64_t now = clock_mono_ms();

    announce(r);
    v = verdict(r);
    if (!r->asked && now - r->asked_looked_ms >= ASKED_EVERY_MS) {
        r->asked_looked_ms = now;
        r->asked = execution_store_interrupt_asked(r->m->db, r->row.eid, NULL) > 0;
    }
    return v == HOOK_GO_ON && r->asked ? HOOK_INTERRUPT : v;
}

static int
on_extra_fd(void *ctx, struct pollfd *ret)
{
    struct run *r = ctx;

    return r->cb->extra_fd ? r->cb->extra_fd(r->cb->ctx, ret) : 0;
}

static int
attempt(struct run *r, struct execution_result *res, struct err *err)
{
    const struct exec_hooks hooks = {
        .ctx = r, .event = on_event, .tick = on_tick, .extra_fd = on_extra_fd};
    char dir[PATH_MAX];
    struct runtime_ref ref;
    struct sandbox *sb = NULL;

    if (manager_backend_of(r->m, &r->s, &sb, err) < 0 ||
        runtime_ref_of(r->m, &r->s, dir, &ref, err) < 0 ||
        evidence_before(&r->evidence, r->m, sb, r->s.handle, err) < 0)
        return -1;
    manager_promise(r->m, r->req->timeout_ms + RUN_GRACE_MS + r->m->o.sandbox.http_timeout_ms * 2);
    if (sb->ops->exec(sb, &ref, r->req, &hooks, res, err) < 0)
        return -1;
    r->bound = ref.dir != NULL;
    return 0;
}

/* Shall the code that was not sent go to another runtime? One of the pool that fails before it was
 * of any use is worth no more than one that is gone. */
static bool
needs_another(const struct run *r, const struct err *err)
{
    return (err->slug && strcmp(err->slug, "runtime_gone") == 0) ||
           (r->s.unbound && (err->code == ERR_TIMEOUT || err->code == ERR_INTERNAL));
}

/* Nothing was sent, but there is a row: it ends with a reason like any other. */
static void
result_of_failure(const struct run *r, const struct err *err, struct execution_result *res)
{
    log_warning("nothing ran: %s", err->msg);
    execution_result_done(res);
    execution_result_init(res);
    res->ok = false;
    res->exit_code = -1;
    res->execution_count = -1;
    switch (err->code) {
    case ERR_ABORTED:
        res->reason = r->asked ? REASON_INTERRUPTED : REASON_CLIENT_GONE;
        break;
    case ERR_TIMEOUT:
        res->reason = REASON_TIMEOUT;
        break;
    case ERR_CONFLICT:
        res->reason = REASON_KERNEL_DIED;
        break;
    default:
        res->reason = REASON_GATEWAY_LOST;
    }
}

/* Nothing was sent, as a runtime whose backend answers was silent to the end: what an earlier run
 * left there may keep it from all that comes.  Does it go on in spite of an interrupt? */
static bool
is_held_up(struct run *r, const struct err *err)
{
    const struct runtime_ref ref = {.handle = r->s.handle, .kernel_session = r->s.kernel_session};
    struct sandbox *sb = NULL;
    struct err why = ERR_INIT;

    return err->code == ERR_TIMEOUT && !err->slug && r->s.handle[0] &&
           manager_backend_of(r->m, &r->s, &sb, &why) == 0 && sb->files != FILES_KEYED &&
           sb->ops->interrupt(sb, &ref, interrupt_deadline(r->m), &why) < 0 &&
           why.code == ERR_TIMEOUT;
}

static int
replace_runtime(struct run *r, struct wait *w, struct err *err)
{
    int lost = runtime_had_state(r->m, &r->s, r->row.eid);

    log_info("the runtime of the session was lost; it gets another: %s", err->msg);
    *err = (struct err)ERR_INIT;
    return runtime_replace_begin(r->m, &r->s, lost, err) < 0 ? -1
                                                             : runtime_make(r->m, &r->s, w, err);
}

/* The code, in the runtime that is there or, when that turns out to be gone, once in a new one. Of
 * those of the pool, which may have died together, a few are tried. */
static void
send_code(struct run *r, struct execution_result *res)
{
    struct wait w = {.d = deadline_in(r->m->o.start_timeout_ms), .gone = run_given_up, .ctx = r};
    struct err err = ERR_INIT;
    bool held_up;

    for (int i = 0;; i++) {
        if (attempt(r, res, &err) == 0)
            return;
        if (i == REPLACED_MAX || (i > 0 && !r->s.unbound) || !needs_another(r, &err) ||
            replace_runtime(r, &w, &err) < 0)
            break;
    }
    held_up = is_held_up(r, &err);
    result_of_failure(r, &err, res);
    res->runtime_invalidated = held_up;
}

static void
fill_row(struct run *r, const struct execution_result *res)
{
    struct execution *row = &r->row;
    size_t n = res->error_name ? strlen(res->error_name) : 0;

    row->duration_ms = clock_mono_ms() - r->began_ms;
    row->ok = res->ok;
    row->reason = res->reason;
    row->bytes_stdout = res->bytes_stdout;
    row->bytes_stderr = res->bytes_stderr;
    row->bytes_rich = res->bytes_rich;
    row->truncated = res->truncated;
    row->runtime_invalidated = res->runtime_invalidated;
    if (n >= sizeof row->error_name)
        n = utf8_cut(res->error_name, sizeof row->error_name - 1);
    if (n > 0)
        memcpy(row->error_name, res->error_name, n);
    row->error_name[n] = '\0';
}

/* The session as the answer shows it: the row is written after the result is, so that whoever
 * finds the execution ended also finds its result. */
static void
foresee(struct run *r, struct exec_outcome *out, bool tell, const struct db_now *now)
{
    struct session *s = &out->session;

    out->closes = r->req->closes;
    *s = r->s;
    s->labels = xstrdup(r->s.labels ? r->s.labels : "{}");
    s->busy_execution[0] = '\0';
    s->busy_since = 0;
    s->state_lost = tell;
    s->last_work_at = now->wall_ms;
    s->last_work_boot_ms = now->boot_ms;
    if (s->state != SESSION_CLOSING)
        s->state = s->handle[0] ? SESSION_READY : SESSION_COLD;
    session_derive(r->m, s);
}

/* Room for text, errors and pictures, each up to the output's bound and escaped. */
static size_t
result_max(const struct manager *m)
{
    return (size_t)m->o.sandbox.max_output_bytes * 20 + (1U << 20);
}

static struct spool_end
said_end(const struct execution *row, bool take_state_lost)
{
    struct spool_end e = {.ended_at = row->ended_at,
                          .duration_ms = row->duration_ms,
                          .ok = row->ok,
                          .reason = row->reason,
                          .bytes_stdout = row->bytes_stdout,
                          .bytes_stderr = row->bytes_stderr,
                          .bytes_rich = row->bytes_rich,
                          .truncated = row->truncated,
                          .runtime_invalidated = row->runtime_invalidated,
                          .state_lost_told = take_state_lost};

    memcpy(e.error_name, row->error_name, sizeof e.error_name);
    return e;
}

/* Into the spool: the result, and how the run ended for whoever settles it should this process not
 * get to write its row. */
static void
record(struct run *r, struct exec_outcome *out, bool take_state_lost)
{
    struct buf whole = BUF_INIT(result_max(r->m)), rest = BUF_INIT(result_max(r->m));
    struct exec_event ev = {.type = EVENT_RESULT};
    struct spool_end end = said_end(&r->row, take_state_lost);
    struct err err = ERR_INIT;
    bool kept;

    announce(r); /* what could not even be sent has events as well */
    if (r->cb->render && r->cb->render(r->cb->ctx, out, false, &rest) == 0) {
        ev.p = rest.data;
        ev.n = rest.len;
        write_event(r, &ev);
    }
    buf_done(&rest);
    if (!r->spool)
        return;
    out->untold_bytes = spool_untold(r->spool);
    kept = r->cb->render && r->cb->render(r->cb->ctx, out, true, &whole) == 0;
    if (spool_finish(r->spool, &end, kept ? buf_str(&whole) : NULL, whole.len, &err) < 0)
        log_warning("the result of execution %s is not kept: %s", r->row.eid, err.msg);
    buf_done(&whole);
    r->spool = NULL;
}

/* The caller is told how the run ended and the row shall say the same. What would pass (another's
 * long transaction, a full disk) is waited for; after that whoever meets the session finds a run
 * without a holder and calls it aborted. */
static int
record_end(struct run *r, unsigned flags, struct session *after, struct err *err)
{
    struct deadline d = DEADLINE_NEVER;

    for (bool first = true;; first = false) {
        struct db_now now = manager_now(r->m);
        int n;

        *err = (struct err)ERR_INIT;
        n = execution_store_finish(r->m->db, &r->row, flags, &now, after, err);
        if (n >= 0 || err->code != ERR_UNAVAILABLE || deadline_passed(d))
            return n;
        if (first) {
            d = deadline_in(RECORD_TRY_MS);
            manager_promise(r->m, RECORD_TRY_MS + RUN_GRACE_MS);
        }
        (void)poll(NULL, 0, RECORD_PAUSE_MS);
    }
}

void
run_code(struct run *r, struct exec_outcome *out)
{
    struct session after = {0};
    struct err err = ERR_INIT;
    struct db_now now;
    bool tell, lost;
    int n;

    r->began_ms = clock_mono_ms();
    execution_result_init(&out->result);
    send_code(r, &out->result);
    evidence_after(&r->evidence, r->m, r->s.handle, &out->result);
    fill_row(r, &out->result);
    tell = r->s.state_lost;
    lost = out->result.runtime_invalidated;
    capture_runtime(&r->capture, r->s.handle);
    if (lost && runtime_replace_begin(r->m, &r->s, 1, &err) < 0)
        log_warning("a runtime that must go is left to the next call: %s", err.msg);
    out->result.once = r->req->once;
    out->result.inputs = r->req->inputs;
    out->result.n_inputs = r->req->n_inputs;
    capture_end(r->m, &r->capture, r->req, &r->row, &out->result.artifacts);
    now = manager_now(r->m);
    r->row.ended_at = now.wall_ms;
    out->row = r->row;
    foresee(r, out, tell, &now);
    record(r, out, !lost);
    /* What this very run lost is told with the next answer, which begins anew. */
    n = record_end(r, (lost ? 0U : FINISH_TELLS_LOST) | (r->bound ? FINISH_BOUND : 0U), &after,
                   &err);
    if (n < 0)
        log_error("the end of execution %s is not recorded: %s", r->row.eid, err.msg);
    else if (n == 0)
        log_warning("execution %s had been recorded as aborted", r->row.eid);
    if (n <= 0)
        return;
    session_done(&out->session);
    out->session = after;
    out->session.state_lost = tell;
    session_derive(r->m, &out->session);
}
