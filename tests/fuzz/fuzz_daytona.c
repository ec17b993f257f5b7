/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"
#include "fuzz/result.h"

#include <string.h>

#include "base/utf8.h"
#include "json/json.h"
#include "sandbox/daytona/box.h"
#include "sandbox/daytona/chunk.h"
#include "sandbox/daytona/coderun.h"

/*
 * What Daytona says: bytes 0 and 1 set the output's maximum, then messages, each ended by 0x1e.
 * Each is read as one of the interpreter's, in two pieces, and if it is JSON as a sandbox and as
 * the answer of a run without an interpreter.
 */
#define NONCE "00000000000000000000000000000000"
#define DEPTH_MAX 40

static void
on_event(void *ctx, const struct exec_event *ev)
{
    int64_t *text_bytes = ctx;

    must(ev->n > 0);
    if (ev->type != EVENT_STDOUT && ev->type != EVENT_STDERR) {
        must_be_json(ev->p, ev->n);
        return;
    }
    must(utf8_valid(ev->p, ev->n));
    *text_bytes += (int64_t)ev->n;
}

static void
try_others(struct output *out, const char *p, size_t n)
{
    struct json_doc *doc = NULL;
    struct box b;
    int64_t status = 0;

    if (json_parse(p, n, DEPTH_MAX, JSON_LAX, &doc, NULL) < 0)
        return;
    if (box_read(&b, json_root(doc))) {
        must(b.id[0] != '\0' && strchr(b.id, '/') == NULL);
        must(b.state <= BOX_ENDED);
    }
    (void)coderun_take(out, json_root(doc), &status);
    json_free(doc);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t text_bytes = 0;
    struct output_options o = {.ctx = &text_bytes, .event = on_event};
    struct execution_result result;
    struct chunk_reader reader;
    struct output *out;

    if (size < 2)
        return 0;
    o.max_output_bytes = data[0] << 4 | data[1] >> 4;
    out = output_new(&o);
    chunk_reader_init(&reader, out, NONCE);
    data += 2;
    size -= 2;
    while (size > 0) {
        const uint8_t *end = memchr(data, 0x1e, size);
        size_t n = end ? (size_t)(end - data) : size;

        must(chunk_add(&reader, (const char *)data, n / 2, false) == CHUNK_OTHER);
        (void)chunk_add(&reader, (const char *)data + n / 2, n - n / 2, true);
        try_others(out, (const char *)data, n);
        data += end ? n + 1 : n;
        size -= end ? n + 1 : n;
    }
    output_take(out, NULL, &result);
    result_check(&result, (size_t)o.max_output_bytes);
    must(result.bytes_stdout + result.bytes_stderr == text_bytes);
    execution_result_done(&result);
    chunk_reader_done(&reader);
    output_free(out);
    return 0;
}
