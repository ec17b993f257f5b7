/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/gateway.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/log.h"
#include "json/json.h"
#include "json/writer.h"
#include "sandbox/transport/rest.h"

#define ANSWER_MAX (4u * 1024 * 1024) /* a list of some thousand kernels, all kernelspecs */
#define ANSWER_DEPTH 40
#define PATH_MAX_BYTES 512
#define DELETES_MAX 10
#define DELETE_PAUSE_MS 300
#define ENDED 204 /* what an end is confirmed with; a 200 is somebody else's */

struct gateway {
    const char *url;
    const char *kernel_name;
    int64_t timeout_ms;
    char *authorization; /* or NULL */
    struct rest *rest;
    enum gateway_call pending;
};

int
gateway_new(const struct sandbox_options *o, struct gateway **ret, struct err *err)
{
    struct gateway *g = xcalloc(1, sizeof *g);
    struct rest_options ro = {
        .base_url = o->gateway_url, .ca_file = o->gateway_ca_file, .max_body = ANSWER_MAX};

    g->url = o->gateway_url;
    g->kernel_name = o->kernel_name;
    g->timeout_ms = o->http_timeout_ms;
    if (o->gateway_token != NULL && o->gateway_token[0] != '\0') {
        size_t n = strlen(o->gateway_token) + sizeof "token ";
        g->authorization = xcalloc(1, n);
        (void)snprintf(g->authorization, n, "token %s", o->gateway_token);
    }
    ro.authorization = g->authorization;
    if (rest_new(&ro, &g->rest, err) < 0) {
        gateway_free(g);
        return -1;
    }
    *ret = g;
    return 0;
}

void
gateway_free(struct gateway *g)
{
    if (g == NULL)
        return;
    rest_free(g->rest);
    free(g->authorization);
    free(g);
}

const char *
gateway_authorization(const struct gateway *g)
{
    return g->authorization;
}

static struct deadline
bounded(const struct gateway *g, struct deadline d)
{
    return deadline_min(d, deadline_in(g->timeout_ms));
}

/* "/api/kernels/{handle}{tail}" */
static int
kernel_path(char out[PATH_MAX_BYTES], const char *handle, const char *tail, struct err *err)
{
    if (!id_in_alphabet(handle, strlen(handle), 1, HANDLE_MAX))
        return err_set(err, ERR_INVALID, "not a kernel id");
    (void)snprintf(out, PATH_MAX_BYTES, "/api/kernels/%s%s", handle, tail);
    return 0;
}

/* A call that failed without an answer, in the gateway's terms. */
static int
unreached(const char *what, const struct err *why, struct err *err)
{
    if (why->code == ERR_LIMIT)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error", "the gateway, asked to %s: %s", what,
                        why->msg);
    if (why->code == ERR_INTERNAL || why->code == ERR_NOMEM) {
        if (err != NULL)
            *err = *why;
        return -1;
    }
    return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                    "the gateway, asked to %s, did not answer: %s", what, why->msg);
}

/* What a status means: 0 for the 2xx, else -1; a gateway's 404 is ERR_NOT_FOUND for the caller to
 * judge. */
static int
judge(const struct rest_reply *r, const char *what, struct err *err)
{
    if (r->status == 204 || (r->status >= 200 && r->status < 300 && r->is_json))
        return 0;
    if (r->status >= 200 && r->status < 300)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to %s, the gateway's address answered %d without JSON: it is no "
                        "Jupyter gateway",
                        what, r->status);
    if (r->status >= 300 && r->status < 400)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to %s, the gateway's address answered with a redirect (%d), which "
                        "is not followed",
                        what, r->status);
    if (r->status == 401 || r->status == 403)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "the gateway refused to %s (%d): is its token right, and is this allowed?",
                        what, r->status);
    if (r->status == 404 && !r->is_json) /* anybody's: it says nothing about a kernel */
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to %s, the gateway's address answered 404 without JSON: it is no "
                        "Jupyter gateway",
                        what);
    if (r->status == 404)
        return err_set(err, ERR_NOT_FOUND, "asked to %s, the gateway answered 404", what);
    return err_slug(err, ERR_UNAVAILABLE,
                    r->status >= 500 ? "gateway_unavailable" : "gateway_error",
                    "asked to %s, the gateway answered %d", what, r->status);
}

