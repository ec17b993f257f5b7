/* SPDX-License-Identifier: MIT */
#include "sandbox/transport/ws.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <libwebsockets.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"

/*
 * The library is kept from waiting: lws_service() ignores its timeout, so all waiting is done by
 * poll(2) on the sockets here, and lws_service(ctx, -1) moves what is ready.  TCP_QUICKACK is set
 * again before each read: Tornado leaves Nagle's algorithm on, and its wait for our delayed ACK
 * costs 40 ms an answer.
 */

#define RX_BYTES (128u * 1024)
#define MAX_SOCKETS 40 /* of the library's table: connections, its event descriptor, spare */
#define URL_MAX 1024
#define CONNECT_TIMEOUT_S 10
#define TIMER_INTERVAL_MS 1000
#define CLOSE_ROUNDS 3
#define HTTP_SWITCHING 101

struct ws {
    struct ws_pool *pool;
    struct ws *next;
    struct lws *wsi; /* NULL once the library let go of it */
    enum ws_state state;
    ws_piece_cb piece;
    void *ctx;
    char *authorization;
    struct buf out; /* LWS_PRE bytes of room, then the message; only one at a time */
    size_t queued;  /* messages' bytes in out, LWS_PRE not counted */
    bool tls;
    bool asked;     /* the upgrade request went out */
    bool closing;   /* we want it closed */
    bool mid;       /* inside a message */
    bool dying;     /* reads are done, hand nothing on */
    int close_code; /* of the peer; 0 none */
    char reason[160];
};

struct ws_pool {
    struct lws_context *lws;
    struct ws *list;
    int64_t serviced_ms;
};

static void
emit_log(int level, const char *line)
{
    size_t n = strlen(line);

    while (n > 0 && line[n - 1] == '\n')
        n--;
    if (level == LLL_ERR)
        log_warning("libwebsockets: %.*s", (int)n, line);
    else
        log_debug("libwebsockets: %.*s", (int)n, line);
}

static void
quick_ack(int fd)
{
    int one = 1;

    /* Fails on sockets that are not TCP, where it is not needed. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
}

static void
closed(struct ws *w, const char *reason, size_t n)
{
    w->state = WS_CLOSED;
    w->wsi = NULL;
    if (w->reason[0] == '\0')
        (void)snprintf(w->reason, sizeof w->reason, "%.*s", (int)(n > 150 ? 150 : n), reason);
}

static int
add_authorization(struct ws *w, struct lws *wsi, unsigned char **p, size_t room)
{
    /* A second request on one connection would be a redirect's: the token stays here. */
    if (w->asked)
        return -1;
    w->asked = true;
    if (w->authorization == NULL)
        return 0;
    return lws_add_http_header_by_name(wsi, (const unsigned char *)"authorization:",
                                       (const unsigned char *)w->authorization,
                                       (int)strlen(w->authorization), p, *p + room)
               ? -1
               : 0;
}

static void
established(struct ws *w, struct lws *wsi)
{
    int fd = lws_get_socket_fd(wsi);
    int one = 1;

    w->state = WS_OPEN;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    quick_ack(fd);
}

/* One message goes out, whole: the library keeps what the socket does not take. */
static int
writeable(struct ws *w, struct lws *wsi)
{
    size_t n = w->queued;
    int rc;

    if (w->closing) {
        lws_close_reason(wsi, LWS_CLOSE_STATUS_GOINGAWAY, NULL, 0);
        return -1;
    }
    if (n == 0)
        return 0;
    rc = lws_write(wsi, (unsigned char *)w->out.data + LWS_PRE, n, LWS_WRITE_TEXT);
    w->queued = 0;
    buf_done(&w->out);
    return rc < (int)n ? -1 : 0;
}

static void
received(struct ws *w, struct lws *wsi, const char *p, size_t n)
{
    bool first = !w->mid;
    bool final = lws_is_final_fragment(wsi) && lws_remaining_packet_payload(wsi) == 0;

    quick_ack(lws_get_socket_fd(wsi));
    w->mid = !final;
    if (!w->dying)
        w->piece(w->ctx, p, n, first, final);
}

static int
on_event(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len)
{
    struct ws *w = user;
    const char *text = in != NULL ? in : "";

    switch (why) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        return add_authorization(w, wsi, in, len);
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        established(w, wsi);
        return 0;
    case LWS_CALLBACK_CLIENT_HTTP_REDIRECT:
        return 1;
    case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP:
        /* any other status is no upgrade */
        return lws_http_client_http_response(wsi) == HTTP_SWITCHING ? 0 : -1;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        received(w, wsi, text, len);
        return 0;
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return writeable(w, wsi);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        if (w != NULL && len >= 2)
            w->close_code = (unsigned char)text[0] << 8 | (unsigned char)text[1];
        return 0;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        if (w != NULL)
            closed(w, in != NULL ? text : "connection failed",
                   in != NULL ? len : strlen("connection failed"));
        return 0;
    case LWS_CALLBACK_CLIENT_CLOSED:
    case LWS_CALLBACK_CLOSED_CLIENT_HTTP:
        if (w != NULL)
            closed(w, "connection closed", strlen("connection closed"));
        return 0;
    default:
        return 0;
    }
}

