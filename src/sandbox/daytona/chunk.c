/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/chunk.h"

#include <string.h>

#include "json/writer.h"

#define DEPTH_MAX 20

void
chunk_reader_init(struct chunk_reader *r, struct output *out, const char *nonce)
{
    r->out = out;
    buf_init(&r->message, CHUNK_MAX);
    r->over = 0;
    runner_reader_init(&r->runner, nonce);
}

void
chunk_reader_done(struct chunk_reader *r)
{
    buf_done(&r->message);
    runner_reader_done(&r->runner);
}

static enum chunk_type
take_text(struct chunk_reader *r, bool is_err, json_val text)
{
    size_t n = 0;
    const char *p = json_string(text, &n);

    if (p != NULL && is_err)
        output_text(r->out, true, p, n);
    else if (p != NULL)
        runner_text(&r->runner, r->out, p, n);
    return CHUNK_OUTPUT;
}

static enum chunk_type
take_error(struct chunk_reader *r, json_val m)
{
    struct failure f;

    if (r->runner.mark[0] != '\0' && runner_missing(m))
        return CHUNK_NO_RUNNER;
    failure_of(&f, json_member(m, "name"), json_member(m, "value"), json_member(m, "traceback"));
    output_error(r->out, &f);
    return CHUNK_ERROR;
}

static enum chunk_type
take(struct chunk_reader *r, json_val m)
{
    const char *type = json_cstring(json_member(m, "type"));
    json_val text = json_member(m, "text");
    const char *word = json_cstring(text);

    if (type == NULL)
        return CHUNK_OTHER;
    if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0)
        return take_text(r, type[3] == 'e', text);
    if (strcmp(type, "error") == 0)
        return take_error(r, m);
    if (strcmp(type, "control") != 0 || word == NULL)
        return CHUNK_OTHER;
    return strcmp(word, "completed") == 0     ? CHUNK_COMPLETED
           : strcmp(word, "interrupted") == 0 ? CHUNK_INTERRUPTED
                                              : CHUNK_OTHER;
}

static enum chunk_type
whole(struct chunk_reader *r)
{
    enum chunk_type type = CHUNK_OTHER;
    struct json_doc *doc = NULL;

    if (r->over > 0) {
        /* Only output is ever so long; on which of the two it came is not looked for. */
        output_lost_text(r->out, false, r->over + r->message.len);
        type = CHUNK_OUTPUT;
    } else if (json_parse(buf_str(&r->message), r->message.len, DEPTH_MAX, JSON_LAX, &doc, NULL) ==
               0) {
        type = take(r, json_root(doc));
        json_free(doc);
    }
    buf_clear(&r->message);
    r->over = 0;
    return type;
}

enum chunk_type
chunk_add(struct chunk_reader *r, const char *p, size_t n, bool final)
{
    if (r->over > 0 || buf_append(&r->message, p, n) < 0)
        r->over += n;
    return final ? whole(r) : CHUNK_OTHER;
}

void
chunk_request(struct buf *out, const char *code, size_t n, const char *context, int64_t timeout_s)
{
    struct json_writer w;

    jw_init(&w, out);
    jw_object(&w, NULL);
    /* Servers refuse none at all. */
    jw_string_n(&w, "code", n > 0 ? code : "pass", n > 0 ? n : strlen("pass"));
    if (context != NULL)
        jw_string(&w, "contextId", context);
    jw_i64(&w, "timeout", timeout_s);
    jw_end_object(&w);
}
