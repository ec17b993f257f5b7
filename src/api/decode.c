/* SPDX-License-Identifier: MIT */
#include "api/decode.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/decode_parts.h"
#include "base/id.h"
#include "base/num.h"
#include "base/utf8.h"
#include "json/writer.h"

#define BODY_DEPTH 8
#define NAME_SHOWN 64
/* Largest wish in seconds that is told apart; every limit lies far below. */
#define SECONDS_MAX 1e12

static void
cleanup_json(struct json_doc **doc)
{
    json_free(*doc);
}

/* How much of a member's name a message shows. */
static int
shown(const char *name, size_t n)
{
    return (int)utf8_cut(name, n < NAME_SHOWN ? n : NAME_SHOWN);
}

int
decode_wrong_type(struct err *err, const char *name, const char *must)
{
    return err_slug(err, ERR_INVALID, "wrong_type", "the member \"%s\" must be %s", name, must);
}

int
decode_bad_value(struct err *err, const char *name, const char *must)
{
    return err_slug(err, ERR_INVALID, "bad_value", "the member \"%s\" must be %s", name, must);
}

/* Says which members are known, as far as the message has room. */
static int
unknown_member(const char *const *known, const char *name, size_t len, struct err *err)
{
    char list[160] = "";
    size_t n = 0;

    for (size_t i = 0; known[i] != NULL && n < sizeof(list); i++)
        n += (size_t)snprintf(list + n, sizeof(list) - n, " %s", known[i]);
    return err_slug(err, ERR_INVALID, "unknown_member", "the member \"%.*s\" is not known here%s%s",
                    shown(name, len), name, n > 0 ? "; known are:" : "", list);
}

int
decode_known(json_val object, const char *what, const char *const *known, struct err *err)
{
    const char *name;
    size_t iter = 0, len;
    json_val v;

    if (json_type(object) != JSON_OBJECT)
        return err_slug(err, ERR_INVALID, "wrong_type", "%s must be a JSON object", what);
    while (json_next_member(object, &iter, &name, &len, &v)) {
        size_t i = 0;

        while (known[i] != NULL && (strlen(known[i]) != len || memcmp(known[i], name, len) != 0))
            i++;
        if (known[i] == NULL)
            return unknown_member(known, name, len, err);
    }
    return 0;
}

int
decode_object(const char *p, size_t n, const char *const *known, struct json_doc **ret,
              struct err *err)
{
    *ret = NULL;
    if (n == 0)
        return 0;
    if (json_parse(p, n, BODY_DEPTH, 0, ret, err) < 0)
        return -1;
    return decode_known(json_root(*ret), "the body", known, err);
}

json_val
decode_member(const struct json_doc *doc, const char *name)
{
    json_val v = doc != NULL ? json_member(json_root(doc), name) : NULL;

    return json_type(v) == JSON_NULL ? NULL : v;
}

int
decode_seconds(json_val v, const char *name, int64_t *ret_ms, struct err *err)
{
    enum json_type t = json_type(v);
    double s;

    *ret_ms = 0;
    if (t == JSON_ABSENT)
        return 0;
    if ((t != JSON_INT && t != JSON_DOUBLE) || !json_double(v, &s))
        return decode_wrong_type(err, name, "a finite number of seconds, or null");
    if (s > SECONDS_MAX)
        s = SECONDS_MAX;
    if (s > 0)
        *ret_ms = s < 0.001 ? 1 : (int64_t)(s * 1000);
    return 0;
}

int
decode_text(json_val v, const char *name, size_t max, const char **ret, size_t *ret_n,
            struct err *err)
{
    *ret = NULL;
    *ret_n = 0;
    if (json_type(v) == JSON_ABSENT)
        return 0;
    *ret = json_string(v, ret_n);
    if (*ret == NULL)
        return decode_wrong_type(err, name, "a string");
    if (memchr(*ret, '\0', *ret_n) != NULL)
        return decode_bad_value(err, name, "a string without NUL");
    if (*ret_n > max)
        return err_slug(err, ERR_INVALID, "bad_value",
                        "the member \"%s\" is %zu bytes, the maximum is %zu", name, *ret_n, max);
    return 0;
}

static int
label(const char *name, size_t len, json_val v, struct json_writer *w, struct err *err)
{
    const char *value;
    size_t n;

    if (!id_in_alphabet(name, len, 1, LABEL_KEY_MAX))
        return err_slug(err, ERR_INVALID, "bad_value",
                        "a key in \"labels\" must be 1 to %d characters of A-Z a-z 0-9 _ -, "
                        "\"%.*s\" is not",
                        LABEL_KEY_MAX, shown(name, len), name);
    value = json_string(v, &n);
    if (value == NULL || n > LABEL_VALUE_MAX || memchr(value, '\0', n) != NULL)
        return err_slug(err, ERR_INVALID, "bad_value",
                        "\"labels\": the value of \"%s\" must be a string of up to %d bytes "
                        "without NUL",
                        name, LABEL_VALUE_MAX);
    jw_string_n(w, name, value, n);
    return 0;
}

