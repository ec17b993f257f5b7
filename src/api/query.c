/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <string.h>

#include "base/digest.h"
#include "base/id.h"
#include "base/num.h"
#include "json/writer.h"
#include "model/session.h"

int
api_session_name(const struct api_call *c, const char **ret, struct err *err)
{
    const struct http_param *p = &c->x->req.params[0];

    if (!id_in_alphabet(p->value, p->len, 1, SESSION_NAME_MAX))
        return err_slug(err, ERR_INVALID, "bad_session_id",
                        "a session's id is 1 to %d characters of A-Z a-z 0-9 _ -",
                        SESSION_NAME_MAX);
    *ret = p->value;
    return 0;
}

int
api_execution_id(const struct api_call *c, const char **ret, struct err *err)
{
    const struct http_param *p = &c->x->req.params[0];

    if (!id_in_alphabet(p->value, p->len, 1, ID_UUID_SIZE - 1))
        return err_slug(err, ERR_NOT_FOUND, "execution_not_found", "there is no such execution");
    *ret = p->value;
    return 0;
}

static bool
in_list(const char *names, const char *name)
{
    size_t n = strlen(name);

    while (n > 0 && *names != '\0') {
        size_t k = strcspn(names, " ");

        if (k == n && memcmp(names, name, n) == 0)
            return true;
        names += k + (names[k] == ' ');
    }
    return false;
}

int
api_query_only(const struct api_call *c, const char *names, struct err *err)
{
    const struct http_request *r = &c->x->req;

    for (int i = 0; i < r->n_query; i++)
        if (!in_list(names, r->query[i].name))
            return err_slug(err, ERR_INVALID, "unknown_parameter",
                            "the query parameter \"%.64s\" is not known here%s%s", r->query[i].name,
                            names[0] ? "; known are: " : "", names);
    return 0;
}

static int
bad_parameter(struct err *err, const char *name, const char *must)
{
    return err_slug(err, ERR_INVALID, "bad_value", "the query parameter \"%s\" must be %s", name,
                    must);
}

static int
bad_cursor(struct err *err)
{
    return err_slug(err, ERR_INVALID, "bad_cursor",
                    "the query parameter \"cursor\" must be a next_cursor of an earlier answer");
}

int
api_query_limit(const struct api_call *c, int *ret, struct err *err)
{
    size_t n;
    const char *s = http_query(c->x, "limit", &n);
    int64_t v;

    *ret = LIST_LIMIT_DEFAULT;
    if (s == NULL)
        return 0;
    if (!num_i64(s, n, 1, LIST_LIMIT_MAX, &v))
        return bad_parameter(err, "limit", "a whole number from 1 to 1000");
    *ret = (int)v;
    return 0;
}

int
api_query_bool(const struct api_call *c, const char *name, bool *ret, struct err *err)
{
    size_t n;
    const char *s = http_query(c->x, name, &n);

    *ret = false;
    if (s == NULL)
        return 0;
    if (strcmp(s, "true") == 0 || strcmp(s, "1") == 0)
        *ret = true;
    else if (strcmp(s, "false") != 0 && strcmp(s, "0") != 0)
        return bad_parameter(err, name, "true or false");
    return 0;
}

int
api_query_cursor(const struct api_call *c, char ret[CURSOR_MAX + 1], size_t *ret_n, struct err *err)
{
    size_t n;
    const char *s = http_query(c->x, "cursor", &n);
    _cleanup_buf_ struct buf text = BUF_INIT(2 * CURSOR_MAX);
    _cleanup_buf_ struct buf raw = BUF_INIT(CURSOR_MAX);

    *ret_n = 0;
    if (s == NULL)
        return 0;
    for (size_t i = 0; i < n; i++)
        buf_putc(&text, s[i] == '-' ? '+' : s[i] == '_' ? '/' : s[i]);
    while (text.len % 4 != 0 && !text.failed)
        buf_putc(&text, '=');
    if (text.failed || text.len == 0 || base64_decode(&raw, text.data, text.len, false) != 1 ||
        raw.len == 0)
        return bad_cursor(err);
    memcpy(ret, raw.data, raw.len);
    ret[raw.len] = '\0';
    *ret_n = raw.len;
    return 0;
}

/* base64url without padding */
static int
cursor_encode(struct buf *out, const void *p, size_t n)
{
    size_t from = out->len;

    if (base64_encode(out, p, n) < 0)
        return -1;
    while (out->len > from && out->data[out->len - 1] == '=')
        out->data[--out->len] = '\0';
    for (size_t i = from; i < out->len; i++) {
        if (out->data[i] == '+')
            out->data[i] = '-';
        else if (out->data[i] == '/')
            out->data[i] = '_';
    }
    return 0;
}

int
cursor_split(const char *p, size_t n, int64_t *ret_number, const char **ret_rest, struct err *err)
{
    const char *dot = memchr(p, '.', n);

    if (dot == NULL || !num_i64(p, (size_t)(dot - p), 0, INT64_MAX, ret_number))
        return bad_cursor(err);
    *ret_rest = dot + 1;
    return 0;
}

void
cursor_member(struct json_writer *w, const char *p, size_t n)
{
    _cleanup_buf_ struct buf text = BUF_INIT(2 * CURSOR_MAX);

    if (p == NULL || cursor_encode(&text, p, n) < 0)
        jw_null(w, "next_cursor");
    else
        jw_string_n(w, "next_cursor", text.data, text.len);
}
