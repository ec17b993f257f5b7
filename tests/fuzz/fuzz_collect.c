/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"
#include "fuzz/result.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"
#include "sandbox/jupyter/collect.h"

/* Bytes 0 and 1 set the output's maximum; then messages, each ended by 0x1e. */

#define READER_MAX 65536

struct run {
    struct collect *c;
    int64_t text_bytes; /* of the events */
    bool lost;          /* a message was dropped: sizes are those of the message */
};

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

static void
check(const struct execution_result *r, size_t max, const struct run *run)
{
    result_check(r, max);
    must(run->lost || r->bytes_stdout + r->bytes_stderr == run->text_bytes);
    must(r->ok == (r->reason == REASON_COMPLETED));
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
