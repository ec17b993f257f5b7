/* SPDX-License-Identifier: MIT */
#include "sandbox/output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/output/text.h"

#define UPDATE_COPIES_MAX 16 /* displays of one id that an update changes */

struct output {
    struct output_options o;
    struct text out, err;
    int64_t bytes_out, bytes_err, bytes_rich;
    struct rich_list results, displays;
    size_t rich_used; /* of the budget */
    bool rich_cut;    /* rich data was left out since the output was cleared last */
    bool text_cut;    /* the same of text */
    bool clear_pending;
    struct failure error;
};

struct output *
output_new(const struct output_options *o)
{
    struct output *c = xcalloc(1, sizeof(*c));

    c->o = *o;
    text_init(&c->out, (size_t)o->max_output_bytes);
    text_init(&c->err, (size_t)o->max_output_bytes);
    return c;
}

void
output_free(struct output *c)
{
    if (!c)
        return;
    text_done(&c->out);
    text_done(&c->err);
    rich_list_done(&c->results);
    rich_list_done(&c->displays);
    failure_done(&c->error);
    free(c);
}

static void
emit(struct output *c, enum exec_event_type type, const char *p, size_t n)
{
    struct exec_event ev = {.type = type, .p = p, .n = n};

    if (c->o.event)
        c->o.event(c->o.ctx, &ev);
}

static void
clear(struct output *c)
{
    text_clear(&c->out);
    text_clear(&c->err);
    rich_list_done(&c->results);
    rich_list_done(&c->displays);
    c->rich_used = 0;
    c->rich_cut = c->text_cut = false;
    c->clear_pending = false;
}

/* Output comes: what was to be cleared when it does is cleared now. */
static void
before_output(struct output *c)
{
    if (c->clear_pending)
        clear(c);
}

void
output_clear(struct output *c, bool wait)
{
    const char *json = wait ? "{\"wait\":true}" : "{\"wait\":false}";

    if (wait)
        c->clear_pending = true;
    else
        clear(c);
    emit(c, EVENT_CLEAR_OUTPUT, json, strlen(json));
}

void
output_text(struct output *c, bool is_err, const char *p, size_t n)
{
    if (n == 0)
        return;
    before_output(c);
    *(is_err ? &c->bytes_err : &c->bytes_out) += (int64_t)n;
    text_add(is_err ? &c->err : &c->out, p, n);
    emit(c, is_err ? EVENT_STDERR : EVENT_STDOUT, p, n);
}

void
output_lost_text(struct output *c, bool is_err, uint64_t n)
{
    char note[TEXT_MARKER_MAX];
    int k = snprintf(note, sizeof(note), "\n… [%" PRIu64 " bytes left out] …\n", n);

    before_output(c);
    *(is_err ? &c->bytes_err : &c->bytes_out) += (int64_t)n;
    c->text_cut = true;
    text_add(is_err ? &c->err : &c->out, note, (size_t)k);
    emit(c, is_err ? EVENT_STDERR : EVENT_STDOUT, note, (size_t)k);
}

/* Room in the budget for `more` when `less` is given back? */
static bool
has_room(const struct output *c, size_t more, size_t less)
{
    return c->rich_used - less + more <= (size_t)c->o.max_output_bytes;
}

static void
keep_rich(struct output *c, struct rich_list *l, struct rich *r)
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
update(struct output *c, const struct rich_source *m, struct rich *r)
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

void
output_rich(struct output *c, const struct rich_source *m)
{
    bool is_result = m->kind == RICH_RESULT;
    _cleanup_buf_ struct buf event = BUF_INIT(0);
    struct rich r;

    before_output(c);
    if (rich_event(&event, m) == 0)
        emit(c, is_result ? EVENT_EXECUTE_RESULT : EVENT_DISPLAY_DATA, event.data, event.len);
    if (rich_read(&r, m) < 0) {
        c->bytes_rich += (int64_t)m->size;
        c->rich_cut = true;
        return;
    }
    c->bytes_rich += (int64_t)r.size;
    if (m->kind == RICH_UPDATE)
        update(c, m, &r);
    else
        keep_rich(c, is_result ? &c->results : &c->displays, &r);
}

void
output_lost_rich(struct output *c, uint64_t n)
{
    before_output(c);
    c->bytes_rich += (int64_t)n;
    c->rich_cut = true;
}

void
output_error(struct output *c, struct failure *f)
{
    _cleanup_buf_ struct buf event = BUF_INIT(0);

    before_output(c);
    failure_done(&c->error);
    c->error = *f;
    memset(f, 0, sizeof(*f));
    if (failure_event(&event, &c->error) == 0)
        emit(c, EVENT_ERROR, event.data, event.len);
}

bool
output_has_error(const struct output *c)
{
    return c->error.name != NULL;
}

int64_t
output_bytes(const struct output *c)
{
    return c->bytes_out + c->bytes_err + c->bytes_rich;
}

void
output_take(struct output *c, struct failure *otherwise, struct execution_result *ret)
{
    struct failure *f = c->error.name || !otherwise ? &c->error : otherwise;
    size_t plots = rich_list_plots(&c->results) + rich_list_plots(&c->displays);
    bool out_cut = false, err_cut = false;

    execution_result_init(ret);
    ret->out = text_take(&c->out, &ret->out_len, &out_cut);
    ret->err = text_take(&c->err, &ret->err_len, &err_cut);
    ret->bytes_stdout = c->bytes_out;
    ret->bytes_stderr = c->bytes_err;
    ret->bytes_rich = c->bytes_rich;
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
