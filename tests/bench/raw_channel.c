/* SPDX-License-Identifier: MIT */
/*
 * The yardstick: a bare libwebsockets client on a kernel's channels, doing what every execution
 * must (send, receive until reply and idle) and nothing else.  One kernel a process; prints one
 * JSON line.
 *
 * usage: raw_channel PORT TOKEN KERNEL kept|new COUNT CODE
 *   kept: one connection, TCP_QUICKACK before every read; new: a connection an execution, no socket
 * options
 */
#include <json-c/json.h>
#include <libwebsockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"

struct raw {
    struct lws_context *context;
    struct lws *wsi;
    const char *token, *kernel;
    int port;
    bool quick, up, closed, reply, idle;
    struct buf tx, rx;
    char msg_id[ID_UUID_SIZE];
    double first_output;
};

static double
now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
set_option(struct lws *wsi, int option)
{
    int one = 1;
    (void)setsockopt(lws_get_socket_fd(wsi), IPPROTO_TCP, option, &one, sizeof(one));
}

static const char *
text_of(struct json_object *o, const char *outer, const char *name)
{
    struct json_object *v;
    if (outer != NULL && !json_object_object_get_ex(o, outer, &o))
        return "";
    return json_object_object_get_ex(o, name, &v) ? json_object_get_string(v) : "";
}

static void
take_message(struct raw *r)
{
    struct json_object *o = json_tokener_parse(r->rx.data);
    if (o != NULL && strcmp(text_of(o, "parent_header", "msg_id"), r->msg_id) == 0) {
        const char *type = text_of(o, NULL, "msg_type");
        if (strcmp(type, "execute_reply") == 0)
            r->reply = true;
        else if (strcmp(type, "stream") == 0 && r->first_output == 0)
            r->first_output = now_ms();
        else if (strcmp(type, "status") == 0 &&
                 strcmp(text_of(o, "content", "execution_state"), "idle") == 0)
            r->idle = true;
    }
    json_object_put(o);
    buf_clear(&r->rx);
}

static int
on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct raw *r = lws_context_user(lws_get_context(wsi));
    char value[256];
    (void)user;
    switch (reason) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER: {
        unsigned char **p = in;
        int n = snprintf(value, sizeof(value), "token %s", r->token);
        return lws_add_http_header_by_name(wsi, (const unsigned char *)"authorization:",
                                           (unsigned char *)value, n, p, *p + len)
                   ? -1
                   : 0;
    }
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        r->up = true;
        if (r->quick) {
            set_option(wsi, TCP_NODELAY);
            set_option(wsi, TCP_QUICKACK);
        }
        break;
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        if (r->tx.len > LWS_PRE) {
            (void)lws_write(wsi, (unsigned char *)r->tx.data + LWS_PRE, r->tx.len - LWS_PRE,
                            LWS_WRITE_TEXT);
            buf_clear(&r->tx);
        }
        break;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        if (r->quick)
            set_option(wsi, TCP_QUICKACK);
        (void)buf_append(&r->rx, in, len);
        if (lws_is_final_fragment(wsi) && lws_remaining_packet_payload(wsi) == 0)
            take_message(r);
        break;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
    case LWS_CALLBACK_CLIENT_CLOSED:
        r->closed = true;
        r->wsi = NULL;
        break;
    default:
        break;
    }
    return 0;
}

static void
connect_channel(struct raw *r)
{
    char path[256], session[33], host[64];
    id_random_hex(session, 16);
    (void)snprintf(path, sizeof(path), "/api/kernels/%s/channels?session_id=%s", r->kernel,
                   session);
    (void)snprintf(host, sizeof(host), "127.0.0.1:%d", r->port);
    struct lws_client_connect_info ci = {.context = r->context,
                                         .address = "127.0.0.1",
                                         .port = r->port,
                                         .path = path,
                                         .host = host,
                                         .local_protocol_name = "raw"};
    r->up = r->closed = false;
    r->wsi = lws_client_connect_via_info(&ci);
    while (!r->up && !r->closed)
        (void)lws_service(r->context, 0);
    if (r->closed) {
        fprintf(stderr, "raw_channel: the gateway refused the channel\n");
        exit(1);
    }
}

