/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <inttypes.h>
#include <string.h>

#include "api/decode.h"
#include "api/render.h"
#include "base/id.h"
#include "base/log.h"
#include "base/num.h"
#include "json/writer.h"

#define SESSION_BYTES_MAX (LABELS_JSON_MAX + 8192)
#define LIST_BYTES_MAX (48 * 1024 * 1024) /* the most sessions with the most labels */
/* What a close may take besides the gateway's answers. */
#define CLOSE_GRACE_MS 5000

static void
observe_gateway(struct api_call *c, int64_t since_us)
{
    if (c->api->o.slot != NULL)
        score_observe(&c->api->o.slot->gateway_time, clock_mono_us() - since_us);
}

static void
send_session(struct api_call *c, int status, const struct session *s)
{
    _cleanup_buf_ struct buf body = BUF_INIT(SESSION_BYTES_MAX);
    struct json_writer w;

    jw_init(&w, &body);
    render_session(&c->api->o, &w, NULL, s);
    api_send_json(c, status, &body);
}

/* How long a start may take: the gateway's answers and the kernel's first reply. */
static struct deadline
start_deadline(struct api_call *c)
{
    const struct api_options *o = &c->api->o;

    return api_promise(c, o->start_timeout_ms + 2 * o->http_timeout_ms);
}

