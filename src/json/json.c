/* SPDX-License-Identifier: MIT */
#include "json/json.h"

#include "base/buf.h"
#include "base/utf8.h"
#include "json/scan.h"

/* json-c has types of the names of two of our functions; here they are called json_c_…. */
#define json_type json_c_type
#define json_bool json_c_bool
#include <json-c/json.h>
#undef json_type
#undef json_bool
#include <limits.h>
#include <math.h>
#include <string.h>

struct json_doc {
    struct json_object *root;
};

/* json-c shows null as a NULL pointer, which means "absent" to our callers. */
static const char null_value;

static json_val
from_object(struct json_object *o)
{
    return o ? (json_val)o : (json_val)&null_value;
}

/* The json-c object behind a value; NULL for absent and null. json-c's getters are not const. */
static struct json_object *
to_object(json_val v)
{
    return v == (json_val)&null_value ? NULL : (struct json_object *)v;
}

static size_t
count_members(struct json_object *o)
{
    size_t sum = 0;

    if (json_object_is_type(o, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(o); i++)
            sum += count_members(json_object_array_get_idx(o, i));
    } else if (json_object_is_type(o, json_type_object)) {
        json_object_object_foreach(o, name, member)
        {
            (void)name;
            sum += 1 + count_members(member);
        }
    }
    return sum;
}

/* The tokener wants an end behind a bare number or literal: it is given as one more NUL. */
static int
tokenize(const char *p, size_t n, int max_depth, struct json_object **ret, struct err *err)
{
    /* json-c counts the values too: it refuses the level that equals its maximum. */
    struct json_tokener *tok = json_tokener_new_ex(max_depth + 2);
    struct json_object *root;
    enum json_tokener_error e;
    size_t at;

    if (!tok)
        return err_set(err, ERR_NOMEM, "no memory for a JSON parser");
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    root = json_tokener_parse_ex(tok, p, (int)n);
    at = json_tokener_get_parse_end(tok);
    e = json_tokener_get_error(tok);
    if (e == json_tokener_continue) {
        root = json_tokener_parse_ex(tok, "", 1);
        at = n;
        e = json_tokener_get_error(tok);
    }
    json_tokener_free(tok);
    if (e == json_tokener_success && at == n) {
        *ret = root;
        return 0;
    }
    json_object_put(root);
    return err_slug(err, ERR_INVALID, "invalid_json", "%s at byte %zu",
                    e == json_tokener_continue  ? "unexpected end"
                    : e == json_tokener_success ? "something behind the value"
                                                : json_tokener_error_desc(e),
                    at);
}

int
json_parse(const char *p, size_t n, int max_depth, unsigned flags, struct json_doc **ret,
           struct err *err)
{
    struct json_scan scan = {.copy = NULL};
    _cleanup_buf_ struct buf copy = BUF_INIT(INT_MAX);
    struct json_object *root = NULL;

    if (n >= INT_MAX / 2)
        return err_set(err, ERR_LIMIT, "JSON is longer than %d bytes", INT_MAX / 2);
    /* json-c's own check lets overlong forms pass, in which two names can be one. */
    if (!utf8_valid(p, n))
        return err_slug(err, ERR_INVALID, "invalid_json", "it is not valid UTF-8");
    if (json_scan(p, n, max_depth, flags, &scan, err) < 0)
        return -1;
    n = scan.end;
    if (scan.big > 0) {
        scan.copy = &copy;
        if (json_scan(p, n, max_depth, flags, &scan, err) < 0)
            return -1;
        p = buf_str(&copy);
        n = copy.len;
    }
    if (tokenize(p, n, max_depth, &root, err) < 0)
        return -1;
    if (!(flags & JSON_LAX_KEYS) && count_members(root) != scan.members) {
        json_object_put(root);
        return err_slug(err, ERR_INVALID, "invalid_json",
                        "a member name stands twice in one object");
    }
    *ret = xcalloc(1, sizeof **ret);
    (*ret)->root = root;
    return 0;
}

