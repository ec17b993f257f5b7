/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/coderun.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "json/writer.h"
#include "sandbox/daytona/api.h"
#include "sandbox/daytona/daytona.h"
#include "sandbox/daytona/toolbox.h"

#define CODE_BYTES (16u * 1024 * 1024)
#define REQUEST_BYTES (2 * CODE_BYTES)
#define COMMAND_BYTES 512
#define CHARTS_MAX 200
#define PID_FILE "/tmp/.husk-run"
#define AGAIN_MS 2000   /* after the interrupt, before the kill */
#define GIVE_UP_MS 7000 /* after the interrupt */
#define BACKSTOP_S 20   /* beyond our own deadline: the toolbox's own */
#define SIGNAL_MS 2000  /* how long sending one may take */
#define TRACEBACK "Traceback (most recent call last):"

/* Before and behind the code's text; what it makes is of names that only it sees. */
static const char PROLOGUE[] = "import os, sys\n"
                               "os.makedirs('" DAYTONA_WORKSPACE "', exist_ok=True)\n"
                               "os.chdir('" DAYTONA_WORKSPACE "')\n"
                               "sys.path.insert(0, '')\n"
                               "with open('" PID_FILE "', 'w') as f:\n"
                               "    f.write(str(os.getpid()))\n"
                               "exec(compile(";
static const char EPILOGUE[] =
    ", '<string>', 'exec'), {'__name__': '__main__', '__builtins__': __builtins__})\n";

/* The body of the call. The code goes along as a text that is compiled by itself, in the workspace,
 * so that what must stand first in it (from __future__ …) does. */
static void
write_request(struct buf *out, const char *code, size_t n, int64_t timeout_s)
{
    _cleanup_buf_ struct buf text = BUF_INIT(REQUEST_BYTES);
    struct json_writer w;

    (void)buf_puts(&text, PROLOGUE);
    jw_init(&w, &text);
    jw_string_n(&w, NULL, code, n); /* the escapes of JSON are among Python's */
    (void)buf_puts(&text, EPILOGUE);
    if (text.failed) {
        out->failed = 1;
        return;
    }
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_string_n(&w, "code", text.data, text.len);
    jw_string(&w, "language", "python");
    jw_i64(&w, "timeout", timeout_s);
    jw_end_object(&w);
}

/* A picture as the display that it would be where there is state. */
static void
take_chart(struct output *out, json_val chart)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct rich_source m = {.kind = RICH_DISPLAY};
    struct json_doc *doc = NULL;
    struct json_writer w;
    size_t n = 0;

    if (json_string(json_member(chart, "png"), &n) == NULL)
        return;
    buf_init(&text, 2 * n + 65536);
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_object(&w, "data");
    jw_value(&w, "image/png", json_member(chart, "png"));
    jw_end_object(&w);
    jw_object(&w, "metadata");
    if (json_type(json_member(chart, "type")) == JSON_STRING)
        jw_value(&w, "type", json_member(chart, "type"));
    if (json_type(json_member(chart, "title")) == JSON_STRING)
        jw_value(&w, "title", json_member(chart, "title"));
    jw_end_object(&w);
    jw_end_object(&w);
    if (text.failed || json_parse(text.data, text.len, 10, 0, &doc, NULL) < 0) {
        output_lost_rich(out, n);
        return;
    }
    m.content = json_root(doc);
    m.size = text.len;
    output_rich(out, &m);
    json_free(doc);
}

/* The last traceback in the text: its last line that is not indented names the exception. */
static void
take_exception(struct output *out, const char *p, size_t n, int64_t status)
{
    struct failure f = {0};
    const char *last = NULL, *line = NULL, *end = p + n;

    for (const char *at = p; (at = memmem(at, (size_t)(end - at), TRACEBACK, strlen(TRACEBACK)));
         at++)
        last = at;
    for (const char *at = last; at != NULL && at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        if (at != last && *at != ' ' && *at != '\n') {
            line = at;
            break;
        }
        at = stop != NULL ? stop + 1 : end;
    }
    if (line == NULL) {
        char value[64];

        (void)snprintf(value, sizeof value, "%lld", (long long)status);
        f.name = xstrdup("SystemExit");
        f.value = xstrdup(value);
    } else {
        failure_lines(&f, last, (size_t)(end - last), line);
    }
    output_error(out, &f);
}

bool
coderun_take(struct output *out, json_val answer, int64_t *ret_status)
{
    size_t n = 0;
    const char *p = json_string(json_member(answer, "result"), &n);
    json_val charts = json_member(json_member(answer, "artifacts"), "charts");

    if (p == NULL ||
        json_i64(json_member(answer, "exitCode"), INT32_MIN, INT32_MAX, ret_status) != 1)
        return false;
    output_text(out, false, p, n);
    for (size_t i = 0; json_type(charts) == JSON_ARRAY && i < json_length(charts) && i < CHARTS_MAX;
         i++)
        take_chart(out, json_item(charts, i));
    if (*ret_status != 0)
        take_exception(out, p, n, *ret_status);
    return true;
}

/* ---- the call ---- */

struct run {
    struct daytona *dt;
    const struct exec_hooks *hooks;
    const char *id;
    struct output *out;
    struct deadline deadline;
    enum exec_reason forced;
    int64_t stop_ms;
    int64_t status; /* of the process */
    bool killed;
    bool answered;
};

