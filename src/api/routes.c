/* SPDX-License-Identifier: MIT */
#include "api/routes.h"

#define H(f) ((void (*)(void))(f))

/* What docs/openapi.json describes; a test holds the two against each other. */
static const struct http_route routes[] = {
    {HTTP_POST, "/v1/sessions", LIMIT_JSON_BODY, SCOPE_EXECUTE, "api", H(handle_session_open)},
    {HTTP_GET, "/v1/sessions", 0, SCOPE_READ, "api", H(handle_session_list)},
    {HTTP_GET, "/v1/sessions/{session_id}", 0, SCOPE_READ, "api", H(handle_session_get)},
    {HTTP_PATCH, "/v1/sessions/{session_id}", LIMIT_JSON_BODY, SCOPE_EXECUTE, "api",
     H(handle_session_patch)},
    {HTTP_DELETE, "/v1/sessions/{session_id}", 0, SCOPE_EXECUTE, "api", H(handle_session_close)},
    {HTTP_POST, "/v1/sessions/{session_id}/exec", -1, SCOPE_EXECUTE, "exec", H(handle_exec)},
    {HTTP_POST, "/v1/sessions/{session_id}/interrupt", LIMIT_JSON_BODY, SCOPE_EXECUTE, "ctl",
     H(handle_session_interrupt)},
    {HTTP_POST, "/v1/sessions/{session_id}/restart", LIMIT_JSON_BODY, SCOPE_EXECUTE, "api",
     H(handle_session_restart)},
    {HTTP_GET, "/v1/sessions/{session_id}/executions", 0, SCOPE_READ, "api",
     H(handle_session_executions)},
    {HTTP_GET, "/v1/sessions/{session_id}/files", 0, SCOPE_READ, "api", H(handle_file_list)},
    {HTTP_GET, "/v1/sessions/{session_id}/files/{path...}", 0, SCOPE_READ, "bulk",
     H(handle_file_get)},
    {HTTP_PUT, "/v1/sessions/{session_id}/files/{path...}", -1, SCOPE_EXECUTE, "bulk",
     H(handle_file_put)},
    {HTTP_DELETE, "/v1/sessions/{session_id}/files/{path...}", 0, SCOPE_EXECUTE, "api",
     H(handle_file_delete)},
    {HTTP_POST, "/v1/exec", -1, SCOPE_EXECUTE, "exec", H(handle_exec_once)},
    {HTTP_POST, "/v1/extract", -1, SCOPE_EXECUTE, "exec", H(handle_extract)},
    {HTTP_GET, "/v1/artifacts", 0, SCOPE_READ, "api", H(handle_artifact_list)},
    {HTTP_GET, "/v1/artifacts/{artifact_id}", 0, SCOPE_READ, "api", H(handle_artifact_get)},
    {HTTP_DELETE, "/v1/artifacts/{artifact_id}", 0, SCOPE_EXECUTE, "api",
     H(handle_artifact_delete)},
    {HTTP_GET, "/v1/artifacts/{artifact_id}/versions", 0, SCOPE_READ, "api",
     H(handle_artifact_versions)},
    {HTTP_GET, "/v1/artifacts/{artifact_id}/versions/{version}/content", 0, SCOPE_READ, "bulk",
     H(handle_artifact_content)},
    {HTTP_GET, "/v1/executions", 0, SCOPE_READ, "api", H(handle_executions_by_request)},
    {HTTP_GET, "/v1/executions/{execution_id}", 0, SCOPE_READ, "api", H(handle_execution_get)},
    {HTTP_GET, "/v1/executions/{execution_id}/events", 0, SCOPE_READ, "bulk",
     H(handle_execution_events)},
    {HTTP_POST, "/v1/keys", LIMIT_JSON_BODY, SCOPE_ADMIN, "api", H(handle_key_create)},
    {HTTP_GET, "/v1/keys", 0, SCOPE_ADMIN, "api", H(handle_key_list)},
    {HTTP_DELETE, "/v1/keys/{key_id}", 0, SCOPE_ADMIN, "api", H(handle_key_revoke)},
    {HTTP_GET, "/healthz", 0, SCOPE_PUBLIC, "ctl", H(handle_healthz)},
    {HTTP_GET, "/readyz", 0, SCOPE_PUBLIC, "ctl", H(handle_readyz)},
    {HTTP_GET, "/metrics", 0, SCOPE_PUBLIC, "ctl", H(handle_metrics)},
    {HTTP_GET, "/openapi.json", 0, SCOPE_PUBLIC, "ctl", H(handle_openapi)},
};

static const struct {
    api_handler handler;
    const char *names;
} queries[] = {
    {handle_session_list, "state label limit cursor"},
    {handle_session_executions, "limit cursor"},
    {handle_executions_by_request, "request_id"},
    {handle_execution_events, "last_event_id"},
    {handle_file_list, "path path_base64 glob recursive limit cursor"},
    {handle_file_delete, "recursive"},
    {handle_artifact_list, "session_id conversation_id workflow_run_id limit cursor"},
    {handle_artifact_versions, "limit cursor"},
};

const struct http_route *
api_routes(size_t *ret_n)
{
    *ret_n = sizeof(routes) / sizeof(routes[0]);
    return routes;
}

const char *
route_query(const struct http_route *r)
{
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        if (H(queries[i].handler) == r->handler)
            return queries[i].names;
    return "";
}