/* *ret_unanswered (may be NULL): it may have arrived, but no whole answer came. */
static int
call(struct gateway *g, const char *method, const char *path, const char *body, const char *what,
     struct deadline d, struct rest_reply *ret, bool *ret_unanswered, struct err *err)
{
    struct err why = ERR_INIT;

    g->pending = CALL_NONE;
    if (rest_call(g->rest, method, path, body, bounded(g, d), ret, &why) < 0) {
        if (ret_unanswered != NULL)
            *ret_unanswered = why.code == ERR_UNCERTAIN || why.code == ERR_TIMEOUT;
        return unreached(what, &why, err);
    }
    return judge(ret, what, err);
}

static int
parse(const struct rest_reply *r, const char *what, struct json_doc **ret, struct err *err)
{
    struct err why = ERR_INIT;

    if (json_parse(r->body, r->body_len, ANSWER_DEPTH, JSON_LAX, ret, &why) < 0)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to %s, the gateway answered with bad JSON: %s", what, why.msg);
    return 0;
}

/* A kernel's id out of a model, checked: it becomes part of paths. */
static const char *
model_id(json_val model)
{
    const char *id = json_cstring(json_member(model, "id"));

    return id != NULL && id_in_alphabet(id, strlen(id), 1, HANDLE_MAX) ? id : NULL;
}

int
gateway_start(struct gateway *g, char ret_handle[HANDLE_MAX + 1], struct deadline d,
              struct err *err)
{
    static const char *const what = "start a kernel";
    _cleanup_buf_ struct buf body = BUF_INIT(4096);
    struct rest_reply r;
    struct json_writer w;
    struct json_doc *doc = NULL;
    const char *id;
    bool unanswered = false;

    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_string(&w, "name", g->kernel_name);
    jw_end_object(&w);
    if (buf_check(&body, "the kernel's name", err) < 0)
        return -1;
    if (call(g, "POST", "/api/kernels", buf_str(&body), what, d, &r, &unanswered, err) < 0) {
        if (err != NULL && unanswered) /* it may start one all the same */
            err->code = ERR_UNCERTAIN;
        if (err != NULL && err->code == ERR_NOT_FOUND)
            return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                            "asked to start a kernel, the gateway answered 404");
        return -1;
    }
    if (parse(&r, what, &doc, err) < 0)
        return -1;
    id = model_id(json_root(doc));
    if (id != NULL)
        (void)snprintf(ret_handle, HANDLE_MAX + 1, "%s", id);
    json_free(doc);
    if (id == NULL)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to start a kernel, the gateway named none");
    return 0;
}

int
gateway_delete(struct gateway *g, const char *handle, struct deadline d, struct err *err)
{
    char path[PATH_MAX_BYTES];
    struct rest_reply r;
    struct err why = ERR_INIT;

    if (kernel_path(path, handle, "", err) < 0)
        return -1;
    /* A gateway that is just restarting the kernel answers 500 for a moment. */
    for (int i = 0; i < DELETES_MAX; i++) {
        why = (struct err)ERR_INIT;
        r.status = 0;
        if (call(g, "DELETE", path, NULL, "end a kernel", d, &r, NULL, &why) == 0) {
            if (r.status == ENDED)
                return 0;
            err_slug(&why, ERR_UNAVAILABLE, "gateway_error",
                     "asked to end a kernel, the gateway answered %d", r.status);
        }
        if (why.code == ERR_NOT_FOUND)
            return 0;
        if (r.status < 500 || deadline_left_ms(d) < 2 * DELETE_PAUSE_MS)
            break;
        (void)poll(NULL, 0, DELETE_PAUSE_MS);
    }
    return err_slug(err, ERR_UNCERTAIN, why.slug, "the end of kernel %s is not confirmed: %s",
                    handle, why.msg);
}