/* labels as compact JSON text; leaves out empty if absent. */
static int
labels(json_val v, struct buf *out, struct err *err)
{
    struct json_writer w;
    const char *name;
    size_t iter = 0, len;
    json_val item;

    buf_init(out, LABELS_JSON_MAX);
    if (json_type(v) == JSON_ABSENT)
        return 0;
    if (json_type(v) != JSON_OBJECT)
        return decode_wrong_type(err, "labels", "an object of strings");
    if (json_length(v) > LABELS_MAX)
        return err_slug(err, ERR_INVALID, "bad_value", "\"labels\" has %zu keys, at most %d go",
                        json_length(v), LABELS_MAX);
    jw_init(&w, out);
    jw_object(&w, NULL);
    while (json_next_member(v, &iter, &name, &len, &item))
        if (label(name, len, item, &w, err) < 0)
            return -1;
    jw_end_object(&w);
    return buf_check(out, "labels", err);
}

int
decode_binding(const struct json_doc *doc, struct open_request *r, struct err *err)
{
    r->binding = BIND_NONE;
    for (int i = BIND_SESSION; i < BINDINGS; i++) {
        enum session_binding how = (enum session_binding)i;
        const char *name = session_binding_member(how);
        json_val v = decode_member(doc, name);
        size_t n;
        const char *s = json_string(v, &n);

        if (json_type(v) == JSON_ABSENT)
            continue;
        if (s == NULL)
            return decode_wrong_type(err, name, "a string");
        if (r->binding != BIND_NONE)
            return decode_bad_value(err, name,
                                    "absent where another of session_id, conversation_id and "
                                    "workflow_run_id is given");
        if (how != BIND_SESSION && memchr(s, '\0', n) != NULL)
            return decode_bad_value(err, name, "a string without NUL");
        r->binding = how;
        r->value = s;
        r->value_len = n;
    }
    return 0;
}

int
decode_open(const char *p, size_t n, struct open_body *ret, struct err *err)
{
    static const char *const known[] = {
        "session_id", "conversation_id", "workflow_run_id", "ttl", "backend", "labels", NULL};
    struct open_request *r = &ret->req;
    char name[SESSION_NAME_MAX + 1];
    size_t len;

    memset(ret, 0, sizeof(*ret));
    if (decode_object(p, n, known, &ret->doc, err) < 0 || decode_binding(ret->doc, r, err) < 0 ||
        labels(decode_member(ret->doc, "labels"), &ret->labels, err) < 0 ||
        decode_seconds(decode_member(ret->doc, "ttl"), "ttl", &r->ttl_ms, err) < 0 ||
        decode_text(decode_member(ret->doc, "backend"), "backend", 15, &r->backend, &len, err) < 0)
        return -1;
    r->has_ttl = json_type(decode_member(ret->doc, "ttl")) != JSON_ABSENT;
    r->labels = ret->labels.len > 0 ? ret->labels.data : NULL;
    /* What can be no name is refused here, where the member is known. */
    return r->binding == BIND_NONE ? 0
                                   : session_name_of(r->binding, r->value, r->value_len, name, err);
}

void
open_body_done(struct open_body *b)
{
    json_free(b->doc);
    buf_done(&b->labels);
}

int
decode_patch(const char *p, size_t n, struct patch_body *ret, struct err *err)
{
    static const char *const known[] = {"ttl", "labels", NULL};

    memset(ret, 0, sizeof(*ret));
    if (decode_object(p, n, known, &ret->doc, err) < 0 ||
        labels(decode_member(ret->doc, "labels"), &ret->labels, err) < 0 ||
        decode_seconds(decode_member(ret->doc, "ttl"), "ttl", &ret->ttl_ms, err) < 0)
        return -1;
    /* Here null is named on purpose: back to the default. */
    ret->has_ttl =
        ret->doc != NULL && json_type(json_member(json_root(ret->doc), "ttl")) != JSON_ABSENT;
    ret->has_labels = ret->labels.len > 0;
    return 0;
}

void
patch_body_done(struct patch_body *b)
{
    json_free(b->doc);
    buf_done(&b->labels);
}

static int
on_disconnect(json_val v, enum on_disconnect *ret, struct err *err)
{
    const char *s = json_cstring(v);

    *ret = DISCONNECT_INTERRUPT;
    if (json_type(v) == JSON_ABSENT || (s != NULL && strcmp(s, "interrupt") == 0))
        return 0;
    if (s == NULL || strcmp(s, "continue") != 0)
        return decode_bad_value(err, "on_disconnect", "\"interrupt\" or \"continue\"");
    *ret = DISCONNECT_CONTINUE;
    return 0;
}

int
decode_run(const struct json_doc *doc, const struct exec_limits *l, struct execution_request *r,
           struct err *err)
{
    json_val code = decode_member(doc, "code");

