/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/collect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "json/writer.h"
#include "sandbox/jupyter/rich.h"
#include "sandbox/jupyter/failure.h"
#include "sandbox/jupyter/text.h"

#define UPDATE_COPIES_MAX 16 /* displays of one id that an update changes */
#define PAGES_MAX 16         /* pages that a reply shows */

struct collect {
    struct collect_options o;
    struct text out, err;
    int64_t bytes_out, bytes_err, bytes_rich;
    struct rich_list results, displays;
    size_t rich_used; /* of the budget */
    bool rich_cut;    /* rich data was left out since the output was cleared last */
    bool text_cut;    /* the same of text */
    bool clear_pending;
    struct failure error;       /* of an error message */
    struct failure reply_error; /* of the reply, in case that no such message came */
    int64_t execution_count;
    bool idle, replied, reply_ok, aborted;
    bool reply_unread; /* it came, but was too large */
};

struct collect *
collect_new(const struct collect_options *o)
{
    struct collect *c = xcalloc(1, sizeof(*c));

    c->o = *o;
    text_init(&c->out, (size_t)o->max_output_bytes);
    text_init(&c->err, (size_t)o->max_output_bytes);
    c->execution_count = -1;
    return c;
}

void
collect_free(struct collect *c)
{
    if (!c)
        return;
    text_done(&c->out);
    text_done(&c->err);
    rich_list_done(&c->results);
    rich_list_done(&c->displays);
    failure_done(&c->error);
    failure_done(&c->reply_error);
    free(c);
}

static void
emit(struct collect *c, enum exec_event_type type, const char *p, size_t n)
{
    struct exec_event ev = {.type = type, .p = p, .n = n};

    if (c->o.event)
        c->o.event(c->o.ctx, &ev);
}

/* ---- clear_output ---- */

static void
clear(struct collect *c)
{
    text_clear(&c->out);
    text_clear(&c->err);
    rich_list_done(&c->results);
    rich_list_done(&c->displays);
    c->rich_used = 0;
    c->rich_cut = c->text_cut = false;
    c->clear_pending = false;
}

/* Output comes: what clear_output(wait=True) asked for is done now. */
static void
before_output(struct collect *c)
{
    if (c->clear_pending)
        clear(c);
}

static void
on_clear(struct collect *c, const struct kmsg *m)
{
    bool wait = json_bool(json_member(m->content, "wait"), false);
    const char *json = wait ? "{\"wait\":true}" : "{\"wait\":false}";

    if (wait)
        c->clear_pending = true;
    else
        clear(c);
    emit(c, EVENT_CLEAR_OUTPUT, json, strlen(json));
}

/* ---- text ---- */

void
collect_text(struct collect *c, enum kmsg_stream s, const char *p, size_t n)
{
    bool is_err = s == KMSG_STDERR;

    if (n == 0)
        return;
    before_output(c);
    *(is_err ? &c->bytes_err : &c->bytes_out) += (int64_t)n;
    text_add(is_err ? &c->err : &c->out, p, n);
    emit(c, is_err ? EVENT_STDERR : EVENT_STDOUT, p, n);
}

/* Text that nobody has seen: a line says so in its place. */
static void
lost_text(struct collect *c, enum kmsg_stream s, uint64_t n)
{
    char note[TEXT_MARKER_MAX];
    bool is_err = s == KMSG_STDERR;
    int k = snprintf(note, sizeof(note), "\n… [%" PRIu64 " bytes left out] …\n", n);

    before_output(c);
    *(is_err ? &c->bytes_err : &c->bytes_out) += (int64_t)n;
    c->text_cut = true;
    text_add(is_err ? &c->err : &c->out, note, (size_t)k);
    emit(c, is_err ? EVENT_STDERR : EVENT_STDOUT, note, (size_t)k);
}

/* ---- rich data ---- */

/* Room in the budget for `more` when `less` is given back? */
static bool
has_room(const struct collect *c, size_t more, size_t less)
{
    return c->rich_used - less + more <= (size_t)c->o.max_output_bytes;
}

static void
keep_rich(struct collect *c, struct rich_list *l, struct rich *r)
{
    size_t cost = rich_cost(r);

    if (has_room(c, cost, 0) && rich_list_add(l, r) == 0) {
        c->rich_used += cost;
        return;
    }
    c->rich_cut = true;
    rich_done(r);
}

/*
 * A display shows something else from now on.  Several can have one id: each shows a copy of its
 * own, made from the message again.  One whose display was of an earlier
 * execution is kept as a new one: its content would be lost otherwise.
 */