/* Of one kernel, by its path and what follows it. -1, also: ERR_CONFLICT "runtime_gone". */
static int
call_kernel(struct gateway *g, const char *method, const char *handle, const char *after,
            const char *what, struct deadline d, struct rest_reply *ret, struct err *err)
{
    char path[PATH_MAX_BYTES];
    struct err why = ERR_INIT;

    if (kernel_path(path, handle, after, err) < 0)
        return -1;
    if (call(g, method, path, NULL, what, d, ret, NULL, &why) == 0)
        return 0;
    if (why.code == ERR_NOT_FOUND)
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "kernel %s is gone", handle);
    if (err != NULL)
        *err = why;
    return -1;
}

int
gateway_interrupt(struct gateway *g, const char *handle, struct deadline d, struct err *err)
{
    struct rest_reply r;

    return call_kernel(g, "POST", handle, "/interrupt", "interrupt a kernel", d, &r, err);
}

int
gateway_busy(struct gateway *g, const char *handle, struct deadline d, struct err *err)
{
    struct rest_reply r;
    struct json_doc *doc = NULL;
    const char *state;
    int busy;

    if (call_kernel(g, "GET", handle, "", "show a kernel", d, &r, err) < 0 ||
        parse(&r, "show a kernel", &doc, err) < 0)
        return -1;
    state = json_cstring(json_member(json_root(doc), "execution_state"));
    busy = state != NULL && strcmp(state, "busy") == 0;
    json_free(doc);
    return busy;
}

/* A kernel model says "dead" once the gateway has given up on restarting it. */
static enum alive
alive_of(const struct rest_reply *r, struct err *err)
{
    struct json_doc *doc = NULL;
    const char *state;
    enum alive a = ALIVE_YES;

    if (parse(r, "show a kernel", &doc, err) < 0)
        return ALIVE_UNKNOWN;
    state = json_cstring(json_member(json_root(doc), "execution_state"));
    if (model_id(json_root(doc)) == NULL) {
        (void)err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                       "asked to show a kernel, the gateway showed none");
        a = ALIVE_UNKNOWN;
    } else if (state != NULL && strcmp(state, "dead") == 0) {
        a = ALIVE_NO;
    }
    json_free(doc);
    return a;
}

int
gateway_alive(struct gateway *g, const char *handle, struct deadline d, enum alive *ret,
              struct err *err)
{
    char path[PATH_MAX_BYTES];
    struct rest_reply r;
    struct err why = ERR_INIT;

    *ret = ALIVE_UNKNOWN;
    if (kernel_path(path, handle, "", err) < 0)
        return -1;
    if (call(g, "GET", path, NULL, "show a kernel", d, &r, NULL, &why) == 0)
        *ret = alive_of(&r, &why);
    else if (why.code == ERR_NOT_FOUND)
        *ret = ALIVE_NO;
    if (*ret != ALIVE_UNKNOWN)
        return 0;
    if (err != NULL)
        *err = why;
    return -1;
}

int
gateway_list(struct gateway *g, sandbox_list_cb cb, void *ctx, struct deadline d, struct err *err)
{
    struct rest_reply r;
    struct json_doc *doc = NULL;
    json_val all;

    if (call(g, "GET", "/api/kernels", NULL, "list kernels", d, &r, NULL, err) < 0) {
        if (err != NULL && err->code == ERR_NOT_FOUND)
            return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                            "asked to list kernels, the gateway answered 404");
        return -1;
    }
    if (parse(&r, "list kernels", &doc, err) < 0)
        return -1;
    all = json_root(doc);
    if (json_type(all) != JSON_ARRAY) {
        json_free(doc);
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to list kernels, the gateway gave no list");
    }
    for (size_t i = 0; i < json_length(all); i++) {
        json_val k = json_item(all, i);
        const char *name = json_cstring(json_member(k, "name"));
        const char *id = model_id(k);
        struct runtime_seen seen = {.handle = id, .running = true};
        if (id != NULL && name != NULL && strcmp(name, g->kernel_name) == 0 && cb(ctx, &seen) != 0)
            break;
    }
    json_free(doc);
    return 0;
}

