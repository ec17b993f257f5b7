/* SPDX-License-Identifier: MIT */
#include "sandbox/output/failure.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "json/writer.h"

#define NO_NAME "Error"
#define NON_STRING_MAX (1 << 20) /* JSON text of a value that is no string */

/* A value as text of at most max bytes without NUL, heap. */
static char *
text_of(json_val v, size_t max, const char *otherwise, bool *cut)
{
    _cleanup_buf_ struct buf json = BUF_INIT(NON_STRING_MAX);
    size_t n = 0, k;
    const char *p = json_string(v, &n);
    char *s;

    if (!p && v && json_type(v) != JSON_NULL) {
        struct json_writer w;

        jw_init(&w, &json);
        jw_value(&w, NULL, v);
        p = json.failed ? NULL : buf_str(&json);
        n = json.failed ? 0 : json.len;
        *cut = *cut || json.failed;
    }
    if (!p || n == 0) {
        p = otherwise;
        n = strlen(otherwise);
    }
    k = n > max ? utf8_cut(p, max) : n;
    *cut = *cut || k < n;
    s = xcalloc(k + 1, 1);
    for (size_t i = 0; i < k; i++)
        s[i] = p[i] ? p[i] : ' '; /* these are C strings from here on */
    return s;
}

static void
read_traceback(struct failure *f, json_val v)
{
    bool array = json_type(v) == JSON_ARRAY;
    size_t n = array ? json_length(v) : json_type(v) == JSON_STRING;
    size_t keep = n > FAILURE_FRAMES_MAX ? FAILURE_FRAMES_MAX : n;

    if (keep == 0)
        return;
    f->traceback = xcalloc(keep, sizeof(*f->traceback));
    f->n_traceback = keep;
    f->cut = f->cut || keep < n;
    for (size_t i = 0; i < keep; i++) {
        size_t at = i < FAILURE_FRAMES_MAX / 2 ? i : n - (keep - i);

        f->traceback[i] = text_of(array ? json_item(v, at) : v, FAILURE_FRAME_MAX, "", &f->cut);
    }
}

void
failure_read(struct failure *ret, json_val content)
{
    struct failure f = {0};

    f.name = text_of(json_member(content, "ename"), FAILURE_NAME_MAX, NO_NAME, &f.cut);
    f.value = text_of(json_member(content, "evalue"), FAILURE_VALUE_MAX, "", &f.cut);
    read_traceback(&f, json_member(content, "traceback"));
    *ret = f;
}

void
failure_unreadable(struct failure *ret, const char *value)
{
    struct failure f = {.name = xstrdup(NO_NAME), .value = xstrdup(value), .cut = true};

    *ret = f;
}

void
failure_done(struct failure *f)
{
    free(f->name);
    free(f->value);
    for (size_t i = 0; i < f->n_traceback; i++)
        free(f->traceback[i]);
    free(f->traceback);
    memset(f, 0, sizeof(*f));
}

int
failure_event(struct buf *out, const struct failure *f)
{
    struct json_writer w;
    size_t n = strlen(f->name) + strlen(f->value);

    for (size_t i = 0; i < f->n_traceback; i++)
        n += strlen(f->traceback[i]) + 4;
    buf_init(out, 6 * n + 1024); /* a control character becomes six bytes */
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_string(&w, "error_name", f->name);
    jw_string(&w, "error_value", f->value);
    jw_array(&w, "traceback");
    for (size_t i = 0; i < f->n_traceback; i++)
        jw_string(&w, NULL, f->traceback[i]);
    jw_end_array(&w);
    jw_end_object(&w);
    return out->failed ? -1 : 0;
}