static const struct lws_protocols PROTOCOLS[] = {{"husk", on_event, 0, RX_BYTES, 0, NULL, 0},
                                                 {NULL, NULL, 0, 0, 0, NULL, 0}};

/* Pings after half a minute of silence: a dead peer is noticed, a kept channel stays open. */
static const lws_retry_bo_t LIVELINESS = {.secs_since_valid_ping = 30,
                                          .secs_since_valid_hangup = 45};

int
ws_pool_new(const char *ca_file, struct ws_pool **ret, struct err *err)
{
    struct lws_context_creation_info info;
    struct ws_pool *p = xcalloc(1, sizeof *p);

    lws_set_log_level(LLL_ERR | LLL_WARN, emit_log);
    memset(&info, 0, sizeof info);
    info.port = CONTEXT_PORT_NO_LISTEN;
    info.protocols = PROTOCOLS;
    info.fd_limit_per_thread = MAX_SOCKETS;
    info.pt_serv_buf_size = RX_BYTES;
    info.connect_timeout_secs = CONNECT_TIMEOUT_S;
    info.retry_and_idle_policy = &LIVELINESS;
    info.options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    if (ca_file != NULL && ca_file[0] != '\0') {
        info.client_ssl_ca_filepath = ca_file;
        info.options |= LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS;
    }
    p->lws = lws_create_context(&info);
    if (p->lws == NULL) {
        free(p);
        return err_set(err, ERR_INTERNAL, "the WebSocket library did not start");
    }
    *ret = p;
    return 0;
}

void
ws_pool_free(struct ws_pool *p)
{
    if (p == NULL)
        return;
    while (p->list != NULL)
        ws_close(p->list);
    lws_context_destroy(p->lws);
    free(p);
}

struct address {
    char text[URL_MAX];
    char path[URL_MAX];
    char host[300]; /* for the Host header: with the port unless it is the scheme's */
    const char *name;
    int port;
    bool tls;
};

static int
parse_url(const char *url, struct address *a, struct err *err)
{
    const char *scheme;
    const char *path;
    bool v6;

    if (strlen(url) >= sizeof a->text)
        return err_set(err, ERR_INVALID, "a WebSocket URL is longer than %d bytes", URL_MAX - 1);
    (void)snprintf(a->text, sizeof a->text, "%s", url);
    if (lws_parse_uri(a->text, &scheme, &a->name, &a->port, &path) != 0)
        return err_set(err, ERR_INVALID, "not a WebSocket URL");
    a->tls = strcasecmp(scheme, "wss") == 0;
    if (!a->tls && strcasecmp(scheme, "ws") != 0)
        return err_set(err, ERR_INVALID, "a WebSocket URL must begin with ws:// or wss://");
    if (path[0] == '/')
        (void)snprintf(a->path, sizeof a->path, "%s", path);
    else
        (void)snprintf(a->path, sizeof a->path, "/%.*s", URL_MAX - 2, path);
    v6 = strchr(a->name, ':') != NULL;
    (void)snprintf(a->host, sizeof a->host, v6 ? "[%.255s]:%d" : "%.255s:%d", a->name, a->port);
    return 0;
}

int
ws_connect(struct ws_pool *p, const char *url, const char *authorization, ws_piece_cb piece,
           void *ctx, struct ws **ret, struct err *err)
{
    struct lws_client_connect_info ci;
    struct address a;
    struct ws *w;

    if (parse_url(url, &a, err) < 0)
        return -1;
    w = xcalloc(1, sizeof *w);
    w->pool = p;
    w->piece = piece;
    w->ctx = ctx;
    w->tls = a.tls;
    w->authorization = authorization != NULL ? xstrdup(authorization) : NULL;
    buf_init(&w->out, WS_SEND_MAX + LWS_PRE);
    w->next = p->list;
    p->list = w;
    memset(&ci, 0, sizeof ci);
    ci.context = p->lws;
    ci.address = a.name;
    ci.port = a.port;
    ci.path = a.path;
    ci.host = a.tls ? a.name : a.host; /* certificates are checked against it */
    ci.local_protocol_name = PROTOCOLS[0].name;
    ci.userdata = w;
    ci.pwsi = &w->wsi;
    ci.alpn = "http/1.1";
    ci.ssl_connection = (a.tls ? LCCSCF_USE_SSL : 0) | LCCSCF_HTTP_NO_FOLLOW_REDIRECT;
    if (lws_client_connect_via_info(&ci) == NULL) {
        (void)err_set(err, ERR_UNAVAILABLE, "%s",
                      w->reason[0] != '\0' ? w->reason : "connection failed");
        w->wsi = NULL;
        ws_close(w);
        return -1;
    }
    *ret = w;
    return 0;
}

