/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/collect.h"

#include <string.h>

#include "base/cleanup.h"

#define PAGES_MAX 16 /* pages that a reply shows */

struct collect {
    struct output *output;
    struct failure reply_error; /* of the reply, in case that no error message came */
    int64_t execution_count;
    bool idle, replied, reply_ok, aborted;
    bool reply_unread; /* it came, but was too large */
};

struct collect *
collect_new(const struct output_options *o)
{
    struct collect *c = xcalloc(1, sizeof(*c));

    c->output = output_new(o);
    c->execution_count = -1;
    return c;
}

void
collect_free(struct collect *c)
{
    if (!c)
        return;
    output_free(c->output);
    failure_done(&c->reply_error);
    free(c);
}

void
collect_text(struct collect *c, enum kmsg_stream s, const char *p, size_t n)
{
    output_text(c->output, s == KMSG_STDERR, p, n);
}

static void
on_rich(struct collect *c, const struct kmsg *m)
{
    struct rich_source src = {.kind = m->head.type == KMSG_EXECUTE_RESULT        ? RICH_RESULT
                                      : m->head.type == KMSG_UPDATE_DISPLAY_DATA ? RICH_UPDATE
                                                                                 : RICH_DISPLAY,
                              .content = m->content,
                              .size = m->size};

    output_rich(c->output, &src);
    if (src.kind == RICH_RESULT)
        (void)json_i64(json_member(m->content, "execution_count"), 0, INT64_MAX,
                       &c->execution_count);
}

static void
on_error(struct collect *c, const struct kmsg *m)
{
    struct failure f;

    failure_read(&f, m->content);
    f.cut = f.cut || m->trimmed;
    output_error(c->output, &f);
}

/* What IPython shows in a pager (help by "name?") comes in the reply: it is a display for us. */
static void
show_pages(struct collect *c, const struct kmsg *reply)
{
    json_val payload = json_member(reply->content, "payload");

    if (json_type(payload) != JSON_ARRAY)
        return;
    for (size_t i = 0; i < json_length(payload) && i < PAGES_MAX; i++) {
        struct kmsg page = *reply;
        const char *source;

        page.head.type = KMSG_DISPLAY_DATA;
        page.content = json_item(payload, i);
        source = json_cstring(json_member(page.content, "source"));
        if (source && strcmp(source, "page") == 0)
            on_rich(c, &page);
    }
}

static void
on_reply(struct collect *c, const struct kmsg *m)
{
    const char *status = json_cstring(json_member(m->content, "status"));

    c->replied = true;
    c->reply_ok = status && strcmp(status, "ok") == 0;
    c->aborted = status && (strcmp(status, "aborted") == 0 || strcmp(status, "abort") == 0);
    (void)json_i64(json_member(m->content, "execution_count"), 0, INT64_MAX, &c->execution_count);
    failure_done(&c->reply_error);
    if (!c->reply_ok && !c->aborted)
        failure_read(&c->reply_error, m->content);
    show_pages(c, m);
}

void
collect_message(struct collect *c, const struct kmsg *m)
{
    switch (m->head.type) {
    case KMSG_DISPLAY_DATA:
    case KMSG_UPDATE_DISPLAY_DATA:
    case KMSG_EXECUTE_RESULT:
        on_rich(c, m);
        break;
    case KMSG_CLEAR_OUTPUT:
        output_clear(c->output, json_bool(json_member(m->content, "wait"), false));
        break;
    case KMSG_ERROR:
        on_error(c, m);
        break;
    case KMSG_EXECUTE_REPLY:
        on_reply(c, m);
        break;
    case KMSG_STATUS:
        c->idle = c->idle || kmsg_execution_state(m) == KMSG_STATE_IDLE;
        break;
    default:
        break;
    }
}

void
collect_oversize(struct collect *c, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    struct failure f;

    switch (h->type) {
    case KMSG_STREAM:
        output_lost_text(c->output, s == KMSG_STDERR, n);
        break;
    case KMSG_DISPLAY_DATA:
    case KMSG_UPDATE_DISPLAY_DATA:
    case KMSG_EXECUTE_RESULT:
        output_lost_rich(c->output, n);
        break;
    case KMSG_ERROR:
        failure_unreadable(&f, "the error message was too large to be read");
        output_error(c->output, &f);
        break;
    case KMSG_EXECUTE_REPLY:
        c->replied = c->reply_unread = true;
        break;
    default:
        break;
    }
}

void
collect_state(const struct collect *c, struct collect_state *ret)
{
    ret->idle = c->idle;
    ret->replied = c->replied;
    ret->reply_ok = c->reply_unread ? !output_has_error(c->output) : c->reply_ok;
    ret->aborted = c->aborted;
    ret->has_error = output_has_error(c->output);
    ret->bytes = output_bytes(c->output);
}

static void
take_reason(const struct collect *c, struct execution_result *r)
{
    struct collect_state s;

    collect_state(c, &s);
    r->incomplete = !s.idle || !s.replied;
    r->exit_code = -1;
    if (!s.replied)
        return;
    if (s.aborted) {
        r->reason = REASON_ABORTED;
        return;
    }
    r->ok = s.reply_ok;
    r->reason = s.reply_ok ? REASON_COMPLETED : REASON_EXCEPTION;
    r->exit_code = s.reply_ok ? 0 : 1;
}

void
collect_take(struct collect *c, struct execution_result *ret)
{
    struct execution_result how;

    execution_result_init(&how);
    take_reason(c, &how);
    output_take(c->output, &c->reply_error, ret);
    ret->reason = how.reason;
    ret->ok = how.ok;
    ret->exit_code = how.exit_code;
    ret->incomplete = how.incomplete;
    ret->execution_count = c->execution_count;
}
