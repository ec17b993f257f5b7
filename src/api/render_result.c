/* SPDX-License-Identifier: MIT */
#include "api/render.h"

#include <string.h>

#include "base/utf8.h"

/* Room for everything that is bounded by itself: traceback, error, session, numbers, the names of
 * inputs and artifacts. */
#define RESULT_SLACK (4 * 1024 * 1024)
/* A byte of text can take so many in JSON. */
#define ESCAPE_MAX 6

size_t
render_result_max(const struct api_options *o)
{
    return 3 * (size_t)o->max_output_bytes + RESULT_SLACK;
}

/* What of the result goes out. */
struct shape {
    bool text, rich, traceback;
    size_t max_text; /* of stdout and stderr each */
};

static void
put_text(struct json_writer *w, const char *name, const char *p, size_t n, size_t max)
{
    if (n > max)
        n = utf8_cut(p, max);
    jw_string_n(w, name, p != NULL ? p : "", n);
}

static void
put_bundles(struct json_writer *w, const char *name, const struct bundle *b, size_t n)
{
    jw_array(w, name);
    for (size_t i = 0; i < n; i++) {
        jw_object(w, NULL);
        jw_raw(w, "data", b[i].data, b[i].data_len);
        jw_raw(w, "metadata", b[i].metadata, b[i].metadata_len);
        jw_end_object(w);
    }
    jw_end_array(w);
}

static void
put_plots(struct json_writer *w, const struct plot *p, size_t n)
{
    jw_array(w, "plots");
    for (size_t i = 0; i < n; i++) {
        jw_object(w, NULL);
        jw_string(w, "format", p[i].format);
        jw_string_n(w, "content_base64", p[i].content_base64, p[i].content_len);
        jw_string(w, "of", p[i].of_display ? "display_data" : "results");
        jw_i64(w, "index", (int64_t)p[i].index);
        jw_end_object(w);
    }
    jw_end_array(w);
}

static void
put_error(struct json_writer *w, const struct execution_result *r, bool traceback)
{
    jw_string(w, "error_name", r->error_name);
    jw_string(w, "error_value", r->error_value);
    jw_array(w, "traceback");
    for (size_t i = 0; traceback && i < r->n_traceback; i++)
        jw_string(w, NULL, r->traceback[i]);
    jw_end_array(w);
}

static void
put_session(const struct api_options *o, struct json_writer *w, const struct execution *row,
            const struct session *s)
{
    if (s != NULL) {
        render_session(o, w, "session", s);
        return;
    }
    jw_object(w, "session");
    jw_string(w, "session_id", row->session_name);
    jw_string(w, "owner", row->owner);
    jw_end_object(w);
}

static int
put_result(const struct api_options *o, const struct execution *row,
           const struct execution_result *r, const struct session *s, const struct shape *shape,
           struct buf *out)
{
    struct json_writer w;
    bool cut = r->truncated || !shape->rich || r->out_len > shape->max_text ||
               r->err_len > shape->max_text || !shape->traceback;

    buf_clear(out);
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_string(&w, "execution_id", row->eid);
    jw_string(&w, "status", r->ok ? "ok" : "error");
    jw_string(&w, "reason", exec_reason_name(r->reason));
    jw_i64(&w, "exit_code", r->exit_code);
    if (r->execution_count >= 0)
        jw_i64(&w, "execution_count", r->execution_count);
    else
        jw_null(&w, "execution_count");
    if (shape->text) {
        put_text(&w, "stdout", r->out, r->out_len, shape->max_text);
        put_text(&w, "stderr", r->err, r->err_len, shape->max_text);
    }
    put_error(&w, r, shape->traceback);
    put_bundles(&w, "results", r->results, shape->rich ? r->n_results : 0);
    put_bundles(&w, "display_data", r->displays, shape->rich ? r->n_displays : 0);
    put_plots(&w, r->plots, shape->rich ? r->n_plots : 0);
    jw_bool(&w, "truncated", cut);
    jw_bool(&w, "runtime_invalidated", r->runtime_invalidated);
    if (r->incomplete)
        jw_bool(&w, "incomplete", true);
    jw_i64(&w, "duration_ms", row->duration_ms);
    jw_object(&w, "bytes");
    jw_i64(&w, "stdout", r->bytes_stdout);
    jw_i64(&w, "stderr", r->bytes_stderr);
    jw_i64(&w, "rich", r->bytes_rich);
    jw_end_object(&w);
    put_session(o, &w, row, s);
    render_kept(&w, r);
    jw_end_object(&w);
    return out->failed ? -1 : 0;
}

int
render_result(const struct api_options *o, const struct execution *row,
              const struct execution_result *r, const struct session *s, bool full, struct buf *out)
{
    /* Text that is all control characters takes six times its size: then less of it is given, as
     * much as always fits. Without rich output and traceback what is left is small. */
    const struct shape shapes[] = {
        {full, true, true, SIZE_MAX},
        {full, true, true, (size_t)o->max_output_bytes / ESCAPE_MAX},
        {full, false, true, (size_t)o->max_output_bytes / ESCAPE_MAX},
        {full, false, false, 4096},
    };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (put_result(o, row, r, s, &shapes[i], out) == 0)
            return 0;
    return -1;
}

void
result_of_row(const struct execution *row, struct execution_result *ret)
{
    execution_result_init(ret);
    ret->reason = row->reason;
    ret->ok = row->ok;
    ret->exit_code = row->ok ? 0 : row->reason == REASON_EXCEPTION ? 1 : -1;
    ret->execution_count = -1;
    ret->bytes_stdout = row->bytes_stdout;
    ret->bytes_stderr = row->bytes_stderr;
    ret->bytes_rich = row->bytes_rich;
    if (row->error_name[0] != '\0')
        ret->error_name = xstrdup(row->error_name);
    /* Output there was, and none of it is kept. */
    ret->truncated = row->truncated || row->bytes_stdout + row->bytes_stderr + row->bytes_rich > 0;
    ret->runtime_invalidated = row->runtime_invalidated;
}
