/* SPDX-License-Identifier: MIT */
#include "ctl/nginx_conf.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/limits.h"
#include "model/problem.h"
#include "super/scoreboard.h"

/* Above what the API takes (LIMIT_JSON_BODY): a worker's refusal says which limit it was. */
#define JSON_BODY_MAX (16 * (int64_t)LIMIT_JSON_BODY)

static bool
is_tls(const struct settings *s)
{
    return s->tls_certificate[0] != '\0';
}

static bool
is_proxy(const struct settings *s)
{
    return strcmp(s->auth, "proxy") == 0;
}

static bool
has_cors(const struct settings *s)
{
    return s->cors_origins[strspn(s->cors_origins, ", \t")] != '\0';
}

/* $husk_cors_origin: what an answer of nginx's own says in Access-Control-Allow-Origin; empty:
 * nothing. */
static void
put_cors(const struct settings *s, struct buf *out)
{
    const char *p = s->cors_origins;

    if (!has_cors(s))
        return;
    (void)buf_puts(out, "    # Without these headers a page would not learn why nginx refused it.\n"
                        "    map $http_origin $husk_cors_origin {\n");
    for (p += strspn(p, ", \t"); *p != '\0'; p += strspn(p, ", \t")) {
        size_t n = strcspn(p, ", \t");

        /* The setting holds nothing that a quoted string could end with. */
        if (n == 1 && *p == '*')
            (void)buf_puts(out, "        default \"*\";\n");
        else
            (void)buf_printf(out, "        \"%.*s\" \"%.*s\";\n", (int)n, p, (int)n, p);
        p += n;
    }
    (void)buf_puts(out, "    }\n\n");
}

static void
put_head(const struct settings *s, const char *user, struct buf *out)
{
    (void)buf_puts(out, "# Made by `huskctl config --nginx` from husk's settings: change those and "
                        "make it again.\n"
                        "# Use: nginx -p PREFIX -c THIS_FILE (PREFIX takes pid file, access log "
                        "and temporary files)\n\n");
    if (user)
        (void)buf_printf(out, "user %s;\n", user);
    (void)buf_puts(out, "worker_processes auto;\n"
                        "pid nginx.pid;\n"
                        "error_log stderr warn;\n\n"
                        "events {\n"
                        "    worker_connections 4096;\n"
                        "}\n\n"
                        "http {\n"
                        "    server_tokens off;\n"
                        "    default_type application/octet-stream;\n"
                        "    client_body_temp_path client_body_temp;\n"
                        "    fastcgi_temp_path fastcgi_temp;\n"
                        "    proxy_temp_path proxy_temp;\n"
                        "    scgi_temp_path scgi_temp;\n"
                        "    uwsgi_temp_path uwsgi_temp;\n\n"
                        "    # The path without its query, no headers: no token can get into it.\n"
                        "    map $request $husk_line {\n"
                        "        \"~^(?<husk_method_path>[^ ?]+ [^ ?]*)\" $husk_method_path;\n"
                        "        default -;\n"
                        "    }\n"
                        "    log_format husk '$remote_addr [$time_iso8601] $request_id "
                        "\"$husk_line\" '\n"
                        "                    '$status $body_bytes_sent $request_time "
                        "$upstream_response_time';\n"
                        "    access_log access.log husk buffer=32k flush=1s;\n\n");
    /* Behind a unix socket stands another front end: its clients are not one. */
    (void)buf_puts(out, "    map $remote_addr $husk_client {\n"
                        "        unix: \"\";\n"
                        "        default $binary_remote_addr;\n"
                        "    }\n");
    if (s->connections_per_client > 0)
        (void)buf_printf(out,
                         "    limit_conn_zone $husk_client zone=husk_connections:1m;\n"
                         "    limit_conn_status 460;\n"
                         "    limit_conn husk_connections %" PRId64 ";\n",
                         s->connections_per_client);
    if (s->rate_per_second > 0)
        (void)buf_printf(out,
                         "    limit_req_zone $husk_client zone=husk_rate:1m rate=%" PRId64 "r/s;\n"
                         "    limit_req_status 429;\n"
                         "    limit_req zone=husk_rate burst=%" PRId64 " nodelay;\n",
                         s->rate_per_second, s->rate_per_second * 2);
    (void)buf_putc(out, '\n');
}

