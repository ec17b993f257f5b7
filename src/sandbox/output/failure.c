/* SPDX-License-Identifier: MIT */
#include "sandbox/output/failure.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "json/writer.h"

#define NO_NAME "Error"
#define NON_STRING_MAX (1 << 20) /* JSON text of a value that is no string */

/* At most max bytes of a text, heap. */
static char *
copy_text(const char *p, size_t n, size_t max, bool *cut)
{
    size_t k = n > max ? utf8_cut(p, max) : n;
    char *s = xcalloc(k + 1, 1);

    *cut = *cut || k < n;
    for (size_t i = 0; i < k; i++)
        s[i] = p[i] ? p[i] : ' '; /* these are C strings from here on */
    return s;
}

/* A value as text of at most max bytes without NUL, heap. */
static char *
text_of(json_val v, size_t max, const char *otherwise, bool *cut)
{
    _cleanup_buf_ struct buf json = BUF_INIT(NON_STRING_MAX);
    size_t n = 0;
    const char *p = json_string(v, &n);

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
    return copy_text(p, n, max, cut);
}

/* How many frames there are in all, and how many are kept. */
static void
make_room(struct failure *f, size_t n)
{
    f->n_traceback = n > FAILURE_FRAMES_MAX ? FAILURE_FRAMES_MAX : n;
    f->cut = f->cut || f->n_traceback < n;
    if (f->n_traceback > 0)
        f->traceback = xcalloc(f->n_traceback, sizeof(*f->traceback));
}

/* Where the frame that is number i of all n is kept; -1 if it is left out. */
static int64_t
place_of(const struct failure *f, size_t i, size_t n)
{
    if (i < FAILURE_FRAMES_MAX / 2)
        return (int64_t)i;
    return i + f->n_traceback >= n + FAILURE_FRAMES_MAX / 2 || f->n_traceback == n
               ? (int64_t)(i + f->n_traceback - n)
               : -1;
}

static void
read_lines(struct failure *f, const char *p, size_t n)
{
    size_t lines = 0, i = 0;

    while (n > 0 && p[n - 1] == '\n')
        n--;
    for (size_t k = 0; k < n; k++)
        lines += p[k] == '\n';
    lines += n > 0;
    make_room(f, lines);
    for (const char *end = p + n; p < end; i++) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));
        size_t len = line_end ? (size_t)(line_end - p) : (size_t)(end - p);
        int64_t at = place_of(f, i, lines);

        if (at >= 0)
            f->traceback[at] = copy_text(p, len, FAILURE_FRAME_MAX, &f->cut);
        p += len + 1;
    }
}

static void
read_traceback(struct failure *f, json_val v)
{
    size_t n = 0;
    const char *p = json_string(v, &n);

    if (p) {
        read_lines(f, p, n);
        return;
    }
    n = json_type(v) == JSON_ARRAY ? json_length(v) : 0;
    make_room(f, n);
    for (size_t i = 0; i < n; i++) {
        int64_t at = place_of(f, i, n);

        if (at >= 0)
            f->traceback[at] = text_of(json_item(v, i), FAILURE_FRAME_MAX, "", &f->cut);
    }
}

void
failure_of(struct failure *ret, json_val name, json_val value, json_val traceback)
{
    struct failure f = {0};

    f.name = text_of(name, FAILURE_NAME_MAX, NO_NAME, &f.cut);
    f.value = text_of(value, FAILURE_VALUE_MAX, "", &f.cut);
    read_traceback(&f, traceback);
    *ret = f;
}

void
failure_read(struct failure *ret, json_val content)
{
    failure_of(ret, json_member(content, "ename"), json_member(content, "evalue"),
               json_member(content, "traceback"));
}

void
failure_lines(struct failure *ret, const char *p, size_t n, const char *line)
{
    struct failure f = {0};
    const char *end = p + n, *name = line, *stop = line;

    while (end > line && end[-1] == '\n')
        end--;
    while (stop < end && *stop != ':' && *stop != '\n') {
        if (*stop == '.')
            name = stop + 1; /* a class is named without its module elsewhere */
        stop++;
    }
    f.name = copy_text(name, (size_t)(stop - name), FAILURE_NAME_MAX, &f.cut);
    if (stop < end && *stop == ':')
        stop++;
    while (stop < end && *stop == ' ')
        stop++;
    f.value = copy_text(stop, (size_t)(end - stop), FAILURE_VALUE_MAX, &f.cut);
    read_lines(&f, p, (size_t)(end - p));
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