void
json_free(struct json_doc *doc)
{
    if (!doc)
        return;
    json_object_put(doc->root);
    free(doc);
}

json_val
json_root(const struct json_doc *doc)
{
    return from_object(doc->root);
}

enum json_type
json_type(json_val v)
{
    if (!v)
        return JSON_ABSENT;
    switch (json_object_get_type(to_object(v))) {
    case json_type_boolean:
        return JSON_BOOL;
    case json_type_int:
        return JSON_INT;
    case json_type_double:
        return JSON_DOUBLE;
    case json_type_string:
        return JSON_STRING;
    case json_type_array:
        return JSON_ARRAY;
    case json_type_object:
        return JSON_OBJECT;
    case json_type_null:
        break;
    }
    return JSON_NULL;
}

json_val
json_member(json_val object, const char *name)
{
    struct json_object *o;

    if (json_type(object) != JSON_OBJECT || !json_object_object_get_ex(to_object(object), name, &o))
        return NULL;
    return from_object(o);
}

size_t
json_length(json_val v)
{
    if (json_type(v) == JSON_ARRAY)
        return json_object_array_length(to_object(v));
    if (json_type(v) == JSON_OBJECT)
        return (size_t)json_object_object_length(to_object(v));
    return 0;
}

json_val
json_item(json_val array, size_t i)
{
    if (json_type(array) != JSON_ARRAY || i >= json_length(array))
        return NULL;
    return from_object(json_object_array_get_idx(to_object(array), i));
}

bool
json_next_member(json_val object, size_t *iter, const char **ret_name, size_t *ret_len,
                 json_val *ret)
{
    /* *iter is the entry to come next, as a number; no entry has the address 1. */
    const size_t end = 1;
    const struct lh_entry *e;

    if (json_type(object) != JSON_OBJECT || *iter == end)
        return false;
    e = *iter == 0 ? json_object_get_object(to_object(object))->head
                   : (const struct lh_entry *)(uintptr_t)*iter;
    if (!e) {
        *iter = end;
        return false;
    }
    *iter = e->next ? (size_t)(uintptr_t)e->next : end;
    *ret_name = (const char *)lh_entry_k(e);
    if (ret_len)
        *ret_len = strlen(*ret_name);
    *ret = from_object((struct json_object *)(uintptr_t)lh_entry_v(e));
    return true;
}

const char *
json_string(json_val v, size_t *ret_len)
{
    if (json_type(v) != JSON_STRING)
        return NULL;
    if (ret_len)
        *ret_len = (size_t)json_object_get_string_len(to_object(v));
    return json_object_get_string(to_object(v));
}

const char *
json_cstring(json_val v)
{
    size_t len = 0;
    const char *s = json_string(v, &len);

    return s && strlen(s) == len ? s : NULL;
}

bool
json_bool(json_val v, bool otherwise)
{
    return json_type(v) == JSON_BOOL ? json_object_get_boolean(to_object(v)) : otherwise;
}

int
json_i64(json_val v, int64_t min, int64_t max, int64_t *ret)
{
    int64_t i;

    if (json_type(v) == JSON_INT) {
        i = json_object_get_int64(to_object(v));
    } else {
        const double exact = 9007199254740992.0; /* 2^53: all integers up to there are doubles */
        double d;

        if (!json_double(v, &d) || d < -exact || d > exact || d != trunc(d))
            return 0;
        i = (int64_t)d;
    }
    if (i < min || i > max)
        return 0;
    *ret = i;
    return 1;
}

int
json_double(json_val v, double *ret)
{
    double d;

    if (json_type(v) != JSON_INT && json_type(v) != JSON_DOUBLE)
        return 0;
    d = json_object_get_double(to_object(v));
    if (!isfinite(d))
        return 0;
    *ret = d;
    return 1;
}