static void
put_upstreams(const struct settings *s, struct buf *out)
{
    for (int l = 0; l < LANE_COUNT; l++) {
        const char *lane = lane_name((enum lane)l);
        char what[16], path[SETTINGS_PATH_MAX];
        snprintf(what, sizeof(what), "sock:%s", lane);
        (void)buf_printf(out,
                         "    upstream husk_%s {\n"
                         "        server unix:%s max_fails=0;\n"
                         "    }\n",
                         lane, settings_path(s, what, path));
    }
    /* A path does not say everything: of one resource, bodies and deletes are in different lanes.
     */
    (void)buf_puts(out, "\n"
                        "    map $request_method $husk_exec_lane {\n"
                        "        POST husk_exec;\n"
                        "        default husk_api;\n"
                        "    }\n"
                        "    map $request_method $husk_file_lane {\n"
                        "        GET husk_bulk;\n"
                        "        HEAD husk_bulk;\n"
                        "        PUT husk_bulk;\n"
                        "        default husk_api;\n"
                        "    }\n"
                        "    map $request_method $husk_read_lane {\n"
                        "        GET husk_bulk;\n"
                        "        default husk_api;\n"
                        "    }\n"
                        "    # Was a worker reached at all? Else nothing ran.\n"
                        "    map $upstream_connect_time $husk_lost {\n"
                        "        ~^[0-9] /.husk/worker_lost;\n"
                        "        default /.husk/no_worker;\n"
                        "    }\n\n");
}

/* In the server, and so in every location that sets no parameter of its own. */
static void
put_fastcgi(const struct settings *s, struct buf *out)
{
    int64_t longest_ms =
        limit_exec_ms(s->start_timeout_ms, s->turn_wait_ms, s->max_exec_timeout_ms);
    (void)buf_puts(out, "        fastcgi_param REQUEST_METHOD $request_method;\n"
                        "        fastcgi_param REQUEST_URI $request_uri;\n"
                        "        fastcgi_param QUERY_STRING $query_string;\n"
                        "        fastcgi_param CONTENT_TYPE $content_type;\n"
                        "        fastcgi_param CONTENT_LENGTH $content_length;\n"
                        "        fastcgi_param SERVER_PROTOCOL $server_protocol;\n"
                        "        fastcgi_param REMOTE_ADDR $remote_addr;\n"
                        "        fastcgi_param HTTPS $https if_not_empty;\n"
                        "        fastcgi_param HUSK_REQUEST_ID $request_id;\n"
                        "        fastcgi_param HTTP_PROXY \"\";\n");
    if (is_proxy(s)) {
        (void)buf_puts(out, "        fastcgi_param HUSK_USER $husk_user;\n"
                            "        fastcgi_param HTTP_AUTHORIZATION \"\";\n"
                            "        fastcgi_param HTTP_");
        for (const char *p = s->proxy_user_header; *p; p++)
            (void)buf_putc(out, *p == '-' ? '_' : (char)toupper((unsigned char)*p));
        (void)buf_puts(out, " \"\";\n");
    }
    (void)buf_printf(out,
                     "        fastcgi_keep_conn off;\n"
                     "        # A request that is sent twice would run its code twice.\n"
                     "        fastcgi_next_upstream off;\n"
                     "        fastcgi_intercept_errors off;\n"
                     "        fastcgi_ignore_client_abort off;\n"
                     "        fastcgi_buffers 16 16k;\n"
                     "        fastcgi_buffer_size 32k;\n"
                     "        fastcgi_connect_timeout 5s;\n"
                     "        fastcgi_send_timeout 75s;\n"
                     "        # Above the longest execution with its wait, its start and its "
                     "grace.\n"
                     "        fastcgi_read_timeout %" PRId64 "s;\n\n",
                     (longest_ms + 999) / 1000);
}

