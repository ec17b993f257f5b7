/* SPDX-License-Identifier: MIT */
#include "api/sse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/render.h"
#include "base/utf8.h"
#include "json/writer.h"

#define PIECE 8192             /* bytes of a payload framed at a time */
#define OUT_ENOUGH 16384       /* framed bytes before they are offered to the peer */
#define OUT_MAX (64 * 1024)    /* one piece, all escapes (48 KiB), over OUT_ENOUGH fits */
#define PUMP_MAX (1024 * 1024) /* bytes in one turn: the run goes on beside it */
#define KEEPALIVE_MS 5000

int
sse_begin(struct sse *s, struct api_call *c)
{
    memset(s, 0, sizeof(*s));
    s->call = c;
    buf_init(&s->out, OUT_MAX + 1024);
    s->moved_ms = clock_mono_ms();
    api_renew(c);
    api_head(c, "no-store");
    http_add_header(c->x, "X-Accel-Buffering", "no");
    return http_begin(c->x, 200, "text/event-stream", -1);
}

void
sse_done(struct sse *s)
{
    spool_reader_free(s->reader);
    s->reader = NULL;
    buf_done(&s->out);
}

int
sse_attach(struct sse *s, const char *eid, int64_t after_seq, struct err *err)
{
    s->last_seq = after_seq;
    return spool_open(s->call->api->o.spool_dir, eid, after_seq, &s->reader, err);
}

static bool
is_text(enum exec_event_type t)
{
    return t == EVENT_STDOUT || t == EVENT_STDERR;
}

static void
frame_start(struct sse *s, const struct exec_event *ev, int64_t seq)
{
    s->ev = *ev;
    s->off = 0;
    s->in_event = true;
    s->last_seq = seq;
    s->n_events++;
    (void)buf_printf(&s->out, "id: %" PRId64 "\nevent: %s\ndata: %s", seq,
                     exec_event_name(ev->type), is_text(ev->type) ? "{\"text\":\"" : "");
}

/* Escapes a piece of text: what the writer puts between the quotes. */
static void
frame_text(struct sse *s, const char *p, size_t n)
{
    size_t from = s->out.len;
    struct json_writer w;

    jw_init(&w, &s->out);
    jw_string_n(&w, NULL, p, n);
    if (s->out.failed)
        return;
    memmove(s->out.data + from, s->out.data + from + 1, s->out.len - from - 2);
    s->out.len -= 2;
    s->out.data[s->out.len] = '\0';
}

/* JSON on one line: a bare line break can only be white space between its tokens. */
static void
frame_json(struct sse *s, const char *p, size_t n)
{
    char *to = buf_reserve(&s->out, n);

    if (to == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        to[i] = p[i] == '\n' || p[i] == '\r' ? ' ' : p[i];
    buf_added(&s->out, n);
}

/* Frames the next piece of the event at hand. */
static void
frame_piece(struct sse *s)
{
    const char *p = s->ev.p + s->off;
    size_t n = s->ev.n - s->off;

    if (n > PIECE) {
        size_t cut = utf8_cut(p, PIECE);
        n = cut > 0 ? cut : PIECE;
    }
    if (n > 0 && is_text(s->ev.type))
        frame_text(s, p, n);
    else if (n > 0)
        frame_json(s, p, n);
    s->off += n;
    if (s->off < s->ev.n)
        return;
    (void)buf_puts(&s->out, is_text(s->ev.type) ? "\"}\n\n" : "\n\n");
    s->in_event = false;
    s->gap_seen = s->gap_seen || s->ev.type == EVENT_GAP;
    s->result_seen = s->ev.type == EVENT_RESULT;
}

/* Fills the buffer from the spool; false when there is nothing more to frame just now. */
static bool
fill(struct sse *s)
{
    while (s->out.len < OUT_ENOUGH) {
        struct err err = ERR_INIT;
        struct exec_event ev;
        int64_t seq;
        int rc;

        if (s->in_event) {
            frame_piece(s);
            continue;
        }
        if (s->reader == NULL || s->ended || s->result_seen)
            break;
        rc = spool_next(s->reader, &ev, &seq, &err);
        if (rc == 0)
            break;
        if (rc !=
            1) { /* the end, or damaged: what is missing then is the result, sent by sse_end */
            s->ended = true;
            break;
        }
        frame_start(s, &ev, seq);
    }
    return s->out.len > 0;
}

static void
keep_alive(struct sse *s)
{
    int64_t ms = s->call->api->o.keepalive_ms;

    if (!s->in_event && clock_mono_ms() - s->moved_ms >= (ms > 0 ? ms : KEEPALIVE_MS))
        (void)buf_puts(&s->out, ": keep-alive\n\n");
}

enum sse_state
sse_pump(struct sse *s)
{
    struct http_exchange *x = s->call->x;
    size_t moved = 0;

    if (x->broken)
        return SSE_GONE;
    if (!fill(s) && !s->ended)
        keep_alive(s);
    while (s->out.len > 0 && moved < PUMP_MAX) {
        int64_t n = x->carrier->write_some(x->carrier_ctx, s->out.data, s->out.len);

        if (n < 0) {
            x->broken = true;
            return SSE_GONE;
        }
        if (n == 0)
            return SSE_PENDING;
        x->sent += n;
        moved += (size_t)n;
        s->moved_ms = clock_mono_ms();
        buf_consume(&s->out, (size_t)n);
        (void)fill(s);
    }
    if (s->out.len > 0)
        return SSE_PENDING;
    return s->ended || s->result_seen ? SSE_ENDED : SSE_IDLE;
}

/* Sends what is framed, blocking within the stall bound. */
static int
send_out(struct sse *s)
{
    api_renew(s->call);
    if (http_write(s->call->x, s->out.data, s->out.len) < 0)
        return -1;
    s->moved_ms = clock_mono_ms();
    buf_clear(&s->out);
    return 0;
}

int
sse_flush(struct sse *s)
{
    while (fill(s))
        if (send_out(s) < 0)
            return -1;
    return s->call->x->broken ? -1 : 0;
}

/* Sends one event that is not in the spool, blocking, numbered behind the last. */
static int
sse_send(struct sse *s, enum exec_event_type type, const char *p, size_t n)
{
    const struct exec_event ev = {.type = type, .p = p, .n = n};

    frame_start(s, &ev, s->last_seq + 1);
    while (s->in_event) {
        frame_piece(s);
        if (s->out.len >= OUT_ENOUGH && send_out(s) < 0)
            return -1;
    }
    return s->out.len > 0 ? send_out(s) : 0;
}

static int
send_gap(struct sse *s)
{
    char json[64];
    int n = snprintf(json, sizeof json, "{\"dropped_bytes\":%" PRId64 "}", s->untold_bytes);

    return sse_send(s, EVENT_GAP, json, (size_t)n);
}

void
sse_end(struct sse *s, const struct execution *row, const struct execution_result *r,
        const struct session *session, int64_t after_seq)
{
    _cleanup_buf_ struct buf json = BUF_INIT(render_result_max(&s->call->api->o));

    if (sse_flush(s) < 0 || s->result_seen)
        return;
    /* Taken up again behind the last event: the reader has had its result before. */
    if (after_seq > 0 && s->ended && s->n_events == 0)
        return;
    if (s->untold_bytes > 0 && !s->gap_seen && send_gap(s) < 0)
        return;
    if (render_result(&s->call->api->o, row, r, session, s->reader == NULL, &json) == 0)
        (void)sse_send(s, EVENT_RESULT, json.data, json.len);
}