int
gateway_ping(struct gateway *g, struct deadline d, struct err *err)
{
    struct rest_reply r;
    struct json_doc *doc = NULL;
    struct err why = ERR_INIT;
    json_val specs;
    bool found;

    if (call(g, "GET", "/api/kernelspecs", NULL, "list its kernelspecs", d, &r, NULL, &why) < 0) {
        if (why.code == ERR_NOT_FOUND)
            return err_slug(err, ERR_UNAVAILABLE, "gateway_error", "%s", why.msg);
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (parse(&r, "list its kernelspecs", &doc, err) < 0)
        return -1;
    specs = json_member(json_root(doc), "kernelspecs");
    found = json_type(json_member(specs, g->kernel_name)) == JSON_OBJECT;
    json_free(doc);
    if (!found)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "the gateway has no kernelspec named %s", g->kernel_name);
    return 0;
}

int
gateway_begin(struct gateway *g, enum gateway_call what, const char *handle, struct deadline d,
              struct err *err)
{
    static const struct {
        const char *method, *tail;
    } calls[] = {[CALL_ALIVE] = {"GET", ""},
                 [CALL_INTERRUPT] = {"POST", "/interrupt"},
                 [CALL_DELETE] = {"DELETE", ""}};
    char path[PATH_MAX_BYTES];

    g->pending = CALL_NONE;
    if (kernel_path(path, handle, calls[what].tail, err) < 0 ||
        rest_begin(g->rest, calls[what].method, path, NULL, bounded(g, d), err) < 0)
        return -1;
    g->pending = what;
    return 0;
}

enum gateway_call
gateway_pending(const struct gateway *g)
{
    return g->pending;
}

int
gateway_step(struct gateway *g, struct gateway_answer *ret)
{
    struct rest_reply r;
    struct err why = ERR_INIT;
    int rc;

    if (g->pending == CALL_NONE)
        return 0;
    rc = rest_step(g->rest, &r, &why);
    if (rc == 0)
        return 0;
    *ret = (struct gateway_answer){.call = g->pending, .alive = ALIVE_UNKNOWN};
    g->pending = CALL_NONE;
    if (rc < 0) {
        log_debug("a call to the gateway failed: %s", why.msg);
        return 1;
    }
    if (judge(&r, "look after a kernel", &why) == 0) {
        ret->alive = ret->call == CALL_ALIVE    ? alive_of(&r, &why)
                     : ret->call != CALL_DELETE ? ALIVE_YES
                     : r.status == ENDED        ? ALIVE_NO
                                                : ALIVE_UNKNOWN;
        ret->reached = ret->alive != ALIVE_UNKNOWN;
    } else if (why.code == ERR_NOT_FOUND) {
        ret->reached = true;
        ret->alive = ALIVE_NO;
    }
    return 1;
}

void
gateway_cancel(struct gateway *g)
{
    rest_cancel(g->rest);
    g->pending = CALL_NONE;
}

int
gateway_channel_url(const struct gateway *g, const char *handle, const char *session,
                    struct buf *out, struct err *err)
{
    bool tls = strncasecmp(g->url, "https://", 8) == 0;
    const char *rest = g->url + (tls ? 8 : 7);
    size_t n = strlen(rest);

    while (n > 0 && rest[n - 1] == '/')
        n--;
    (void)buf_printf(out, "%s%.*s/api/kernels/", tls ? "wss://" : "ws://", (int)n, rest);
    (void)rest_escape(out, handle);
    (void)buf_puts(out, "/channels?session_id=");
    (void)rest_escape(out, session);
    return buf_check(out, "the URL of a kernel's channels", err);
}