void
handle_session_open(struct api_call *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LIMIT_JSON_BODY);
    _cleanup_(open_body_done) struct open_body body = {0};
    struct session s = {0};
    struct err err = ERR_INIT;
    int64_t since = clock_mono_us();
    bool created = false;
    int rc;

    if (api_read_json(c, text.max, &text, &err) < 0 ||
        decode_open(buf_str(&text), text.len, &body, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    rc = manager_open(c->api->o.manager, &c->caller, &body.req, &c->watch, start_deadline(c), &s,
                      &created, &err);
    observe_gateway(c, since);
    if (rc < 0) {
        api_problem(c, &err);
        return;
    }
    log_set_session(s.name);
    if (created)
        http_add_header(c->x, "Location", "/v1/sessions/%s", s.name);
    send_session(c, created ? 201 : 200, &s);
    session_done(&s);
}

/* state and label of the query. buf holds the label's key. */
static int
read_filter(struct api_call *c, struct session_filter *f, char key[LABEL_KEY_MAX + 1],
            struct err *err)
{
    size_t n;
    const char *state = http_query(c->x, "state", NULL);
    const char *label = http_query(c->x, "label", &n);
    enum session_state parsed;

    f->state = -1;
    if (state != NULL && !session_state_parse(state, &parsed))
        return err_slug(err, ERR_INVALID, "bad_value",
                        "the query parameter \"state\" must be one of opening, ready, busy, "
                        "closing and cold");
    if (state != NULL)
        f->state = (int)parsed;
    if (label != NULL) {
        const char *colon = strchr(label, ':');
        size_t k = colon != NULL ? (size_t)(colon - label) : 0;

        if (!id_in_alphabet(label, k, 1, LABEL_KEY_MAX))
            return err_slug(err, ERR_INVALID, "bad_value",
                            "the query parameter \"label\" must be of the form key:value");
        memcpy(key, label, k);
        key[k] = '\0';
        f->label_key = key;
        f->label_value = colon + 1;
    }
    return 0;
}

static int
read_cursor(struct api_call *c, struct session_filter *f, struct err *err)
{
    char cursor[CURSOR_MAX + 1];
    const char *rest;
    size_t n;

    if (api_query_cursor(c, cursor, &n, err) < 0)
        return -1;
    if (n == 0)
        return 0;
    if (cursor_split(cursor, n, &f->after_sid_created, &rest, err) < 0)
        return -1;
    if (!num_i64(rest, strlen(rest), 0, INT64_MAX, &f->after_sid))
        return err_slug(
            err, ERR_INVALID, "bad_cursor",
            "the query parameter \"cursor\" must be a next_cursor of an earlier answer");
    return 0;
}

void
handle_session_list(struct api_call *c)
{
    _cleanup_buf_ struct buf body = BUF_INIT(LIST_BYTES_MAX);
    _cleanup_buf_ struct buf cursor = BUF_INIT(CURSOR_MAX);
    struct session_filter f = {0};
    char key[LABEL_KEY_MAX + 1];
    struct session *list = NULL;
    struct err err = ERR_INIT;
    struct json_writer w;
    size_t n = 0;
    bool more = false;

    if (read_filter(c, &f, key, &err) < 0 || api_query_limit(c, &f.limit, &err) < 0 ||
        read_cursor(c, &f, &err) < 0 ||
        manager_list(c->api->o.manager, &c->caller, &f, &list, &n, &more, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_array(&w, "sessions");
    for (size_t i = 0; i < n; i++)
        render_session(&c->api->o, &w, NULL, &list[i]);
    jw_end_array(&w);
    if (more && n > 0)
        (void)buf_printf(&cursor, "%" PRId64 ".%" PRId64, list[n - 1].created_at, list[n - 1].sid);
    cursor_member(&w, cursor.data, cursor.len);
    jw_end_object(&w);
    api_send_json(c, 200, &body);
    for (size_t i = 0; i < n; i++)
        session_done(&list[i]);
    free(list);
}

void
handle_session_get(struct api_call *c)
{
    struct session s = {0};
    struct err err = ERR_INIT;
    const char *name;

    /* HEAD shows no body: what is told once must not be told to nobody. */
    if (api_session_name(c, &name, &err) < 0 ||
        manager_get(c->api->o.manager, &c->caller, name, c->x->req.method != HTTP_HEAD, &s, &err) <
            0) {
        api_problem(c, &err);
        return;
    }
    send_session(c, 200, &s);
    session_done(&s);
}

void
handle_session_patch(struct api_call *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LIMIT_JSON_BODY);
    _cleanup_(patch_body_done) struct patch_body body = {0};
    struct session s = {0};
    struct err err = ERR_INIT;
    const char *name;

    if (api_session_name(c, &name, &err) < 0 || api_read_json(c, text.max, &text, &err) < 0 ||
        decode_patch(buf_str(&text), text.len, &body, &err) < 0 ||
        manager_patch(c->api->o.manager, &c->caller, name, body.has_ttl, body.ttl_ms,
                      body.has_labels ? body.labels.data : NULL, &s, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    send_session(c, 200, &s);
    session_done(&s);
}

void
handle_session_close(struct api_call *c)
{
    struct err err = ERR_INIT;
    int64_t since = clock_mono_us();
    bool deferred = false;
    const char *name;
    int rc;

    if (api_session_name(c, &name, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    rc = manager_close(c->api->o.manager, &c->caller, name, SESSION_END_CLOSED,
                       api_promise(c, 2 * c->api->o.http_timeout_ms + CLOSE_GRACE_MS), &deferred,
                       &err);
    observe_gateway(c, since);
    if (rc < 0)
        api_problem(c, &err);
    else
        api_send_empty(c, deferred ? 202 : 204);
}

/* The name in the path, and a body that says nothing. */
static int
read_bare(struct api_call *c, const char **ret_name, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LIMIT_JSON_BODY);

    if (api_session_name(c, ret_name, err) < 0 || api_read_json(c, text.max, &text, err) < 0)
        return -1;
    return decode_empty(buf_str(&text), text.len, err);
}

void
handle_session_interrupt(struct api_call *c)
{
    struct err err = ERR_INIT;
    bool running = false;
    const char *name;

    if (read_bare(c, &name, &err) < 0 ||
        manager_interrupt(c->api->o.manager, &c->caller, name,
                          api_promise(c, 2 * c->api->o.http_timeout_ms), &running, &err) < 0)
        api_problem(c, &err);
    else
        api_send_empty(c, 204);
}

void
handle_session_restart(struct api_call *c)
{
    struct session s = {0};
    struct err err = ERR_INIT;
    int64_t since = clock_mono_us();
    const char *name;
    int rc;

    if (read_bare(c, &name, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    rc = manager_restart(c->api->o.manager, &c->caller, name, &c->watch, start_deadline(c), &s,
                         &err);
    observe_gateway(c, since);
    if (rc < 0) {
        api_problem(c, &err);
        return;
    }
    send_session(c, 200, &s);
    session_done(&s);
}
