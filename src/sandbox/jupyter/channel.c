/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/channel.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define URL_BYTES 1024

static bool
is_ours(const struct channel *c, const struct kmsg_head *h)
{
    return c->sink != NULL && c->request_id[0] != '\0' && kmsg_is_for(h, c->request_id);
}

static void
on_text(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n)
{
    struct channel *c = ctx;

    if (is_ours(c, h))
        c->sink->text(c->sink->ctx, h, s, p, n);
}

static void
on_oversize(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    struct channel *c = ctx;

    if (is_ours(c, h))
        c->sink->oversize(c->sink->ctx, h, s, n);
}

/* The gateway tells of a kernel's death without a parent; the new process says "starting". What
 * has a parent was published by the kernel itself. */
static void
note_status(struct channel *c, const struct kmsg *m)
{
    enum kmsg_state s = kmsg_execution_state(m);

    if (m->head.parent_id[0] != '\0')
        c->subscribed = true;
    if (m->head.parent_id[0] == '\0' && (s == KMSG_STATE_RESTARTING || s == KMSG_STATE_DEAD))
        c->restarted = true;
    if (s == KMSG_STATE_STARTING && c->info_replied &&
        strcmp(m->head.session, c->kernel_session) != 0)
        c->restarted = true;
}

/* What answers a request of ours for who it is: its reply, or "busy" as the kernel begins with it.
 * Of an execution only the reply will do. */
static bool
is_answer(const struct channel *c, const struct kmsg *m)
{
    if (c->told)
        return m->head.type == KMSG_EXECUTE_REPLY;
    return m->head.type == KMSG_KERNEL_INFO_REPLY || m->head.type == KMSG_STATUS;
}

static void
note_answer(struct channel *c, const struct kmsg *m)
{
    bool asked = c->info_id[0] != '\0' && kmsg_is_for(&m->head, c->info_id);
    bool before = c->info_id_before[0] != '\0' && kmsg_is_for(&m->head, c->info_id_before);
    const char *status, *what;

    if (!is_answer(c, m) || (!asked && !before))
        return;
    if (c->kernel_session[0] != '\0' && strcmp(c->kernel_session, m->head.session) != 0)
        c->restarted = true;
    (void)snprintf(c->kernel_session, sizeof c->kernel_session, "%s", m->head.session);
    c->info_replied = true;
    if (!c->told)
        return;
    status = json_cstring(json_member(m->content, "status"));
    what = json_cstring(json_member(m->content, "evalue"));
    if (status == NULL || strcmp(status, "ok") != 0)
        (void)snprintf(c->refused, sizeof c->refused, "%s", what != NULL ? what : "it was not run");
}

static void
on_message(void *ctx, const struct kmsg *m)
{
    struct channel *c = ctx;

    if (m->head.type == KMSG_STATUS)
        note_status(c, m);
    note_answer(c, m);
    if (strcmp(m->head.type_name, "execute_input") == 0 && !is_ours(c, &m->head))
        c->foreign = true;
    if (is_ours(c, &m->head))
        c->sink->message(c->sink->ctx, m);
}

static void
on_piece(void *ctx, const char *p, size_t n, bool first, bool final)
{
    struct channel *c = ctx;
    struct err why = ERR_INIT;

    if (first)
        kmsg_reader_reset(c->reader);
    c->heard_ms = clock_mono_ms();
    if (kmsg_reader_add(c->reader, p, n, final, &why) < 0)
        log_warning("kernel %s: a message was dropped: %s", c->handle, why.msg);
}

static int
connect_ws(struct channel *c, struct gateway *g, struct err *err)
{
    _cleanup_buf_ struct buf url = BUF_INIT(URL_BYTES);
    struct err why = ERR_INIT;

    if (gateway_channel_url(g, c->handle, c->session, &url, err) < 0)
        return -1;
    if (ws_connect(c->pool, buf_str(&url), gateway_authorization(g), on_piece, c, &c->ws, &why) < 0)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable", "no channel to kernel %s: %s",
                        c->handle, why.msg);
    return 0;
}

int
channel_new(struct gateway *g, struct ws_pool *p, const char *handle, size_t max_message,
            struct channel **ret, struct err *err)
{
    struct channel *c = xcalloc(1, sizeof *c);
    struct kmsg_handler h = {
        .ctx = c, .text = on_text, .message = on_message, .oversize = on_oversize};

    c->pool = p;
    (void)snprintf(c->handle, sizeof c->handle, "%s", handle);
    id_uuid4(c->session);
    c->heard_ms = clock_mono_ms();
    c->reader = kmsg_reader_new(max_message, &h);
    if (connect_ws(c, g, err) < 0) {
        channel_free(c);
        return -1;
    }
    *ret = c;
    return 0;
}

void
channel_free(struct channel *c)
{
    if (c == NULL)
        return;
    ws_close(c->ws);
    kmsg_reader_free(c->reader);
    free(c);
}

int
channel_again(struct channel *c, struct gateway *g, struct err *err)
{
    ws_close(c->ws);
    c->ws = NULL;
    c->subscribed = false;
    kmsg_reader_reset(c->reader);
    return connect_ws(c, g, err);
}

int
channel_ask(struct channel *c, struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(8192);

    memcpy(c->info_id_before, c->info_id, sizeof c->info_id);
    c->info_replied = false;
    c->told = false;
    if (kmsg_kernel_info_request(&out, c->session, c->info_id, err) < 0)
        return -1;
    return ws_send(c->ws, buf_str(&out), out.len, err);
}

int
channel_tell(struct channel *c, const char *code, struct err *err)
{
    const struct kmsg_execute x = {.code = code, .code_len = strlen(code), .silent = true};
    _cleanup_buf_ struct buf out = BUF_INIT(WS_SEND_MAX);

    memcpy(c->info_id_before, c->info_id, sizeof c->info_id);
    c->info_replied = false;
    c->told = true;
    c->refused[0] = '\0';
    if (kmsg_execute_request(&out, c->session, &x, c->info_id, err) < 0)
        return -1;
    return ws_send(c->ws, buf_str(&out), out.len, err);
}

int
channel_execute(struct channel *c, const struct kmsg_execute *x, const struct kmsg_handler *sink,
                struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(WS_SEND_MAX);

    if (kmsg_execute_request(&out, c->session, x, c->request_id, err) < 0)
        return -1;
    c->sink = sink;
    return ws_send(c->ws, buf_str(&out), out.len, err);
}

void
channel_done(struct channel *c)
{
    c->sink = NULL;
    c->request_id[0] = '\0';
}

bool
channel_fit(const struct channel *c)
{
    return c->ws != NULL && ws_state(c->ws) == WS_OPEN && !ws_sending(c->ws) && !c->restarted &&
           !c->foreign;
}
