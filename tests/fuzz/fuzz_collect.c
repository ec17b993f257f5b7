/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/utf8.h"
#include "json/json.h"
#include "sandbox/jupyter/collect.h"
#include "sandbox/output/failure.h"
#include "sandbox/output/text.h"

/* Bytes 0 and 1 set the output's maximum; then messages, each ended by 0x1e. */

#define READER_MAX 65536

struct run {
    struct collect *c;
    int64_t text_bytes; /* of the events */
    bool lost;          /* a message was dropped: sizes are those of the message */
};

static void
must(bool ok)
{
    if (!ok)
        abort();
}

static void
must_be_json(const char *p, size_t n)
{
    struct json_doc *doc = NULL;
    struct err err = ERR_INIT;

    must(json_parse(p, n, KMSG_DEPTH_MAX + 2, 0, &doc, &err) == 0);
    must(json_type(json_root(doc)) == JSON_OBJECT);
    json_free(doc);
}

static void
on_event(void *ctx, const struct exec_event *ev)
{
    struct run *run = ctx;

    must(ev->n > 0);
    if (ev->type == EVENT_STDOUT || ev->type == EVENT_STDERR) {
        must(utf8_valid(ev->p, ev->n));
        run->text_bytes += (int64_t)ev->n;
        return;
    }
    must_be_json(ev->p, ev->n);
}

static void
on_text(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n)
{
    struct run *run = ctx;

    must(h->type == KMSG_STREAM);
    collect_text(run->c, s, p, n);
}

static void
on_message(void *ctx, const struct kmsg *m)
{
    struct run *run = ctx;

    collect_message(run->c, m);
}

static void
on_oversize(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    struct run *run = ctx;

    run->lost = true;
    collect_oversize(run->c, h, s, n);
}

static size_t
check_bundles(const struct bundle *b, size_t n)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++) {
        must_be_json(b[i].data, b[i].data_len);
        must_be_json(b[i].metadata, b[i].metadata_len);
        size += b[i].data_len + b[i].metadata_len;
    }
    return size;
}

static size_t
check_plots(const struct execution_result *r)
{
    size_t size = 0;

    for (size_t i = 0; i < r->n_plots; i++) {
        const struct plot *p = &r->plots[i];
        struct buf raw = BUF_INIT(p->content_len);

        must(p->index < (p->of_display ? r->n_displays : r->n_results));
        must(base64_decode(&raw, p->content_base64, p->content_len, false) == 1);
        buf_done(&raw);
        size += p->content_len;
    }
    return size;
}

static void
check_error(const struct execution_result *r)
{
    must(!r->error_name == !r->error_value);
    if (!r->error_name)
        return;
    must(strlen(r->error_name) <= FAILURE_NAME_MAX && strlen(r->error_value) <= FAILURE_VALUE_MAX);
    must(utf8_valid(r->error_name, strlen(r->error_name)));
    must(utf8_valid(r->error_value, strlen(r->error_value)));
    must(r->n_traceback <= FAILURE_FRAMES_MAX);
    for (size_t i = 0; i < r->n_traceback; i++) {
        size_t n = strlen(r->traceback[i]);

        must(n <= FAILURE_FRAME_MAX && utf8_valid(r->traceback[i], n));
    }
}

static void
check(const struct execution_result *r, size_t max, const struct run *run)
{
    must(r->out && r->err);
    must(r->out_len <= max + TEXT_MARKER_MAX && utf8_valid(r->out, r->out_len));
    must(r->err_len <= max + TEXT_MARKER_MAX && utf8_valid(r->err, r->err_len));
    must(check_bundles(r->results, r->n_results) + check_bundles(r->displays, r->n_displays) +
             check_plots(r) <=
         max);
    must(r->bytes_rich >= 0 && r->execution_count >= -1);
    must(run->lost || r->bytes_stdout + r->bytes_stderr == run->text_bytes);
    must(r->ok == (r->reason == REASON_COMPLETED));
    check_error(r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run run = {0};
    struct output_options o = {0, &run, on_event};
    struct execution_result result;
    struct kmsg_reader *r;

    if (size < 2)
        return 0;
    o.max_output_bytes = data[0] << 4 | data[1] >> 4;
    run.c = collect_new(&o);
    r = kmsg_reader_new(READER_MAX, &(struct kmsg_handler){&run, on_text, on_message, on_oversize});
    data += 2;
    size -= 2;
    while (size > 0) {
        const uint8_t *end = memchr(data, 0x1e, size);
        size_t n = end ? (size_t)(end - data) : size;

        (void)kmsg_reader_add(r, (const char *)data, n, true, NULL);
        data += end ? n + 1 : n;
        size -= end ? n + 1 : n;
    }
    collect_take(run.c, &result);
    check(&result, (size_t)o.max_output_bytes, &run);
    execution_result_done(&result);
    collect_free(run.c);
    kmsg_reader_free(r);
    return 0;
}