static void
update(struct collect *c, const struct kmsg *m, struct rich *r)
{
    size_t found = 0;

    for (size_t i = 0; r->display_id && i < c->displays.n; i++) {
        struct rich *old = &c->displays.items[i], copy;

        if (!old->display_id || strcmp(old->display_id, r->display_id) != 0)
            continue;
        if (++found > UPDATE_COPIES_MAX || !has_room(c, rich_cost(r), rich_cost(old)) ||
            rich_read(&copy, m) < 0) {
            c->rich_cut = true;
            continue;
        }
        c->rich_used += rich_cost(&copy);
        c->rich_used -= rich_cost(old);
        rich_done(old);
        *old = copy;
    }
    if (found > 0)
        rich_done(r);
    else
        keep_rich(c, &c->displays, r);
}

static void
on_rich(struct collect *c, const struct kmsg *m)
{
    bool is_result = m->head.type == KMSG_EXECUTE_RESULT;
    _cleanup_buf_ struct buf event = BUF_INIT(0);
    struct rich r;

    before_output(c);
    if (rich_event(&event, m) == 0)
        emit(c, is_result ? EVENT_EXECUTE_RESULT : EVENT_DISPLAY_DATA, event.data, event.len);
    if (is_result)
        (void)json_i64(json_member(m->content, "execution_count"), 0, INT64_MAX,
                       &c->execution_count);
    if (rich_read(&r, m) < 0) {
        c->bytes_rich += (int64_t)m->size;
        c->rich_cut = true;
        return;
    }
    c->bytes_rich += (int64_t)r.size;
    if (m->head.type == KMSG_UPDATE_DISPLAY_DATA)
        update(c, m, &r);
    else
        keep_rich(c, is_result ? &c->results : &c->displays, &r);
}

/* ---- how it ended ---- */

static void
set_error(struct collect *c, struct failure *f)
{
    _cleanup_buf_ struct buf event = BUF_INIT(0);

    before_output(c);
    failure_done(&c->error); /* of several the last is the one that ended the code */
    c->error = *f;
    if (failure_event(&event, f) == 0)
        emit(c, EVENT_ERROR, event.data, event.len);
}

static void
on_error(struct collect *c, const struct kmsg *m)
{
    struct failure f;

    failure_read(&f, m->content);
    f.cut = f.cut || m->trimmed;
    set_error(c, &f);
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
        on_clear(c, m);
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
        lost_text(c, s, n);
        break;
    case KMSG_DISPLAY_DATA:
    case KMSG_UPDATE_DISPLAY_DATA:
    case KMSG_EXECUTE_RESULT:
        before_output(c);
        c->bytes_rich += (int64_t)n;
        c->rich_cut = true;
        break;
    case KMSG_ERROR:
        failure_unreadable(&f, "the error message was too large to be read");
        set_error(c, &f);
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
    ret->reply_ok = c->reply_unread ? !c->error.name : c->reply_ok;
    ret->aborted = c->aborted;
    ret->has_error = c->error.name != NULL;
    ret->bytes = c->bytes_out + c->bytes_err + c->bytes_rich;
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
    struct failure *f = c->error.name ? &c->error : &c->reply_error;
    size_t plots = rich_list_plots(&c->results) + rich_list_plots(&c->displays);
    bool out_cut = false, err_cut = false;

    execution_result_init(ret);
    take_reason(c, ret);
    ret->out = text_take(&c->out, &ret->out_len, &out_cut);
    ret->err = text_take(&c->err, &ret->err_len, &err_cut);
    ret->bytes_stdout = c->bytes_out;
    ret->bytes_stderr = c->bytes_err;
    ret->bytes_rich = c->bytes_rich;
    ret->execution_count = c->execution_count;
    ret->truncated =
        out_cut || err_cut || c->text_cut || c->rich_cut || f->cut || !ret->out || !ret->err;
    ret->error_name = steal_ptr(f->name);
    ret->error_value = steal_ptr(f->value);
    ret->traceback = steal_ptr(f->traceback);
    ret->n_traceback = f->n_traceback;
    f->n_traceback = 0;
    ret->plots = plots > 0 ? xcalloc(plots, sizeof(*ret->plots)) : NULL;
    rich_list_take(&c->results, &ret->results, &ret->n_results, false, ret->plots, &ret->n_plots);
    rich_list_take(&c->displays, &ret->displays, &ret->n_displays, true, ret->plots, &ret->n_plots);
}
