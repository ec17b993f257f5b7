/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/silent.h"

#include <stdio.h>
#include <string.h>

#include "json/writer.h"

#define GRACE_MS 1000
#define SENDS_MAX 20 /* of a request that is refused unrun */
#define VALUE "v"    /* the name of the one expression */

struct reply {
    bool replied, idle, ok, aborted;
    char what[200];
    struct buf *value; /* where the expression's text goes; NULL: there is none */
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

/* The expression's outcome is inside a reply that is ok as a whole. */
static void
read_value(struct reply *r, json_val content)
{
    json_val v = json_member(json_member(content, "user_expressions"), VALUE);
    const char *s = json_cstring(json_member(v, "status"));
    const char *p = NULL;
    size_t n = 0;

    if (s != NULL && strcmp(s, "ok") == 0)
        p = json_string(json_member(json_member(v, "data"), "text/plain"), &n);
    r->ok = p != NULL && buf_append(r->value, p, n) == 0;
    s = json_cstring(json_member(v, "evalue"));
    if (!r->ok)
        (void)snprintf(r->what, sizeof r->what, "%s", s != NULL ? s : "no text came back");
}

static void
on_message(void *ctx, const struct kmsg *m)
{
    struct reply *r = ctx;
    const char *s;

    if (m->head.type == KMSG_STATUS && kmsg_execution_state(m) == KMSG_STATE_IDLE)
        r->idle = true;
    if (m->head.type != KMSG_EXECUTE_REPLY)
        return;
    r->replied = true;
    s = json_cstring(json_member(m->content, "status"));
    r->ok = s != NULL && strcmp(s, "ok") == 0;
    r->aborted = s != NULL && (strcmp(s, "aborted") == 0 || strcmp(s, "abort") == 0);
    s = json_cstring(json_member(m->content, "evalue"));
    (void)snprintf(r->what, sizeof r->what, "%s", s != NULL ? s : "");
    if (r->ok && r->value != NULL)
        read_value(r, m->content);
}

/* Until reply and idle are there (idle may be missing for a grace). */
static int
await(struct jupyter *j, struct channel *c, const struct reply *r, struct deadline d,
      struct err *err)
{
    int64_t replied_ms = 0;

    while (!r->replied || !r->idle) {
        if (c->restarted)
            return err_slug(err, ERR_CONFLICT, "runtime_gone", "kernel %s: its process ended",
                            c->handle);
        if (ws_state(c->ws) != WS_OPEN)
            return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                            "the channel to kernel %s broke", c->handle);
        if (r->replied && replied_ms == 0)
            replied_ms = clock_mono_ms();
        if (r->replied && clock_mono_ms() - replied_ms > GRACE_MS)
            break;
        if (deadline_passed(d))
            return err_set(err, ERR_TIMEOUT, "kernel %s did not answer in time", c->handle);
        (void)jupyter_turn(j, NULL, deadline_poll_ms(d, 100));
    }
    return 0;
}

/* A kernel that has just ended a cell with an error refuses for a moment what follows, without
 * running any of it: that is sent once more. */
static int
run(struct jupyter *j, struct channel *c, const struct kmsg_execute *x, struct buf *value,
    struct deadline d, struct err *err)
{
    for (int i = 1;; i++) {
        struct reply r = {.value = value};
        struct kmsg_handler sink = {
            .ctx = &r, .text = on_text, .message = on_message, .oversize = on_oversize};
        int rc = channel_execute(c, x, &sink, err);

        if (rc == 0)
            rc = await(j, c, &r, d, err);
        channel_done(c);
        if (rc < 0)
            return -1;
        if (r.ok)
            return 0;
        if (!r.aborted || i == SENDS_MAX)
            return err_set(err, ERR_INTERNAL, "kernel %s: %s", c->handle, r.what);
    }
}

int
jupyter_silent(struct jupyter *j, struct channel *c, const char *code, struct deadline d,
               struct err *err)
{
    struct kmsg_execute x = {.code = code, .code_len = strlen(code), .silent = true};

    return run(j, c, &x, NULL, d, err);
}

int
jupyter_evaluate(struct jupyter *j, struct channel *c, const struct buf *expression,
                 struct buf *ret, struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf json = BUF_INIT(WS_SEND_MAX);
    struct kmsg_execute x = {.code = "", .silent = true};
    struct json_writer w;

    jw_init(&w, &json);
    jw_object(&w, NULL);
    jw_string_n(&w, VALUE, buf_str(expression), expression->len);
    jw_end_object(&w);
    if (buf_check(&json, "a request to the kernel", err) < 0)
        return -1;
    x.user_expressions = buf_str(&json);
    return run(j, c, &x, ret, d, err);
}
