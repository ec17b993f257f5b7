/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <string.h>

#include "api/follow.h"
#include "base/log.h"
#include "base/num.h"

/* The header wins: a browser's EventSource repeats the URL it was made with when it reconnects. */
static int
last_event_id(struct api_call *c, int64_t *ret, struct err *err)
{
    size_t n;
    const char *header = http_header(c->x, "last-event-id");
    const char *query = http_query(c->x, "last_event_id", &n);
    const char *s = header != NULL ? header : query;

    *ret = 0;
    if (s == NULL || (s == header && *s == '\0'))
        return 0;
    if (!num_i64(s, strlen(s), 0, INT64_MAX, ret))
        return err_slug(err, ERR_INVALID, s == header ? "bad_header" : "bad_value",
                        "%s must be the id of an event of this stream",
                        s == header ? "the header Last-Event-ID"
                                    : "the query parameter \"last_event_id\"");
    return 0;
}

void
handle_execution_events(struct api_call *c)
{
    struct err err = ERR_INIT;
    struct execution row;
    const char *eid;
    int64_t after;

    if (api_execution_id(c, &eid, &err) < 0 || last_event_id(c, &after, &err) < 0 ||
        manager_execution_get(c->api->o.manager, &c->caller, eid, &row, &err) < 0 ||
        manager_execution_settle(c->api->o.manager, &row, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    log_set_session(row.session_name);
    log_set_execution(row.eid);
    follow_stream(c, &row, after);
}
