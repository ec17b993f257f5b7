/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_CALL_H
#define HUSK_API_CALL_H

#include "api/api.h"
#include "base/buf.h"
#include "model/limits.h"

/* The layer's own view of a request: what every resource's handler gets. */

#define CORS_ORIGINS_MAX 64

struct api {
    struct api_options o;
    char *origins[CORS_ORIGINS_MAX]; /* heap, lower-case scheme and host as configured */
    int n_origins;
    bool any_origin;
};

/* What a route asks of the caller. */
enum api_scope { SCOPE_PUBLIC, SCOPE_READ, SCOPE_EXECUTE, SCOPE_ADMIN };

struct api_call {
    struct api *api;
    struct http_exchange *x;
    const struct http_route *route; /* NULL until found */
    struct caller caller;
    struct watch watch;
    /* one header that a problem of this request carries besides (Allow, Content-Range) */
    const char *extra_name;
    char extra_value[160];
};

typedef void (*api_handler)(struct api_call *c);

/* What is read and thrown away of a body that an early answer leaves behind: enough for the front
 * end to hand that answer on instead of reporting a broken connection. */
#define API_DRAIN_MAX (1024 * 1024)

#define LIST_LIMIT_DEFAULT 100
#define LIST_LIMIT_MAX 1000
#define CURSOR_MAX 2048

/* --- reply.c: every answer goes through these --- */

/* The headers each answer carries; call once, right before it is sent. */
void api_head(struct api_call *c, const char *cache_control);
/* The budget for what is sent or read from now on; moves with every piece that moves. */
void api_renew(struct api_call *c);
/* Publishes a deadline that a slow call is given, and returns it. */
struct deadline api_promise(struct api_call *c, int64_t ms);
void api_send_json(struct api_call *c, int status, struct buf *body);
void api_send_empty(struct api_call *c, int status);

/* --- problem.c --- */
void api_problem(struct api_call *c, const struct err *e);

/* --- query.c: parameters of path and query --- */

/* A session's name in the path: ERR_INVALID "bad_session_id". Borrowed from the request. */
int api_session_name(const struct api_call *c, const char **ret, struct err *err);
/* An execution's id in the path: ERR_NOT_FOUND "execution_not_found" if it can be none. */
int api_execution_id(const struct api_call *c, const char **ret, struct err *err);
/* Refuses query parameters that are not in the space-separated list. */
int api_query_only(const struct api_call *c, const char *names, struct err *err);
int api_query_limit(const struct api_call *c, int *ret, struct err *err);
int api_query_bool(const struct api_call *c, const char *name, bool *ret, struct err *err);
/* A cursor: what cursor_member() wrote. *ret_n 0 if none was given. */
int api_query_cursor(const struct api_call *c, char ret[CURSOR_MAX + 1], size_t *ret_n,
                     struct err *err);
/* "<number>.<rest>", the form of cursors over rows. */
int cursor_split(const char *p, size_t n, int64_t *ret_number, const char **ret_rest,
                 struct err *err);
/* Appends the member next_cursor: the cursor, or null when p is NULL. */
struct json_writer;
void cursor_member(struct json_writer *w, const char *p, size_t n);

/* --- auth.c --- */

/* Who calls: fills c->caller, or ERR_DENIED ("unauthorized", "forbidden", …). */
int api_authorise(struct api_call *c, struct err *err);

/* --- cors.c --- */
int cors_init(struct api *a, const char *origins, struct err *err);
void cors_done(struct api *a);
void cors_headers(struct api_call *c);
/* Answers an OPTIONS request from an allowed origin; false: it is none of ours. */
bool cors_preflight(struct api_call *c, const char *allow);

/* --- body.c --- */

/* Reads a JSON body (application/json, else "unsupported_media_type"); none at all leaves ret
 * empty. */
int api_read_json(struct api_call *c, size_t max, struct buf *ret, struct err *err);

/* --- exec.c --- */

/* A run of the service's own: as manager_exec_once, with the request's ids, ended when the caller
 * goes (*ret_gone), its result kept like any other's. */
int api_run_once(struct api_call *c, struct once_request *r, struct exec_outcome *ret,
                 bool *ret_gone, struct err *err);

/* --- the resources' handlers, as named in the route table --- */
void handle_session_open(struct api_call *c);
void handle_session_list(struct api_call *c);
void handle_session_get(struct api_call *c);
void handle_session_patch(struct api_call *c);
void handle_session_close(struct api_call *c);
void handle_session_interrupt(struct api_call *c);
void handle_session_restart(struct api_call *c);
void handle_exec(struct api_call *c);
void handle_exec_once(struct api_call *c);
void handle_extract(struct api_call *c);
void handle_artifact_list(struct api_call *c);
void handle_artifact_get(struct api_call *c);
void handle_artifact_versions(struct api_call *c);
void handle_artifact_content(struct api_call *c);
void handle_artifact_delete(struct api_call *c);
void handle_session_executions(struct api_call *c);
void handle_executions_by_request(struct api_call *c);
void handle_execution_get(struct api_call *c);
void handle_execution_events(struct api_call *c);
void handle_file_list(struct api_call *c);
void handle_file_get(struct api_call *c);
void handle_file_put(struct api_call *c);
void handle_file_delete(struct api_call *c);
void handle_key_create(struct api_call *c);
void handle_key_list(struct api_call *c);
void handle_key_revoke(struct api_call *c);
void handle_healthz(struct api_call *c);
void handle_readyz(struct api_call *c);
void handle_metrics(struct api_call *c);
void handle_openapi(struct api_call *c);

#endif
