/* SPDX-License-Identifier: MIT */
#include "sandbox/output/rich.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "json/writer.h"

static const struct {
    const char *mime, *format;
} pictures[RICH_PLOTS_MAX] = {
    {"image/png", "png"},   {"image/jpeg", "jpeg"},   {"image/gif", "gif"},
    {"image/webp", "webp"}, {"image/svg+xml", "svg"},
};

/* What a message of this size can grow to when it is written again: a control character that stood
 * bare becomes six bytes. */
static size_t
written_max(const struct rich_source *m)
{
    return 6 * m->size + 1024;
}

static const char *
picture_format(const char *mime, size_t n)
{
    for (size_t i = 0; i < RICH_PLOTS_MAX; i++)
        if (strlen(pictures[i].mime) == n && memcmp(pictures[i].mime, mime, n) == 0)
            return pictures[i].format;
    return NULL;
}

/* Base64 as the kernel sent it, without its white space; false if it is none. */
static bool
clean_base64(struct buf *out, const char *p, size_t n)
{
    _cleanup_buf_ struct buf raw = BUF_INIT(n);

    while (n > 0) {
        size_t k = 0;

        while (k < n && !strchr(" \t\r\n", p[k]))
            k++;
        if (buf_append(out, p, k) < 0)
            return false;
        while (k < n && p[k] != '\0' && strchr(" \t\r\n", p[k]))
            k++;
        if (k == 0)
            return false; /* a NUL */
        p += k;
        n -= k;
    }
    return out->len > 0 && base64_decode(&raw, out->data, out->len, false) == 1;
}

/* Takes a picture out of a bundle; false if the value is none: then it stays in the data. */
static bool
take_picture(struct rich *r, const char *format, json_val v)
{
    size_t n = 0;
    const char *p = json_string(v, &n);
    _cleanup_buf_ struct buf out = BUF_INIT(2 * n + 8);
    struct plot *plot = &r->plots[r->n_plots];

    if (!p || r->n_plots == RICH_PLOTS_MAX)
        return false;
    if (strcmp(format, "svg") == 0) {
        if (base64_encode(&out, p, n) < 0)
            return false;
    } else if (!clean_base64(&out, p, n)) {
        return false;
    }
    memset(plot, 0, sizeof(*plot));
    memcpy(plot->format, format, strlen(format) + 1);
    plot->content_base64 = buf_steal(&out, &plot->content_len);
    if (!plot->content_base64)
        return false;
    r->n_plots++;
    r->size += plot->content_len;
    return true;
}

static void
write_data(struct json_writer *w, struct rich *r, json_val data)
{
    size_t iter = 0, n;
    const char *name;
    json_val v;

    jw_object(w, NULL);
    while (json_next_member(data, &iter, &name, &n, &v)) {
        const char *format = picture_format(name, n);

        if (strlen(name) != n || (format && take_picture(r, format, v)))
            continue;
        jw_value(w, name, v);
    }
    jw_end_object(w);
}

/* An object member of the content; an empty one for anything else. */
static void
write_object(struct json_writer *w, const char *name, json_val v)
{
    if (json_type(v) == JSON_OBJECT) {
        jw_value(w, name, v);
        return;
    }
    jw_object(w, name);
    jw_end_object(w);
}

int
rich_read(struct rich *ret, const struct rich_source *m)
{
    _cleanup_buf_ struct buf data = BUF_INIT(written_max(m));
    _cleanup_buf_ struct buf metadata = BUF_INIT(written_max(m));
    json_val transient = json_member(m->content, "transient");
    const char *id = json_cstring(json_member(transient, "display_id"));
    struct rich r = {0};
    struct json_writer w;

    jw_init(&w, &data);
    write_data(&w, &r, json_member(m->content, "data"));
    jw_init(&w, &metadata);
    write_object(&w, NULL, json_member(m->content, "metadata"));
    if (data.failed || metadata.failed) {
        rich_done(&r);
        return -1;
    }
    r.bundle.data = buf_steal(&data, &r.bundle.data_len);
    r.bundle.metadata = buf_steal(&metadata, &r.bundle.metadata_len);
    r.size += r.bundle.data_len + r.bundle.metadata_len;
    r.display_id = id ? strdup(id) : NULL;
    if (!r.bundle.data || !r.bundle.metadata || (id && !r.display_id)) {
        rich_done(&r);
        return -1;
    }
    *ret = r;
    return 0;
}

void
rich_done(struct rich *r)
{
    free(r->bundle.data);
    free(r->bundle.metadata);
    for (size_t i = 0; i < r->n_plots; i++)
        free(r->plots[i].content_base64);
    free(r->display_id);
    memset(r, 0, sizeof(*r));
}

size_t
rich_cost(const struct rich *r)
{
    return r->size + RICH_OVERHEAD + (r->display_id ? strlen(r->display_id) : 0);
}

int
rich_event(struct buf *out, const struct rich_source *m)
{
    struct json_writer w;
    int64_t count;

    buf_init(out, written_max(m));
    jw_init(&w, out);
    jw_object(&w, NULL);
    write_object(&w, "data", json_member(m->content, "data"));
    write_object(&w, "metadata", json_member(m->content, "metadata"));
    if (m->kind == RICH_RESULT) {
        if (json_i64(json_member(m->content, "execution_count"), 0, INT64_MAX, &count) == 1)
            jw_i64(&w, "execution_count", count);
        else
            jw_null(&w, "execution_count");
    } else {
        write_object(&w, "transient", json_member(m->content, "transient"));
        jw_bool(&w, "update", m->kind == RICH_UPDATE);
    }
    jw_end_object(&w);
    return out->failed ? -1 : 0;
}

int
rich_list_add(struct rich_list *l, struct rich *r)
{
    if (l->n == RICH_LIST_MAX)
        return -1;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 8;
        struct rich *items = reallocarray(l->items, cap, sizeof(*items));

        if (!items)
            return -1;
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = *r;
    memset(r, 0, sizeof(*r));
    return 0;
}

void
rich_list_done(struct rich_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        rich_done(&l->items[i]);
    free(l->items);
    memset(l, 0, sizeof(*l));
}

size_t
rich_list_plots(const struct rich_list *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->items[i].n_plots;
    return n;
}

void
rich_list_take(struct rich_list *l, struct bundle **ret, size_t *ret_n, bool of_display,
               struct plot *plots, size_t *n_plots)
{
    *ret = l->n > 0 ? xcalloc(l->n, sizeof(**ret)) : NULL;
    *ret_n = l->n;
    for (size_t i = 0; i < l->n; i++) {
        struct rich *r = &l->items[i];

        (*ret)[i] = r->bundle;
        memset(&r->bundle, 0, sizeof(r->bundle));
        for (size_t k = 0; k < r->n_plots; k++) {
            struct plot *p = &plots[(*n_plots)++];

            *p = r->plots[k];
            p->of_display = of_display;
            p->index = i;
        }
        r->n_plots = 0;
    }
    rich_list_done(l);
}
