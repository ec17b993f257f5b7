/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "sandbox/jupyter/kmsg.h"

/*
 * Byte 0 sets the maximum of a message, byte 1 the seed of the chunks' sizes; then messages, each
 * ended by 0x1e.  However they are cut into chunks, the same calls must come out.
 */

#define CALLS_MAX 1000000

struct seen {
    struct buf log;  /* every call but text, as a line */
    struct buf text; /* all text */
    size_t max;
};

static void
must(bool ok)
{
    if (!ok)
        abort();
}

static void
on_text(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n)
{
    struct seen *seen = ctx;

    must(n > 0 && utf8_valid(p, n));
    must(h->type == KMSG_STREAM && s <= KMSG_STDERR);
    (void)buf_append(&seen->text, p, n);
}

static void
on_message(void *ctx, const struct kmsg *m)
{
    struct seen *seen = ctx;

    must(m->head.type != KMSG_STREAM);
    must(utf8_valid(m->head.session, strlen(m->head.session)));
    must(utf8_valid(m->head.parent_id, strlen(m->head.parent_id)));
    must(m->trimmed || m->size <= seen->max || m->head.type != KMSG_OTHER);
    (void)kmsg_execution_state(m);
    (void)buf_printf(&seen->log, "%s %s %s %zu %d\n", m->head.type_name, m->head.session,
                     m->head.parent_id, m->size, m->trimmed);
}

static void
on_oversize(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    struct seen *seen = ctx;

    (void)buf_printf(&seen->log, "over %s %s %s %d %llu\n", h->type_name, h->session, h->parent_id,
                     (int)s, (unsigned long long)n);
}

/* seed 0: a message is one chunk. */
static void
run(struct seen *seen, const char *p, size_t n, unsigned seed)
{
    struct kmsg_handler h = {seen, on_text, on_message, on_oversize};
    struct kmsg_reader *r = kmsg_reader_new(seen->max, &h);
    struct err err = ERR_INIT;
    unsigned x = seed;

    while (n > 0) {
        const char *end = memchr(p, 0x1e, n);
        size_t len = end ? (size_t)(end - p) : n;
        size_t at = 0, k;
        bool final;

        do {
            x = x * 1103515245u + 12345u;
            k = seed ? (x >> 16) % (2 + seed % 30) : len;
            k = k < len - at ? k : len - at;
            final = at + k == len;
            if (kmsg_reader_add(r, p + at, k, final, &err) < 0) {
                must(final && err.code == ERR_INVALID);
                (void)buf_puts(&seen->log, "invalid\n");
            }
            at += k;
        } while (!final);
        n -= end ? len + 1 : len;
        p += end ? len + 1 : len;
    }
    kmsg_reader_free(r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {BUF_INIT(CALLS_MAX), BUF_INIT(CALLS_MAX), 0};
    struct seen parts = {BUF_INIT(CALLS_MAX), BUF_INIT(CALLS_MAX), 0};

    if (size < 2)
        return 0;
    whole.max = parts.max = 16 * (size_t)data[0];
    run(&whole, (const char *)data + 2, size - 2, 0);
    run(&parts, (const char *)data + 2, size - 2, 1 + data[1]);
    must(whole.log.len == parts.log.len && whole.text.len == parts.text.len);
    must(memcmp(buf_str(&whole.log), buf_str(&parts.log), whole.log.len) == 0);
    must(memcmp(buf_str(&whole.text), buf_str(&parts.text), whole.text.len) == 0);
    buf_done(&whole.log);
    buf_done(&whole.text);
    buf_done(&parts.log);
    buf_done(&parts.text);
    return 0;
}
