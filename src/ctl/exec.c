/* SPDX-License-Identifier: MIT */
/* Code run in a session by the operator, from this process: its rights are those of the owner's. */
#include "ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/render.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/num.h"
#include "base/sig.h"

#define NO_EXIT_CODE 255 /* the kernel went before there was one */

struct ctl_run {
    int signals; /* SIGINT and SIGTERM interrupt the code */
    bool stop;
    bool quiet;               /* --json: nothing is printed on the way */
    struct api_options shown; /* what a result says about the service, and its bounds */
};

static int
read_code(const char *file, size_t max, struct buf *ret, struct err *err)
{
    bool standard = !file || strcmp(file, "-") == 0;
    _cleanup_close_ int fd = standard ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, ERR_INVALID, errno, "%s", standard ? "standard input" : file);
    for (;;) {
        char chunk[16384];
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, ERR_INVALID, errno, "%s", standard ? "standard input" : file);
        if (n == 0)
            return 0;
        if (ret->len + (size_t)n > max || buf_append(ret, chunk, (size_t)n) < 0)
            return err_set(err, ERR_LIMIT, "the code is longer than %zu bytes", max);
    }
}

static enum hook_verdict
on_tick(void *ctx)
{
    struct ctl_run *run = ctx;
    if (sig_next(run->signals))
        run->stop = true;
    return run->stop ? HOOK_INTERRUPT : HOOK_GO_ON;
}

static void
on_event(void *ctx, const struct exec_event *ev, int64_t seq)
{
    const struct ctl_run *run = ctx;
    (void)seq;
    /* A reader that is gone ends nothing: the run goes on and its end is recorded. */
    if (!run->quiet && ev->type == EVENT_STDOUT)
        (void)fd_write_all(STDOUT_FILENO, ev->p, ev->n);
    else if (!run->quiet && ev->type == EVENT_STDERR)
        (void)fd_write_all(STDERR_FILENO, ev->p, ev->n);
}

/* As the API would: clients that follow the run or ask for it later get the same object. */
static int
on_render(void *ctx, const struct exec_outcome *o, bool full, struct buf *out)
{
    const struct ctl_run *run = ctx;
    return render_result(&run->shown, &o->row, &o->result, &o->session, full, out);
}

/* What the streams did not show: the exception, or why else it ended. */
static void
print_failure(const struct exec_outcome *o)
{
    const struct execution_result *r = &o->result;
    for (size_t i = 0; i < r->n_traceback; i++)
        fprintf(stderr, "%s\n", r->traceback[i]);
    if (!r->n_traceback && r->error_name)
        fprintf(stderr, "%s: %s\n", r->error_name, r->error_value ? r->error_value : "");
    if (!r->ok && r->reason != REASON_EXCEPTION)
        fprintf(stderr, "huskctl: the execution ended: %s\n", exec_reason_name(r->reason));
}

static int
timeout_of(struct ctl *c, int64_t *ret, struct err *err)
{
    const char *text = ctl_value(c, "timeout");
    *ret = c->settings.exec_timeout_ms;
    if (text && (num_duration_ms(text, strlen(text), ret) != 1 || *ret <= 0))
        return err_set(err, ERR_INVALID, "--timeout is a duration such as 30s or 5min");
    if (*ret > c->settings.max_exec_timeout_ms)
        *ret = c->settings.max_exec_timeout_ms;
    return 0;
}

static int
run_exec(struct ctl *c, struct err *err)
{
    static const int ending[] = {SIGINT, SIGTERM, 0};
    struct ctl_run run = {.quiet = ctl_value(c, "json") != NULL};
    const struct exec_callbacks cb = {
        .ctx = &run, .event = on_event, .tick = on_tick, .render = on_render};
    _cleanup_manager_ struct manager *m = NULL;
    _cleanup_buf_ struct buf code = BUF_INIT((size_t)c->settings.max_code_bytes);
    struct execution_request q = {.on_disconnect = DISCONNECT_CONTINUE};
    struct caller who = ctl_caller(c);
    struct exec_outcome o;
    char id[ID_UUID_SIZE];
    if (timeout_of(c, &q.timeout_ms, err) < 0 || read_code(c->second, code.max, &code, err) < 0 ||
        ctl_manager(c, &m, err) < 0)
        return -1;
    run.shown =
        (struct api_options){.manager = m, .max_output_bytes = c->settings.max_output_bytes};
    run.signals = sig_pipe(ending);
    if (run.signals < 0)
        return err_sys(err, ERR_INTERNAL, errno, "signals");
    id_uuid4(id);
    q.request_id = id;
    q.code = buf_str(&code);
    q.code_len = code.len;
    if (manager_exec(m, &who, c->operand, &q, &cb, &o, err) < 0)
        return -1;
    int rc = o.result.exit_code < 0 ? NO_EXIT_CODE : o.result.exit_code & 0xff;
    if (!run.quiet)
        print_failure(&o);
    else if (on_render(&run, &o, true, &c->out) == 0)
        (void)buf_putc(&c->out, '\n');
    exec_outcome_done(&o);
    return rc;
}

static const struct ctl_option options[] = {
    {"owner", "OWNER", "whose session, where several owners use the same id"},
    {"timeout", "DURATION", "how long it may run (default: SANDBOX_EXEC_TIMEOUT)"},
    {"json", NULL, "print the result as one JSON object instead of what the code prints"},
    {NULL, NULL, NULL},
};

const struct ctl_command exec_commands[] = {
    {"exec", "SESSION",
     "Run Python from standard input or FILE in a session; 0 is for an end without an exception",
     options, run_exec, "[FILE|-]"},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};
