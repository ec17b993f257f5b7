/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include "base/log.h"
#include "json/writer.h"
#include "model/problem.h"

#define PROBLEM_MAX 8192
#define RETRY_AFTER_DEFAULT_S 5

/* What a client may read of it: an internal fault's words can name paths and statements. */
static const char *
problem_detail(const struct err *e, const struct problem *p)
{
    if (e->code == ERR_INTERNAL || e->code == ERR_NOMEM || e->msg[0] == '\0')
        return p->status >= 500 ? "Something failed on our side; the log has it by the request id."
                                : p->help;
    return e->msg;
}

static void
problem_headers(struct api_call *c, const struct err *e, int status)
{
    if (status == 401) {
        const char *realm = "Bearer realm=\"husk\"";

        if (c->api->o.auth == API_AUTH_KEYS)
            http_add_header(c->x, "WWW-Authenticate", "%s%s", realm,
                            http_header(c->x, "authorization") != NULL ? ", error=\"invalid_token\""
                                                                       : "");
        else
            http_add_header(c->x, "WWW-Authenticate", "Basic realm=\"husk\"");
    }
    /* All of these are of the moment: the gateway or the service is in no state to answer. */
    if (e->retry_after_s > 0 || status == 429 || (status >= 502 && status <= 504))
        http_add_header(c->x, "Retry-After", "%d",
                        e->retry_after_s > 0 ? e->retry_after_s : RETRY_AFTER_DEFAULT_S);
    if (c->extra_name != NULL)
        http_add_header(c->x, c->extra_name, "%s", c->extra_value);
}

void
api_problem(struct api_call *c, const struct err *e)
{
    const struct problem *p = problem_of(e);
    _cleanup_buf_ struct buf body = BUF_INIT(PROBLEM_MAX);
    struct json_writer w;

    if (p->status == 503) /* full or waiting for something: not our fault */
        log_warning("%s: %s (%s)", p->slug, e->msg, err_name(e->code));
    else if (p->status >= 500)
        log_error("%s: %s (%s)", p->slug, e->msg, err_name(e->code));
    if (c->x->head_sent) { /* too late for a status: let the client see a broken answer */
        c->x->carrier->break_off(c->x->carrier_ctx);
        c->x->broken = true;
        return;
    }
    buf_clear(&c->x->headers);
    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_i64(&w, "status", p->status);
    jw_string(&w, "title", p->title);
    jw_string(&w, "detail", problem_detail(e, p));
    jw_string(&w, "code", p->slug);
    jw_string(&w, "request_id", c->x->req.request_id);
    jw_end_object(&w);
    api_renew(c);
    api_head(c, "no-store");
    problem_headers(c, e, p->status);
    (void)http_send(c->x, p->status, "application/problem+json", buf_str(&body), body.len);
}