enum ws_state
ws_state(const struct ws *w)
{
    return w->state;
}

int
ws_close_code(const struct ws *w)
{
    return w->close_code;
}

const char *
ws_reason(const struct ws *w)
{
    return w->reason;
}

int
ws_send(struct ws *w, const char *p, size_t n, struct err *err)
{
    if (w->state != WS_OPEN)
        return err_set(err, ERR_UNAVAILABLE, "the connection is closed");
    if (w->queued > 0)
        return err_set(err, ERR_INTERNAL, "a message is still waiting to be sent");
    /* The copy is needed: the library masks the payload where it lies. */
    if (buf_reserve(&w->out, LWS_PRE + n) == NULL)
        return err_set(err, ERR_LIMIT, "a message of %zu bytes exceeds the maximum of %u", n,
                       WS_SEND_MAX);
    memcpy(w->out.data + LWS_PRE, p, n);
    buf_added(&w->out, LWS_PRE + n);
    w->queued = n;
    (void)lws_callback_on_writable(w->wsi);
    return 0;
}

bool
ws_sending(const struct ws *w)
{
    return w->wsi != NULL && (w->queued > 0 || lws_partial_buffered(w->wsi) != 0);
}

/* Its socket, -1 if there is none. */
static int
ws_fd(const struct ws *w)
{
    return w->wsi != NULL ? (int)lws_get_socket_fd(w->wsi) : -1;
}

static bool
tcp_connecting(int fd)
{
    struct sockaddr_storage peer;
    socklen_t n = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &n) != 0;
}

int
ws_pollfd(const struct ws *w, struct pollfd *ret)
{
    int fd = ws_fd(w);

    if (fd < 0)
        return 0;
    ret->fd = fd;
    ret->revents = 0;
    ret->events = POLLIN;
    /* While TCP connects the socket becomes writable, and then the upgrade request goes out; after
     * that, and while TLS shakes hands, only answers are to be waited for. */
    if (w->state == WS_CONNECTING ? tcp_connecting(fd) || (!w->asked && !w->tls)
                                  : ws_sending(w) || w->closing)
        ret->events = POLLIN | POLLOUT;
    return 1;
}

void
ws_service(struct ws_pool *p)
{
    for (struct ws *w = p->list; w != NULL; w = w->next)
        if (ws_fd(w) >= 0)
            quick_ack(ws_fd(w));
    /* Once more while the library holds bytes that it has read but not handled (TLS, flow). */
    for (int round = 0; round < 64; round++) {
        if (lws_service(p->lws, -1) < 0 || lws_service_adjust_timeout(p->lws, 1, 0) != 0)
            break;
    }
    p->serviced_ms = clock_mono_ms();
}

/* A connection that is being made moves inside the library (TLS, the upgrade request) at moments
 * its descriptor does not show: look again soon. */
static int
bounded_wait(const struct ws_pool *p, int max_ms)
{
    int64_t due = p->serviced_ms + TIMER_INTERVAL_MS - clock_mono_ms();

    for (const struct ws *w = p->list; w != NULL; w = w->next)
        if (w->state == WS_CONNECTING && !w->asked && max_ms > 2)
            max_ms = 2;
    if (due < max_ms)
        max_ms = due > 0 ? (int)due : 0;
    return max_ms;
}

void
ws_wait(struct ws_pool *p, struct pollfd *extra, int n_extra, int max_ms)
{
    struct pollfd fds[MAX_SOCKETS + 8];
    int n = 0;
    int rc;
    bool ours = false;

    for (int i = 0; i < n_extra && i < 8; i++)
        fds[n++] = extra[i];
    for (struct ws *w = p->list; w != NULL && n < MAX_SOCKETS; w = w->next)
        n += ws_pollfd(w, &fds[n]);
    rc = poll(fds, (nfds_t)n, bounded_wait(p, max_ms));
    for (int i = 0; i < n_extra && i < 8; i++)
        extra[i].revents = rc > 0 ? fds[i].revents : 0;
    for (int i = n_extra; i < n && rc > 0; i++)
        ours = ours || fds[i].revents != 0;
    if (ours || rc == 0)
        ws_service(p);
}

static void
unlink_from_pool(struct ws *w)
{
    struct ws **at = &w->pool->list;

    while (*at != NULL && *at != w)
        at = &(*at)->next;
    if (*at == w)
        *at = w->next;
}

void
ws_close(struct ws *w)
{
    if (w == NULL)
        return;
    w->dying = true;
    if (w->wsi != NULL && w->state == WS_OPEN) {
        w->closing = true;
        (void)lws_callback_on_writable(w->wsi);
        for (int i = 0; i < CLOSE_ROUNDS && w->wsi != NULL; i++)
            ws_service(w->pool);
    }
    /* Whatever is left of it must not call back any more. */
    if (w->wsi != NULL)
        lws_set_timeout(w->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
    unlink_from_pool(w);
    buf_done(&w->out);
    free(w->authorization);
    free(w);
}
