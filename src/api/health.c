/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include "json/writer.h"

#define READY_MS 5000

/* isolation may be NULL: then what keeps sessions apart is not said. */
static void
send_status(struct api_call *c, const char *status, const struct manager_isolation *isolation)
{
    _cleanup_buf_ struct buf body = BUF_INIT(1024);
    struct json_writer w;

    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_string(&w, "status", status);
    jw_string(&w, "version", c->api->o.version);
    if (isolation) {
        jw_string(&w, "isolation", isolation->tier);
        jw_string(&w, "egress", isolation->egress);
    }
    jw_end_object(&w);
    api_send_json(c, 200, &body);
}

/* A worker answers: nothing else is asked, so that a broken gateway restarts nobody. */
void
handle_healthz(struct api_call *c)
{
    send_status(c, "ok", NULL);
}

void
handle_readyz(struct api_call *c)
{
    struct err err = ERR_INIT;

    if (manager_ready(c->api->o.manager, api_promise(c, READY_MS), &err) == 0) {
        send_status(c, "ready", manager_isolation(c->api->o.manager));
        return;
    }
    /* Whatever it is: not ready is 503, and the detail says why. */
    if (err.code != ERR_UNAVAILABLE)
        err.slug = NULL;
    err.code = ERR_UNAVAILABLE;
    api_problem(c, &err);
}
