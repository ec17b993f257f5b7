/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include "base/cleanup.h"
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

/* A request target through the parser and the routes; the first byte picks the method. */

static const struct http_route routes[] = {
    {.method = HTTP_GET, .pattern = "/v1/sessions"},
    {.method = HTTP_POST, .pattern = "/v1/sessions/{id}/exec"},
    {.method = HTTP_GET, .pattern = "/v1/sessions/{id}/files/{path...}"},
    {.method = HTTP_PUT, .pattern = "/v1/sessions/{id}/files/{path...}"},
    {.method = HTTP_GET, .pattern = "/v1/artifacts/{id}/versions/{n}/content"},
};

static void
check_params(const struct http_request *r)
{
    for (int i = 0; i < r->n_params; i++) {
        if (r->params[i].len == 0 || r->params[i].value[r->params[i].len] != '\0')
            abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_request r = {0};
    const struct http_route *found = NULL;
    struct err err = ERR_INIT;
    char allow[64];

    if (size == 0)
        return 0;
    _cleanup_free_ char *target = xstrndup((const char *)data + 1, size - 1);
    r.method = (enum http_method)(data[0] % (HTTP_OTHER + 1));
    if (http_parse_target(&r, target, &err) < 0) {
        if (r.path || !err.slug)
            abort();
        return 0;
    }
    if (r.path[0] != '/' || strlen(r.path) > strlen(target))
        abort();
    int rc = http_route_find(routes, sizeof(routes) / sizeof(routes[0]), &r, &found, allow,
                             sizeof(allow));
    if (rc == -2 || (rc == 1) != (found != NULL))
        abort();
    if (rc == 1)
        check_params(&r);
    http_request_done(&r);
    return 0;
}