static void
close_channel(struct raw *r)
{
    lws_set_timeout(r->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
    while (!r->closed)
        (void)lws_service(r->context, -1);
}

/* One execution on the open channel; its time in ms. */
static double
run_once(struct raw *r, const char *code)
{
    static const char pre[LWS_PRE];
    struct json_object *text = json_object_new_string(code);
    id_uuid4(r->msg_id);
    r->reply = r->idle = false;
    r->first_output = 0;
    (void)buf_append(&r->tx, pre, sizeof(pre));
    (void)buf_printf(&r->tx,
                     "{\"header\":{\"msg_id\":\"%s\",\"username\":\"bench\",\"session\":\"bench\","
                     "\"msg_type\":\"execute_request\",\"version\":\"5.3\"},\"parent_header\":{},"
                     "\"metadata\":{},\"content\":{\"code\":%s,\"silent\":false,"
                     "\"store_history\":true,\"user_expressions\":{},\"allow_stdin\":false,"
                     "\"stop_on_error\":true},\"channel\":\"shell\"}",
                     r->msg_id, json_object_to_json_string(text));
    json_object_put(text);
    double began = now_ms();
    lws_callback_on_writable(r->wsi);
    while (!(r->reply && r->idle) && !r->closed)
        (void)lws_service(r->context, 0);
    if (r->closed) {
        fprintf(stderr, "raw_channel: the channel closed in mid-run\n");
        exit(1);
    }
    if (r->first_output != 0)
        r->first_output -= began;
    return now_ms() - began;
}

static void
print_list(const char *name, const double *v, int n)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < n; i++)
        printf("%s%.3f", i ? ", " : "", v[i]);
    printf("]");
}

int
main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: raw_channel PORT TOKEN KERNEL kept|new COUNT CODE\n");
        return 2;
    }
    struct raw r = {.port = (int)strtol(argv[1], NULL, 10), .token = argv[2], .kernel = argv[3]};
    bool kept = strcmp(argv[4], "kept") == 0;
    int count = (int)strtol(argv[5], NULL, 10);
    double *times = xcalloc((size_t)count, sizeof(*times)),
           *firsts = xcalloc((size_t)count, sizeof(*firsts));
    r.quick = kept;
    buf_init(&r.tx, 1 << 20);
    buf_init(&r.rx, 256 << 20);

    struct lws_protocols protocols[] = {{"raw", on_event, 0, 65536, 0, NULL, 0},
                                        {NULL, NULL, 0, 0, 0, NULL, 0}};
    struct lws_context_creation_info info = {.port = CONTEXT_PORT_NO_LISTEN,
                                             .protocols = protocols,
                                             .user = &r,
                                             .fd_limit_per_thread = 8,
                                             .pt_serv_buf_size = 65536};
    lws_set_log_level(LLL_ERR, NULL);
    r.context = lws_create_context(&info);
    if (kept) {
        connect_channel(&r);
        (void)run_once(&r, "pass");
    }
    for (int i = 0; i < count; i++) {
        double began = now_ms();
        if (!kept)
            connect_channel(&r);
        times[i] = run_once(&r, argv[6]);
        firsts[i] = r.first_output;
        if (!kept) {
            times[i] = now_ms() - began;
            close_channel(&r);
        }
    }
    printf("{");
    print_list("ms", times, count);
    printf(", ");
    print_list("first_ms", firsts, count);
    printf("}\n");
    free(times);
    free(firsts);
    buf_done(&r.tx);
    buf_done(&r.rx);
    lws_context_destroy(r.context);
    return 0;
}
