/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/jupyter.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

/*
 * The working directory of a kernel, set by a silent execution: one expression that binds no name
 * and enters no history.  The path travels as a bytes literal, so that any path arrives as it is.
 */

#define DIR_MAX 4096
#define GRACE_MS 1000

struct bind_reply {
    bool replied, idle, ok;
    char what[200];
};

static void
on_text(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n)
{
    (void)ctx, (void)h, (void)s, (void)p, (void)n; /* a silent execution has no output */
}

static void
on_oversize(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    (void)ctx, (void)h, (void)s, (void)n; /* nor is its reply large */
}

static void
on_message(void *ctx, const struct kmsg *m)
{
    struct bind_reply *b = ctx;
    const char *s;

    if (m->head.type == KMSG_STATUS && kmsg_execution_state(m) == KMSG_STATE_IDLE)
        b->idle = true;
    if (m->head.type != KMSG_EXECUTE_REPLY)
        return;
    b->replied = true;
    s = json_cstring(json_member(m->content, "status"));
    b->ok = s != NULL && strcmp(s, "ok") == 0;
    s = json_cstring(json_member(m->content, "evalue"));
    (void)snprintf(b->what, sizeof b->what, "%s", s != NULL ? s : "");
}

static int
write_code(struct buf *out, const char *dir, struct err *err)
{
    (void)buf_puts(out, "__import__('os').chdir(b'");
    for (const char *p = dir; *p != '\0'; p++)
        (void)buf_printf(out, "\\x%02x", (unsigned char)*p);
    (void)buf_puts(out, "')");
    return buf_check(out, "the path of a working directory", err);
}

/* Until reply and idle are there (idle may be missing for a grace). */
static int
await(struct jupyter *j, struct channel *c, const struct bind_reply *b, struct deadline d,
      struct err *err)
{
    int64_t replied_ms = 0;

    while (!b->replied || !b->idle) {
        if (c->restarted || ws_state(c->ws) != WS_OPEN)
            return err_slug(err, ERR_CONFLICT, "runtime_gone",
                            "kernel %s went away while its directory was set", c->handle);
        if (b->replied && replied_ms == 0)
            replied_ms = clock_mono_ms();
        if (b->replied && clock_mono_ms() - replied_ms > GRACE_MS)
            break;
        if (deadline_passed(d))
            return err_set(err, ERR_TIMEOUT, "kernel %s did not set its directory in time",
                           c->handle);
        (void)jupyter_turn(j, NULL, deadline_poll_ms(d, 100));
    }
    if (b->ok)
        return 0;
    return err_set(err, ERR_INTERNAL, "kernel %s did not set its directory: %s", c->handle,
                   b->what);
}

int
jupyter_bind(struct sandbox *sb, const struct runtime_ref *rt, const char *dir, struct deadline d,
             struct err *err)
{
    struct jupyter *j = (struct jupyter *)sb;
    _cleanup_buf_ struct buf code = BUF_INIT(4 * DIR_MAX + 64);
    struct bind_reply b = {.replied = false};
    struct kmsg_handler sink = {
        .ctx = &b, .text = on_text, .message = on_message, .oversize = on_oversize};
    struct kmsg_execute x = {.silent = true};
    struct channel *c;

    if (write_code(&code, dir, err) < 0 || jupyter_attach(j, rt, NULL, d, &c, err) < 0)
        return -1;
    x.code = buf_str(&code);
    x.code_len = code.len;
    if (channel_execute(c, &x, &sink, err) < 0 || await(j, c, &b, d, err) < 0) {
        channel_free(c);
        return -1;
    }
    channel_done(c);
    kept_put(&j->kept, c);
    return 0;
}
