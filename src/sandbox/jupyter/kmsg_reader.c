/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/kmsg.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "sandbox/jupyter/kmsg_private.h"
#include "sandbox/jupyter/kmsg_scan.h"

struct kmsg_reader {
    struct kmsg_handler handler;
    struct buf whole; /* what is kept of the message */
    uint64_t size;    /* of the message so far */
    struct kmsg_scan scan;
};

struct kmsg_reader *
kmsg_reader_new(size_t max_bytes, const struct kmsg_handler *h)
{
    struct kmsg_reader *r = xcalloc(1, sizeof(*r));

    r->handler = *h;
    buf_init(&r->whole, max_bytes);
    r->scan.handler = &r->handler;
    r->scan.keep = &r->whole;
    kmsg_scan_begin(&r->scan);
    return r;
}

void
kmsg_reader_free(struct kmsg_reader *r)
{
    if (!r)
        return;
    buf_done(&r->whole);
    free(r);
}

/* Memory of a large message is not held on to until the next one. */
#define KEEP_MEMORY (1 << 20)

void
kmsg_reader_reset(struct kmsg_reader *r)
{
    if (r->whole.cap > KEEP_MEMORY)
        buf_done(&r->whole);
    buf_clear(&r->whole);
    r->size = 0;
    kmsg_scan_begin(&r->scan);
}

static void
oversize(struct kmsg_reader *r)
{
    r->handler.oversize(r->handler.ctx, &r->scan.head, r->scan.stream, r->size);
}

/* A stream whose members came in another order than usual. */
static void
whole_stream(struct kmsg_reader *r, const struct kmsg *m)
{
    size_t n = 0;
    const char *p = json_string(json_member(m->content, "text"), &n);

    r->scan.head = m->head;
    r->scan.stream = kmsg_stream_find(json_cstring(json_member(m->content, "name")));
    if (p)
        kmsg_scan_emit(&r->scan, p, n);
}

/* Parses; bytes that are not UTF-8 are tried once more, scrubbed. */
static int
parse(const struct buf *b, struct json_doc **ret, struct err *err)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(3 * b->max);

    if (utf8_valid(buf_str(b), b->len))
        return json_parse(buf_str(b), b->len, KMSG_DEPTH_MAX, JSON_LAX, ret, err);
    if (utf8_scrub(&clean, b->data, b->len) < 0)
        return err_set(err, ERR_NOMEM, "no memory for a message of the kernel");
    return json_parse(clean.data, clean.len, KMSG_DEPTH_MAX, JSON_LAX, ret, err);
}

static int
whole_message(struct kmsg_reader *r, struct err *err)
{
    struct json_doc *doc = NULL;
    struct err why = ERR_INIT;
    struct kmsg m;

    if (parse(&r->whole, &doc, &why) < 0) {
        if (why.code != ERR_LIMIT && why.code != ERR_NOMEM)
            return err_set(err, ERR_INVALID, "a message of the kernel is no JSON: %s", why.msg);
        oversize(r);
        return 0;
    }
    if (!kmsg_from_json(json_root(doc), &m)) {
        json_free(doc);
        return err_set(err, ERR_INVALID, "a message of the kernel has no type");
    }
    m.size = (size_t)r->size;
    m.trimmed = r->scan.trimmed;
    if (m.head.type == KMSG_STREAM)
        whole_stream(r, &m);
    else
        r->handler.message(r->handler.ctx, &m);
    json_free(doc);
    return 0;
}

static int
end_message(struct kmsg_reader *r, struct err *err)
{
    if (r->scan.streaming) {
        if (!kmsg_scan_whole(&r->scan))
            return err_set(err, ERR_INVALID, "a stream message of the kernel is no JSON");
        return 0;
    }
    if (r->whole.failed || r->scan.too_deep) {
        oversize(r);
        return 0;
    }
    return whole_message(r, err);
}

int
kmsg_reader_add(struct kmsg_reader *r, const char *p, size_t n, bool final, struct err *err)
{
    size_t k = kmsg_scan_add(&r->scan, p, n);
    int rc = 0;

    r->size += n;
    if (k < n && !r->scan.too_deep && !r->whole.failed)
        (void)buf_append(&r->whole, p + k, n - k);
    if (final) {
        rc = end_message(r, err);
        kmsg_reader_reset(r);
    }
    return rc;
}