static void
put_listen(const struct settings *s, struct buf *out)
{
    (void)buf_printf(out, "        listen %s%s;\n", s->listen, is_tls(s) ? " ssl http2" : "");
    (void)buf_printf(out, "        server_name %s;\n\n", s->server_name);
    if (is_tls(s))
        (void)buf_printf(out,
                         "        ssl_certificate %s;\n"
                         "        ssl_certificate_key %s;\n"
                         "        ssl_protocols TLSv1.2 TLSv1.3;\n"
                         "        ssl_session_cache shared:husk_tls:1m;\n"
                         "        ssl_session_timeout 1h;\n"
                         "        ssl_session_tickets off;\n"
                         "        add_header Strict-Transport-Security \"max-age=31536000\" "
                         "always;\n\n",
                         s->tls_certificate, s->tls_certificate_key);
    (void)buf_puts(out, "        merge_slashes off;\n"
                        "        absolute_redirect off;\n"
                        "        large_client_header_buffers 4 16k;\n"
                        "        client_header_timeout 30s;\n"
                        "        client_body_timeout 60s;\n"
                        "        send_timeout 75s;\n"
                        "        keepalive_timeout 65s;\n");
    (void)buf_printf(out, "        client_max_body_size %" PRId64 ";\n\n", JSON_BODY_MAX);
    if (is_proxy(s))
        (void)buf_printf(out,
                         "        # Who the caller is. The file stands beside this one and must "
                         "both authenticate and set\n"
                         "        # $husk_user, as in:\n"
                         "        #   auth_basic husk; auth_basic_user_file /etc/husk/htpasswd; "
                         "set $husk_user $remote_user;\n"
                         "        # Without it nginx does not start. A client's own %s never "
                         "reaches a worker.\n"
                         "        include husk-auth.conf;\n\n",
                         s->proxy_user_header);
}

static void
put_location(struct buf *out, const char *match, const char *pass, const char *more)
{
    (void)buf_printf(out,
                     "        location %s {\n"
                     "%s"
                     "            fastcgi_pass %s;\n"
                     "        }\n",
                     match, more, pass);
}

static void
put_routes(const struct settings *s, struct buf *out)
{
    /* These need no user. */
    const char *open = is_proxy(s) ? "            auth_basic off;\n"
                                     "            auth_request off;\n"
                                   : "";
    char more[400];
    int64_t exec_max = limit_exec_body(s->max_code_bytes);
    int64_t once_max = limit_once_body(s->max_code_bytes, s->max_input_bytes);
    int64_t once_ms = limit_once_ms(s->start_timeout_ms, s->turn_wait_ms, s->max_exec_timeout_ms,
                                    s->http_timeout_ms);

    put_location(out, "= /healthz", "husk_ctl", open);
    put_location(out, "= /readyz", "husk_ctl", open);
    put_location(out, "= /openapi.json", "husk_ctl", open);
    snprintf(more, sizeof(more),
             "%s            allow 127.0.0.1;\n"
             "            allow ::1;\n"
             "            allow unix:;\n"
             "            deny all;\n",
             open);
    put_location(out, "= /metrics", "husk_ctl", more);
    put_location(out, "~ ^/v1/sessions/[^/]+/interrupt$", "husk_ctl", "");

    snprintf(more, sizeof(more),
             "            client_max_body_size %" PRId64 ";\n"
             "            fastcgi_buffering off;\n",
             exec_max);
    put_location(out, "~ ^/v1/sessions/[^/]+/exec$", "$husk_exec_lane", more);
    snprintf(more, sizeof(more),
             "            client_max_body_size %" PRId64 ";\n"
             "            fastcgi_buffering off;\n"
             "            fastcgi_read_timeout %" PRId64 "s;\n",
             once_max, (once_ms + 999) / 1000);
    put_location(out, "~ ^/v1/(exec|extract)$", "$husk_exec_lane", more);
    put_location(out, "~ ^/v1/artifacts/[^/]+/versions/[^/]+/content$", "$husk_read_lane",
                 "            fastcgi_buffering off;\n");
    put_location(out, "~ ^/v1/executions/[^/]+/events$", "$husk_read_lane",
                 "            fastcgi_buffering off;\n");
    snprintf(more, sizeof(more),
             "            client_max_body_size %" PRId64 ";\n"
             "            fastcgi_request_buffering off;\n"
             "            fastcgi_buffering off;\n",
             s->max_file_bytes);
    put_location(out, "~ ^/v1/sessions/[^/]+/files/.", "$husk_file_lane", more);
    put_location(out, "/", "husk_api", "");
    (void)buf_putc(out, '\n');
}

