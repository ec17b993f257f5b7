/* SPDX-License-Identifier: MIT */
#include "support/runtime.h"

#include <string.h>

#include "support/cmocka_all.h"

int
runtime_backend(struct runtime *t, const char *url, const char *token)
{
    struct sandbox_options o = {.gateway_url = url,
                                .gateway_token = token,
                                .kernel_name = "docsgpt-python",
                                .http_timeout_ms = 5000,
                                .start_timeout_ms = 20000,
                                .max_output_bytes = 65536,
                                .flood_bytes = 30 * 1024 * 1024,
                                .keep_channels = 4};

    memset(t, 0, sizeof *t);
    execution_result_init(&t->r);
    return sandbox_new("jupyter", &o, &t->sb, &t->err);
}

int
runtime_open(struct runtime *t)
{
    return t->sb->ops->open(t->sb, NULL, &t->made, deadline_in(20000), &t->err);
}

static void
on_event(void *ctx, const struct exec_event *ev)
{
    struct runtime *t = ctx;

    t->events++;
    t->event_bytes += ev->n;
}

static enum hook_verdict
on_tick(void *ctx)
{
    struct runtime *t = ctx;
    int64_t now = clock_mono_ms();

    if (now - t->ticked_ms > t->longest_pause_ms)
        t->longest_pause_ms = now - t->ticked_ms;
    t->ticked_ms = now;
    return t->verdict_after_ms != 0 && now - t->began_ms >= t->verdict_after_ms ? t->verdict
                                                                                : HOOK_GO_ON;
}

int
runtime_run(struct runtime *t, const char *code, int64_t timeout_ms)
{
    struct runtime_ref rt = {.handle = t->made.handle,
                             .kernel_session = t->made.kernel_session,
                             .dir = t->dir,
                             .dir_ms = 500};
    struct execution_request req = {
        .code = code, .code_len = strlen(code), .timeout_ms = timeout_ms, .request_id = "r"};
    struct exec_hooks hooks = {.ctx = t, .event = on_event, .tick = on_tick};
    int rc;

    execution_result_done(&t->r);
    execution_result_init(&t->r);
    t->err = (struct err)ERR_INIT;
    t->events = t->event_bytes = 0;
    t->longest_pause_ms = 0;
    t->began_ms = t->ticked_ms = clock_mono_ms();
    rc = t->sb->ops->exec(t->sb, &rt, &req, &hooks, &t->r, &t->err);
    t->took_ms = clock_mono_ms() - t->began_ms;
    return rc;
}

void
runtime_expect(struct runtime *t, const char *code, int64_t timeout_ms, enum exec_reason reason,
               const char *out)
{
    if (runtime_run(t, code, timeout_ms) < 0)
        fail_msg("exec: %s", t->err.msg);
    assert_string_equal(exec_reason_name(t->r.reason), exec_reason_name(reason));
    if (out != NULL)
        assert_string_equal(t->r.out, out);
}

void
runtime_done(struct runtime *t)
{
    if (t->sb == NULL)
        return;
    if (t->made.handle[0] != '\0')
        (void)t->sb->ops->close(t->sb, t->made.handle, deadline_in(10000), NULL);
    execution_result_done(&t->r);
    t->sb->ops->free(t->sb);
    t->sb = NULL;
}
