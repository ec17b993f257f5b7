/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <string.h>

#include "api/follow.h"
#include "base/log.h"
#include "base/num.h"

#define WORKERS_FOR_FILES 2    /* idle workers of the lane that followers leave alone */
#define RESERVE_FROM_WORKERS 4 /* in a lane of fewer there is nothing to reserve */

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

/*
 * A follower keeps its worker for as long as the run goes on, and files are served by the same
 * lane: the last idle workers of it are theirs.
 */
static int
check_room(const struct api_call *c, struct err *err)
{
    struct scoreboard *b = c->api->o.scoreboard;
    enum lane lane = c->api->o.lane;
    int all = 0, idle = 0;

    for (int i = 0; b != NULL && i < scoreboard_slots(b); i++) {
        const struct score_slot *s = scoreboard_slot(b, i);
        int state = atomic_load(&s->state);

        if (atomic_load(&s->lane) != (int)lane || state == SLOT_EMPTY)
            continue;
        all++;
        idle += state == SLOT_IDLE;
    }
    if (all < RESERVE_FROM_WORKERS || idle >= WORKERS_FOR_FILES)
        return 0;
    (void)err_slug(err, ERR_UNAVAILABLE, "no_worker",
                   "as many event streams are followed as SANDBOX_WORKERS_BULK leaves room for");
    err->retry_after_s = 2;
    return -1;
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
        manager_execution_settle(c->api->o.manager, &row, &err) < 0 ||
        (row.reason == REASON_NONE && check_room(c, &err) < 0)) {
        api_problem(c, &err);
        return;
    }
    log_set_session(row.session_name);
    log_set_execution(row.eid);
    follow_stream(c, &row, after);
}
