/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <inttypes.h>
#include <string.h>

#include "api/render.h"
#include "json/writer.h"

#define LIST_BYTES_MAX (4 * 1024 * 1024)

static void
send_list(struct api_call *c, const struct execution *e, size_t n, bool more)
{
    _cleanup_buf_ struct buf body = BUF_INIT(LIST_BYTES_MAX);
    _cleanup_buf_ struct buf cursor = BUF_INIT(CURSOR_MAX);
    struct json_writer w;

    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_array(&w, "executions");
    for (size_t i = 0; i < n; i++)
        render_execution(&w, NULL, &e[i]);
    jw_end_array(&w);
    if (more && n > 0)
        (void)buf_printf(&cursor, "%" PRId64 ".%s", e[n - 1].created_at, e[n - 1].eid);
    cursor_member(&w, cursor.data, cursor.len);
    jw_end_object(&w);
    api_send_json(c, 200, &body);
}

void
handle_session_executions(struct api_call *c)
{
    char cursor[CURSOR_MAX + 1];
    struct execution *list = NULL;
    struct err err = ERR_INIT;
    const char *name, *after_eid = NULL;
    int64_t after = 0;
    size_t n_cursor, n = 0;
    bool more = false;
    int limit;

    if (api_session_name(c, &name, &err) < 0 || api_query_limit(c, &limit, &err) < 0 ||
        api_query_cursor(c, cursor, &n_cursor, &err) < 0 ||
        (n_cursor > 0 && cursor_split(cursor, n_cursor, &after, &after_eid, &err) < 0) ||
        manager_executions(c->api->o.manager, &c->caller, name, after, after_eid, limit, &list, &n,
                           &more, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    send_list(c, list, n, more);
    free(list);
}

/* For a caller that met worker_lost or duplicate_request: what became of its request. */
void
handle_executions_by_request(struct api_call *c)
{
    struct err err = ERR_INIT;
    struct execution e;
    size_t len;
    const char *id = http_query(c->x, "request_id", &len);

    if (id == NULL || len == 0 || len > REQUEST_ID_MAX) {
        (void)err_slug(&err, ERR_INVALID, "bad_value",
                       "the query parameter \"request_id\" is needed: the request id of the call "
                       "whose execution is looked for");
        api_problem(c, &err);
        return;
    }
    if (manager_execution_by_request(c->api->o.manager, &c->caller, id, &e, &err) == 0) {
        (void)manager_execution_settle(c->api->o.manager, &e, &err);
        send_list(c, &e, 1, false);
    } else if (err.code == ERR_NOT_FOUND) {
        send_list(c, NULL, 0, false);
    } else {
        api_problem(c, &err);
    }
}

void
handle_execution_get(struct api_call *c)
{
    _cleanup_buf_ struct buf body = BUF_INIT(LIST_BYTES_MAX);
    struct json_writer w;
    struct err err = ERR_INIT;
    struct execution e;
    const char *eid;

    if (api_execution_id(c, &eid, &err) < 0 ||
        manager_execution_get(c->api->o.manager, &c->caller, eid, &e, &err) < 0 ||
        manager_execution_settle(c->api->o.manager, &e, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    jw_init(&w, &body);
    render_execution(&w, NULL, &e);
    api_send_json(c, 200, &body);
}