    if (json_type(code) == JSON_ABSENT)
        return err_slug(err, ERR_INVALID, "missing_member", "the member \"code\" is needed");
    r->code = json_string(code, &r->code_len);
    if (r->code == NULL)
        return decode_wrong_type(err, "code", "a string");
    if (r->code_len > (size_t)l->max_code_bytes)
        return err_slug(err, ERR_LIMIT, "code_too_large",
                        "the code is %zu bytes, the maximum is %lld (SANDBOX_MAX_CODE_BYTES)",
                        r->code_len, (long long)l->max_code_bytes);
    if (decode_seconds(decode_member(doc, "timeout"), "timeout", &r->timeout_ms, err) < 0)
        return -1;
    if (r->timeout_ms == 0)
        r->timeout_ms = l->exec_timeout_ms;
    if (r->timeout_ms > l->max_exec_timeout_ms)
        r->timeout_ms = l->max_exec_timeout_ms;
    return on_disconnect(decode_member(doc, "on_disconnect"), &r->on_disconnect, err);
}

int
decode_exec(const char *p, size_t n, const struct exec_limits *l, struct exec_body *ret,
            struct err *err)
{
    static const char *const known[] = {"code", "timeout", "on_disconnect", NULL};

    memset(ret, 0, sizeof(*ret));
    if (decode_object(p, n, known, &ret->doc, err) < 0)
        return -1;
    return decode_run(ret->doc, l, &ret->req, err);
}

void
exec_body_done(struct exec_body *b)
{
    json_free(b->doc);
}

/* Digits of a fixed width inside a longer text. */
static int
digits(const char *s, size_t n, int64_t max, int *ret)
{
    int64_t v;

    if (s[0] < '0' || s[0] > '9' || !num_i64(s, n, 0, max, &v))
        return 0;
    *ret = (int)v;
    return 1;
}

int
decode_time(const char *s, size_t n, int64_t *ret)
{
    struct tm tm = {0}, back;
    int ms = 0;
    time_t t;

    if (n < 20 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' ||
        s[n - 1] != 'Z')
        return 0;
    if (n != 20 && (n != 24 || s[19] != '.' || !digits(s + 20, 3, 999, &ms)))
        return 0;
    if (!digits(s, 4, 9999, &tm.tm_year) || !digits(s + 5, 2, 12, &tm.tm_mon) ||
        !digits(s + 8, 2, 31, &tm.tm_mday) || !digits(s + 11, 2, 23, &tm.tm_hour) ||
        !digits(s + 14, 2, 59, &tm.tm_min) || !digits(s + 17, 2, 59, &tm.tm_sec))
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    back = tm;
    t = timegm(&back);
    /* timegm repairs the 31st of February: what changed was no date. */
    if (back.tm_mday != tm.tm_mday || back.tm_mon != tm.tm_mon || t < 0)
        return 0;
    *ret = (int64_t)t * 1000 + ms;
    return 1;
}

static int
key_scopes(json_val v, unsigned *ret, struct err *err)
{
    const char *must = "a non-empty array of \"read\", \"execute\" and \"admin\"";

    *ret = 0;
    if (json_type(v) != JSON_ARRAY || json_length(v) == 0)
        return decode_bad_value(err, "scopes", must);
    for (size_t i = 0; i < json_length(v); i++) {
        const char *s = json_cstring(json_item(v, i));
        enum key_scope scope;

        if (s == NULL || !key_scope_find(s, strlen(s), &scope))
            return decode_bad_value(err, "scopes", must);
        *ret |= scope;
    }
    return 0;
}

int
decode_key(const char *p, size_t n, struct key_body *ret, struct err *err)
{
    static const char *const known[] = {"owner", "scopes", "expires_at", "note", NULL};
    _cleanup_(cleanup_json) struct json_doc *doc = NULL;
    const char *owner, *note, *expires;
    size_t owner_n, note_n, expires_n;

    memset(ret, 0, sizeof(*ret));
    if (decode_object(p, n, known, &doc, err) < 0 ||
        decode_text(decode_member(doc, "owner"), "owner", OWNER_MAX, &owner, &owner_n, err) < 0 ||
        decode_text(decode_member(doc, "note"), "note", sizeof(ret->note) - 1, &note, &note_n,
                    err) < 0 ||
        decode_text(decode_member(doc, "expires_at"), "expires_at", 64, &expires, &expires_n, err) <
            0)
        return -1;
    if (owner_n == 0)
        return err_slug(err, ERR_INVALID, "missing_member", "the member \"owner\" is needed");
    if (json_type(decode_member(doc, "scopes")) == JSON_ABSENT)
        return err_slug(err, ERR_INVALID, "missing_member", "the member \"scopes\" is needed");
    if (key_scopes(decode_member(doc, "scopes"), &ret->scopes, err) < 0)
        return -1;
    if (expires != NULL && !decode_time(expires, expires_n, &ret->expires_at))
        return decode_bad_value(err, "expires_at", "a time such as 2030-01-02T03:04:05Z");
    memcpy(ret->owner, owner, owner_n);
    if (note != NULL)
        memcpy(ret->note, note, note_n);
    return 0;
}

int
decode_empty(const char *p, size_t n, struct err *err)
{
    static const char *const known[] = {NULL};
    _cleanup_(cleanup_json) struct json_doc *doc = NULL;

    return decode_object(p, n, known, &doc, err);
}
