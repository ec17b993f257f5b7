/* SPDX-License-Identifier: MIT */
#include "http/http.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static const char *const method_names[] = {
    [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
    [HTTP_OPTIONS] = "OPTIONS",
};

enum http_method
http_method_parse(const char *name)
{
    for (int m = HTTP_GET; m < HTTP_OTHER; m++) {
        if (strcmp(name, method_names[m]) == 0)
            return (enum http_method)m;
    }
    return HTTP_OTHER;
}

/* A piece of the path that a parameter stands for; not yet decoded. */
struct cut {
    const char *p;
    size_t n;
};

/* 1 when the pattern matches the whole path; the parameters' pieces are in cut. */
static int
match(const char *pattern, const char *path, struct cut cut[HTTP_PARAMS_MAX], int *ret_n)
{
    int n = 0;

    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return 0;
            continue;
        }
        const char *close = strchr(pattern, '}');
        bool rest = close - pattern > 3 && memcmp(close - 3, "...", 3) == 0;
        size_t len = rest ? strlen(path) : strcspn(path, "/");
        if (len == 0 || n == HTTP_PARAMS_MAX)
            return 0;
        cut[n++] = (struct cut){path, len};
        path += len;
        pattern = close + 1;
    }
    *ret_n = n;
    return *path == '\0';
}

static int
fill_params(struct http_request *r, const struct cut *cut, int n)
{
    for (int i = 0; i < r->n_params; i++)
        free(r->params[i].value);
    r->n_params = 0;
    for (int i = 0; i < n; i++) {
        struct http_param *p = &r->params[i];
        if (!http_percent_decode(cut[i].p, cut[i].n, false, &p->value, &p->len))
            return -1;
        p->name = NULL;
        r->n_params = i + 1;
    }
    return 0;
}

/* "GET, HEAD, …" of the methods in the set. */
static void
write_allow(unsigned set, char *out, size_t size)
{
    struct buf b = BUF_INIT(128);

    for (int m = HTTP_GET; m < HTTP_OTHER; m++) {
        if (set & 1u << m)
            (void)buf_printf(&b, "%s%s", b.len > 0 ? ", " : "", method_names[m]);
    }
    if (size > b.len)
        memcpy(out, buf_str(&b), b.len + 1);
    else if (size > 0)
        out[0] = '\0';
    buf_done(&b);
}

int
http_route_find(const struct http_route *table, size_t n, struct http_request *r,
                const struct http_route **ret, char *ret_allow, size_t allow_size)
{
    const struct http_route *found = NULL;
    struct cut cut[HTTP_PARAMS_MAX], kept[HTTP_PARAMS_MAX];
    int n_cut = 0, n_kept = 0;
    unsigned allowed = 0;

    for (size_t i = 0; i < n; i++) {
        const struct http_route *t = &table[i];
        if (!match(t->pattern, r->path, cut, &n_cut))
            continue;
        allowed |= 1u << t->method;
        if (t->method == HTTP_GET)
            allowed |= 1u << HTTP_HEAD;
        bool exact = t->method == r->method && !(found && found->method == r->method);
        bool head_by_get = r->method == HTTP_HEAD && t->method == HTTP_GET && !found;
        if (exact || head_by_get) {
            found = t;
            memcpy(kept, cut, sizeof(cut[0]) * (size_t)n_cut);
            n_kept = n_cut;
        }
    }
    if (!allowed)
        return 0;
    if (!found) {
        write_allow(allowed, ret_allow, allow_size);
        return -1;
    }
    if (fill_params(r, kept, n_kept) < 0)
        return -2;
    *ret = found;
    return 1;
}