/* Inside a single-quoted string of JSON. The table of problems holds no ", \\ or $ (its test). */
static void
put_quoted(struct buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            (void)buf_putc(out, '\\');
        (void)buf_putc(out, *p);
    }
}

/* One error of nginx's own: a location that answers with the problem of this slug. */
static void
put_problem(const struct settings *s, struct buf *out, const char *slug, int status)
{
    const struct problem *p = problem_find(slug);
    (void)buf_printf(out,
                     "        location = /.husk/%s {\n"
                     "            internal;\n"
                     "            # a body that could not be kept is refused once, not again here\n"
                     "            client_max_body_size 0;\n"
                     "            default_type application/problem+json;\n"
                     "            add_header X-Request-Id $request_id always;\n"
                     "            add_header X-Content-Type-Options nosniff always;\n"
                     "            add_header Cache-Control no-store always;\n",
                     slug);
    if (has_cors(s))
        (void)buf_puts(out, "            add_header Access-Control-Allow-Origin "
                            "$husk_cors_origin always;\n"
                            "            add_header Access-Control-Expose-Headers "
                            "\"X-Request-Id, Retry-After, WWW-Authenticate\" always;\n"
                            "            add_header Vary Origin always;\n");
    /* Headers of the server are inherited only where a location adds none. */
    if (is_tls(s))
        (void)buf_puts(out, "            add_header Strict-Transport-Security "
                            "\"max-age=31536000\" always;\n");
    if (status == 401)
        (void)buf_puts(out, "            add_header WWW-Authenticate "
                            "$sent_http_www_authenticate always;\n");
    if (status == 429 || status == 503)
        (void)buf_puts(out, "            add_header Retry-After 1 always;\n");
    (void)buf_printf(out, "            return %d '{\"status\":%d,\"title\":\"", status, status);
    put_quoted(out, p->title);
    (void)buf_puts(out, "\",\"detail\":\"");
    put_quoted(out, p->help);
    (void)buf_printf(out,
                     "\",\"code\":\"%s\",\"request_id\":\"$request_id\"}';\n"
                     "        }\n",
                     slug);
}

static void
put_errors(const struct settings *s, struct buf *out)
{
    /* 494 to 497 are nginx's names of what a client did wrong before there was a request; 460 is
     * ours, to tell the two limits apart. */
    static const struct {
        const char *on, *slug;
        int status;
    } errors[] = {
        {"400", "invalid_request", 400},
        {"401", "unauthorized", 401},
        {"403", "forbidden", 403},
        {"404", "not_found", 404},
        {"411", "length_required", 411},
        {"413", "body_too_large", 413},
        {"414", "uri_too_long", 414},
        {"416", "range_not_satisfiable", 416},
        {"429", "rate_limited", 429},
        {"460", "too_many_connections", 429},
        {"431 494", "headers_too_large", 431},
        {"495 496 497", "bad_tls", 400},
        {"500", "internal", 500},
        {"501", "not_implemented", 501},
        {"503", "unavailable", 503},
        {"504", "gateway_timeout", 504},
    };
    (void)buf_puts(out,
                   "        # What nginx refuses itself is answered in the API's own shape.\n");
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        (void)buf_printf(out, "        error_page %s = /.husk/%s;\n", errors[i].on, errors[i].slug);
    (void)buf_puts(out, "        error_page 502 = $husk_lost;\n"
                        "        # nginx refuses TRACE before it knows the resource; what the "
                        "resource takes, a worker says.\n"
                        "        recursive_error_pages on;\n"
                        "        error_page 405 = @husk_method;\n"
                        "        location @husk_method {\n"
                        "            fastcgi_pass husk_api;\n"
                        "        }\n");
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        put_problem(s, out, errors[i].slug, errors[i].status);
    put_problem(s, out, "worker_lost", 502);
    put_problem(s, out, "no_worker", 503);
}

int
nginx_conf(const struct settings *s, const char *nginx_user, struct buf *out)
{
    put_head(s, nginx_user, out);
    put_cors(s, out);
    put_upstreams(s, out);
    (void)buf_puts(out, "    server {\n");
    put_listen(s, out);
    put_fastcgi(s, out);
    put_routes(s, out);
    put_errors(s, out);
    (void)buf_puts(out, "    }\n}\n");
    return out->failed ? -1 : 0;
}
