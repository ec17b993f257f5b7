/* SPDX-License-Identifier: MIT */
#include "api/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/routes.h"
#include "base/cleanup.h"
#include "base/log.h"

/* The status that logs and counters know, as in nginx. */
#define CLIENT_CLOSED 499

int
api_new(const struct api_options *o, struct api **ret, struct err *err)
{
    struct api *a = xcalloc(1, sizeof(*a));

    a->o = *o;
    if (cors_init(a, o->cors_origins, err) < 0) {
        api_free(a);
        return -1;
    }
    *ret = a;
    return 0;
}

void
api_free(struct api *a)
{
    if (a == NULL)
        return;
    cors_done(a);
    free(a);
}

static bool
peer_gone(void *ctx)
{
    struct http_exchange *x = ctx;

    return x->carrier->gone(x->carrier_ctx);
}

/* "…/files/" names no file: said as such, where the table would only say 404. */
static bool
is_empty_file_name(const struct http_request *r)
{
    static const char root[] = "/v1/sessions/", end[] = "/files/";
    size_t n = strlen(r->path), k = sizeof(end) - 1;

    return n > k && strncmp(r->path, root, sizeof(root) - 1) == 0 &&
           strcmp(r->path + n - k, end) == 0 &&
           strchr(r->path + sizeof(root) - 1, '/') == r->path + n - k;
}

static int
no_route(struct api_call *c, int found, const char *allow, struct err *err)
{
    if (found == -2)
        return err_slug(err, ERR_INVALID, "bad_request_target",
                        "the path is badly percent-encoded");
    if (found == 0 && is_empty_file_name(&c->x->req))
        return err_slug(err, ERR_INVALID, "bad_path", "the file's name is empty");
    if (found == 0)
        return err_slug(err, ERR_NOT_FOUND, "not_found", "there is no such resource");
    c->extra_name = "Allow";
    (void)snprintf(c->extra_value, sizeof(c->extra_value), "%s", allow);
    return err_slug(err, ERR_INVALID, "method_not_allowed", "not with this method; allowed are: %s",
                    allow);
}

static int
check(struct api_call *c, struct err *err)
{
    const struct http_route *r = c->route;

    if (api_query_only(c, route_query(r), err) < 0 || api_authorise(c, err) < 0)
        return -1;
    if (r->max_body == 0 && c->x->req.content_length > 0)
        return err_slug(err, ERR_INVALID, "invalid_request", "this call takes no body");
    return 0;
}

static void
dispatch(struct api_call *c, const struct err *target_err)
{
    struct http_exchange *x = c->x;
    struct err err = ERR_INIT;
    char allow[100] = "";
    size_t n;
    const struct http_route *table = api_routes(&n);
    int found;

    if (x->req.path == NULL) {
        err = *target_err;
        api_problem(c, &err);
        return;
    }
    found = http_route_find(table, n, &x->req, &c->route, allow, sizeof(allow));
    if (found == -1 && x->req.method == HTTP_OPTIONS && cors_preflight(c, allow))
        return;
    if (found != 1)
        (void)no_route(c, found, allow, &err);
    if (found != 1 || check(c, &err) < 0) {
        http_drain(x, API_DRAIN_MAX);
        api_problem(c, &err);
        return;
    }
    ((api_handler)c->route->handler)(c);
}

static void
count(struct api *a, const struct http_exchange *x, int64_t since_us)
{
    struct score_slot *s = a->o.slot;
    int class = x->status / 100;

    if (s == NULL)
        return;
    s->requests++;
    if (class > 0 && class < SCORE_STATUS_CLASSES)
        s->requests_by[a->o.lane][class]++;
    score_observe(&s->request_time, clock_mono_us() - since_us);
    s->bytes_out += (uint64_t)x->sent;
    if (x->req.content_length > 0)
        s->bytes_in += (uint64_t)x->req.content_length;
}

void
api_serve(struct api *a, struct http_exchange *x, const struct err *target_err)
{
    struct api_call c = {.api = a, .x = x, .watch = {.gone = peer_gone, .ctx = x}};
    int64_t since = clock_mono_us();

    log_set_request(x->req.request_id);
    if (a->o.publish_deadline != NULL)
        a->o.publish_deadline(a->o.ctx, x->budget);
    dispatch(&c, target_err);
    if (x->status == 0) /* whoever asked went before there was an answer */
        x->status = CLIENT_CLOSED;
    count(a, x, since);
    /* The route's pattern, not the path or query: those can hold what is nobody's business. */
    log_info("%s %s %d %" PRId64 " ms %" PRId64 " bytes%s", x->req.method_name,
             c.route != NULL ? c.route->pattern : "-", x->status, (clock_mono_us() - since) / 1000,
             x->sent, x->broken ? ", peer gone" : "");
    log_set_execution(NULL);
    log_set_session(NULL);
    log_set_request(NULL);
}