/* A signal to the run's process, beside the call under way. */
static void
send_signal(struct run *r, const char *name)
{
    _cleanup_buf_ struct buf body = BUF_INIT(COMMAND_BYTES);
    char command[120];
    struct err why = ERR_INIT;

    (void)snprintf(command, sizeof command, "sh -c 'kill -%s $(cat " PID_FILE ")'", name);
    toolbox_command(&body, command);
    if (toolbox_aside(r->dt, r->id, "/process/execute", buf_str(&body), deadline_in(SIGNAL_MS),
                      &why) < 0)
        log_warning("sandbox %s: %s", r->id, why.msg);
}

/* true: enough waited. */
static bool
stop(struct run *r, enum hook_verdict v)
{
    int64_t now = clock_mono_ms();

    if (r->forced == REASON_NONE) {
        if (v != HOOK_GO_ON)
            r->forced = v == HOOK_INTERRUPT ? REASON_INTERRUPTED : REASON_CLIENT_GONE;
        else if (deadline_passed(r->deadline))
            r->forced = REASON_TIMEOUT;
        if (r->forced == REASON_NONE)
            return false;
        r->stop_ms = now;
        send_signal(r, "INT");
    } else if (!r->killed && now - r->stop_ms >= AGAIN_MS) {
        r->killed = true;
        send_signal(r, "KILL");
    }
    return now - r->stop_ms >= GIVE_UP_MS;
}

/* 1 answered (*a), 0 given up, -1 the connection failed: what became of the run is not known. */
static int
await(struct run *r, struct rest_reply *a)
{
    struct err why = ERR_INIT;

    for (;;) {
        enum hook_verdict v = turn_wait(&r->dt->turn, r->dt->pool, r->hooks, 10);
        int rc = rest_step(r->dt->toolbox, a, &why);

        if (rc < 0)
            log_warning("sandbox %s: %s", r->id, why.msg);
        if (rc != 0)
            return rc;
        if (stop(r, v)) {
            rest_cancel(r->dt->toolbox);
            return 0;
        }
    }
}

static void
heed(struct run *r, const struct rest_reply *a)
{
    struct json_doc *doc = NULL;

    if (a->status == 408) {
        r->forced = r->forced == REASON_NONE ? REASON_TIMEOUT : r->forced;
        return;
    }
    if (a->status == 200 && api_parse(a, "run code", &doc, NULL) == 0) {
        r->answered = coderun_take(r->out, json_root(doc), &r->status);
        json_free(doc);
    }
    if (!r->answered && r->forced == REASON_NONE)
        r->forced = REASON_GATEWAY_LOST;
}

static void
conclude(struct run *r, struct execution_result *ret)
{
    if (output_bytes(r->out) > r->dt->o.flood_bytes && r->forced == REASON_NONE)
        r->forced = REASON_OUTPUT_LIMIT;
    output_take(r->out, NULL, ret);
    ret->execution_count = -1;
    ret->ok = r->forced == REASON_NONE && r->status == 0;
    ret->reason = r->forced != REASON_NONE ? r->forced
                  : r->status != 0         ? REASON_EXCEPTION
                                           : REASON_COMPLETED;
    ret->exit_code = r->forced != REASON_NONE ? -1 : r->status != 0 ? 1 : 0;
    ret->incomplete = !r->answered;
}

/* 0 it goes, or -1: the box is asleep or gone ("runtime_gone"), or it cannot be reached. */
static int
begin(struct run *r, const struct execution_request *req, struct err *err)
{
    _cleanup_buf_ struct buf body = BUF_INIT(REQUEST_BYTES + CODE_BYTES);
    struct err why = ERR_INIT;
    struct rest_reply a;
    struct deadline d = deadline_in(req->timeout_ms + (BACKSTOP_S + 10) * 1000);

    write_request(&body, req->code, req->code_len, req->timeout_ms / 1000 + BACKSTOP_S);
    if (buf_check(&body, "the code as it travels", err) < 0)
        return -1;
    /* A look first: the call itself cannot tell a sleeping box from code that was not liked. */
    if (toolbox_ask(r->dt, r->id, "GET", "/files/info?path=%2Ftmp", NULL, "answer", r->deadline, &a,
                    &why) < 0 ||
        api_judge(&a, "the sandbox", "answer", &why) < 0) {
        (void)toolbox_look_into(r->dt, r->id, r->deadline, &why);
        if (err != NULL)
            *err = why;
        if (err != NULL && why.code == ERR_CONFLICT)
            err->slug = "runtime_gone";
        return -1;
    }
    return toolbox_begin(r->dt, r->id, "POST", "/process/code-run", buf_str(&body), d, err);
}

int
daytona_code_run(struct daytona *dt, const char *id, const struct execution_request *req,
                 const struct exec_hooks *hooks, struct execution_result *ret, struct err *err)
{
    struct run r = {.dt = dt, .hooks = hooks, .id = id, .deadline = deadline_in(req->timeout_ms)};
    struct turn_events events = {&dt->turn, hooks};
    struct output_options o = {.max_output_bytes = dt->o.max_output_bytes,
                               .ctx = &events,
                               .event =
                                   hooks != NULL && hooks->event != NULL ? turn_hand_on : NULL};
    struct rest_reply a;
    int rc;

    if (begin(&r, req, err) < 0)
        return -1;
    r.out = output_new(&o);
    dt->turn.ticked_ms = 0;
    rc = await(&r, &a);
    if (rc > 0)
        heed(&r, &a);
    else if (r.forced == REASON_NONE)
        r.forced = REASON_GATEWAY_LOST;
    conclude(&r, ret);
    output_free(r.out);
    return 0;
}
