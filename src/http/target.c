/* SPDX-License-Identifier: MIT */
#include "http/http.h"

#include "base/cleanup.h"
#include "base/digest.h"

#include <stdlib.h>
#include <string.h>

/*
 * The request target (RFC 9112 3.2.1, origin form): checked, cut into path and query, and the query
 * decoded.  The path stays as it was sent, so that an encoded slash or dot is never taken for
 * structure: routes cut it first and decode what they cut out, once.
 */

int
http_percent_decode(const char *p, size_t n, bool plus_is_space, char **ret, size_t *ret_n)
{
    _cleanup_free_ char *out = xcalloc(n + 1, 1);
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        if (p[i] == '%') {
            int high = n - i > 2 ? hex_value(p[i + 1]) : -1;
            int low = n - i > 2 ? hex_value(p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return 0;
            out[len++] = (char)(high << 4 | low);
            i += 2;
        } else if (p[i] == '+' && plus_is_space) {
            out[len++] = ' ';
        } else {
            out[len++] = p[i];
        }
    }
    out[len] = '\0';
    *ret = steal_ptr(out);
    *ret_n = len;
    return 1;
}

static int
refuse(struct err *err, const char *why)
{
    return err_slug(err, ERR_INVALID, "bad_request_target", "The request target %s.", why);
}

static bool
percent_valid(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '%')
            continue;
        if (n - i <= 2 || hex_value(p[i + 1]) < 0 || hex_value(p[i + 2]) < 0)
            return false;
    }
    return true;
}

/* One "name=value" or "name" of the query. */
static int
add_query(struct http_request *r, const char *p, size_t n, struct err *err)
{
    const char *eq = memchr(p, '=', n);
    size_t name_n = eq ? (size_t)(eq - p) : n;
    _cleanup_free_ char *name = NULL, *value = NULL;
    size_t name_len, value_len;

    if (r->n_query >= HTTP_QUERY_MAX)
        return refuse(err, "has more than 16 query parameters");
    if (!http_percent_decode(p, name_n, true, &name, &name_len) ||
        !http_percent_decode(eq ? eq + 1 : "", eq ? n - name_n - 1 : 0, true, &value, &value_len))
        return refuse(err, "has a malformed percent sequence in its query");
    if (name_len == 0)
        return refuse(err, "has a query parameter without a name");
    if (memchr(name, '\0', name_len) || memchr(value, '\0', value_len))
        return refuse(err, "has a NUL in its query");
    for (int i = 0; i < r->n_query; i++) {
        if (strcmp(r->query[i].name, name) == 0)
            return refuse(err, "gives a query parameter twice");
    }
    r->query[r->n_query++] =
        (struct http_param){.name = steal_ptr(name), .value = steal_ptr(value), .len = value_len};
    return 0;
}

static int
parse_query(struct http_request *r, const char *p, struct err *err)
{
    while (*p) {
        size_t n = strcspn(p, "&");
        if (n > 0 && add_query(r, p, n, err) < 0)
            return -1;
        p += n;
        if (*p == '&')
            p++;
    }
    return 0;
}

int
http_parse_target(struct http_request *r, const char *target, struct err *err)
{
    size_t n = strlen(target);
    size_t path_n = strcspn(target, "?");

    if (n > HTTP_TARGET_MAX)
        return err_slug(err, ERR_LIMIT, "uri_too_long",
                        "The request target has %zu bytes; at most %d are taken.", n,
                        HTTP_TARGET_MAX);
    if (target[0] != '/')
        return refuse(err, "does not begin with a slash");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)target[i];
        if (c <= ' ' || c == 0x7f || c == '#')
            return refuse(err, "holds a space, a control character or a fragment");
    }
    if (!percent_valid(target, path_n))
        return refuse(err, "has a malformed percent sequence in its path");
    if (target[path_n] == '?' && parse_query(r, target + path_n + 1, err) < 0) {
        http_request_done(r);
        return -1;
    }
    r->path = xstrndup(target, path_n);
    return 0;
}

void
http_request_done(struct http_request *r)
{
    for (int i = 0; i < r->n_params; i++)
        free(r->params[i].value);
    for (int i = 0; i < r->n_query; i++) {
        free(r->query[i].name);
        free(r->query[i].value);
    }
    free(r->path);
    r->path = NULL;
    r->n_params = 0;
    r->n_query = 0;
}
