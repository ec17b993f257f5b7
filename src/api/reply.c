/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include "base/log.h"

#define STALL_MS 60000

void
api_head(struct api_call *c, const char *cache_control)
{
    struct http_exchange *x = c->x;

    http_add_header(x, "X-Request-Id", "%s", x->req.request_id);
    http_add_header(x, "Cache-Control", "%s", cache_control);
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    cors_headers(c);
}

struct deadline
api_promise(struct api_call *c, int64_t ms)
{
    struct deadline d = deadline_in(ms);

    if (c->api->o.publish_deadline != NULL)
        c->api->o.publish_deadline(c->api->o.ctx, d);
    return d;
}

void
api_renew(struct api_call *c)
{
    int64_t ms = c->api->o.stall_ms > 0 ? c->api->o.stall_ms : STALL_MS;

    c->x->budget = api_promise(c, ms);
}

void
api_send_json(struct api_call *c, int status, struct buf *body)
{
    struct err err = ERR_INIT;

    if (buf_check(body, "the answer", &err) < 0) {
        api_problem(c, &err);
        return;
    }
    api_renew(c);
    api_head(c, "no-store");
    (void)http_send(c->x, status, "application/json", body->data, body->len);
}

void
api_send_empty(struct api_call *c, int status)
{
    api_renew(c);
    api_head(c, "no-store");
    (void)http_send_empty(c->x, status);
}
