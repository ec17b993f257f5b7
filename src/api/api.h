/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_API_H
#define HUSK_API_API_H

#include "base/clock.h"
#include "base/err.h"
#include "http/http.h"
#include "manager/manager.h"
#include "super/scoreboard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The REST API over a manager: a request goes through the route table, authorisation, strict
 * decoding and the manager, and comes back as JSON, bytes or an event stream.  Contract:
 * docs/openapi.json.  One struct api a process; it holds no state of a request between two.
 */
struct api;

enum api_auth { API_AUTH_KEYS, API_AUTH_PROXY, API_AUTH_NONE };
/* "keys", "proxy", "none": 1 known, 0 not. */
int api_auth_parse(const char *s, enum api_auth *ret);

/* Plain values (strings are borrowed for its life), so that api needs no conf. */
struct api_options {
    struct manager *manager; /* borrowed */
    /* limits, from the settings */
    int64_t max_code_bytes, max_file_bytes, max_output_bytes, max_input_bytes;
    int64_t exec_timeout_ms, max_exec_timeout_ms;
    int64_t turn_wait_ms, start_timeout_ms, http_timeout_ms;
    const char *spool_dir;
    /* edge */
    enum api_auth auth;
    const char *proxy_user_header; /* of SANDBOX_AUTH=proxy: also what the problem's text names */
    const char *cors_origins;      /* comma- or space-separated, "" none, "*" any */
    /* what sessions and metrics say about this service */
    const struct manager_isolation *isolation; /* NULL: as the manager says */
    const char *kernel_name;
    const char *version;
    /* times; 0 means the built-in value */
    int64_t keepalive_ms; /* between comments on a quiet event stream: 5000 */
    int64_t stall_ms;     /* a reader that takes nothing for so long is given up: 60000 */
    /* the scoreboard for /metrics and this process's own slot for the counters; NULL allowed */
    struct scoreboard *scoreboard;
    struct score_slot *slot;
    enum lane lane; /* this worker's, for the counters */
    /* A deadline this process promises to meet (the master kills it 5 s later); NULL allowed. */
    void (*publish_deadline)(void *ctx, struct deadline d);
    void *ctx;
};

/* ERR_INVALID when an origin of cors_origins is none. The options are copied. */
int api_new(const struct api_options *o, struct api **ret, struct err *err);
void api_free(struct api *a); /* NULL is fine */

/* Answers one request; never fails: what goes wrong becomes the answer. target_err: NULL, or why
 * the request's target did not parse (x->req.path is NULL then). Logs one line. The caller then
 * finishes and frees the exchange. */
void api_serve(struct api *a, struct http_exchange *x, const struct err *target_err);

/* The route table, for the tests and for `huskctl config --nginx`. */
const struct http_route *api_routes(size_t *ret_n);

#endif
