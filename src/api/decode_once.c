/* SPDX-License-Identifier: MIT */
#include "api/decode_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

static int
flag(const struct json_doc *doc, const char *name, bool *ret, struct err *err)
{
    json_val v = decode_member(doc, name);

    *ret = false;
    if (json_type(v) == JSON_ABSENT)
        return 0;
    if (json_type(v) != JSON_BOOL)
        return decode_wrong_type(err, name, "true or false");
    *ret = json_bool(v, false);
    return 0;
}

/* A member of one of the inputs, null taken for absent; *ret NULL if absent. */
static int
part(json_val input, const char *name, const char **ret, size_t *ret_n, struct err *err)
{
    json_val v = json_member(input, name);

    *ret = NULL;
    if (json_type(v) == JSON_ABSENT || json_type(v) == JSON_NULL)
        return 0;
    *ret = json_string(v, ret_n);
    return *ret != NULL ? 0 : decode_wrong_type(err, name, "a string");
}

static int
version(json_val input, struct run_input *in, struct err *err)
{
    json_val v = json_member(input, "version");

    if (json_type(v) == JSON_ABSENT || json_type(v) == JSON_NULL)
        return 0;
    if (in->artifact == NULL)
        return decode_bad_value(err, "version", "given with an artifact");
    return json_i64(v, 1, INT64_MAX, &in->version)
               ? 0
               : decode_bad_value(err, "version", "a whole number from 1 on");
}

static int
content(const char *base64, size_t n, int64_t *left, int64_t max, struct buf *out, struct err *err)
{
    int64_t bytes = (int64_t)(n / 4 * 3); /* two at the most are padding */
    int rc;

    if (bytes - 2 > *left)
        return err_slug(err, ERR_LIMIT, "inputs_too_large",
                        "the inputs are larger than %lld bytes together "
                        "(SANDBOX_MAX_INPUT_BYTES)",
                        (long long)max);
    buf_init(out, (size_t)bytes);
    rc = base64_decode(out, base64, n, false);
    if (rc < 0)
        return err_set(err, ERR_NOMEM, "no memory for an input");
    if (rc == 0)
        return decode_bad_value(err, "content_base64", "base64 with padding");
    *left -= (int64_t)out->len;
    return 0;
}

static int
input(struct once_body *b, size_t i, json_val v, int64_t *left, struct err *err)
{
    static const char *const known[] = {"path", "content_base64", "artifact", "version", NULL};
    struct run_input *in = &b->req.inputs[i];
    const char *base64;
    size_t n64 = 0, n = 0;

    if (decode_known(v, "each of the inputs", known, err) < 0 ||
        part(v, "path", &in->path, &in->path_len, err) < 0 ||
        part(v, "content_base64", &base64, &n64, err) < 0 ||
        part(v, "artifact", &in->artifact, &n, err) < 0 || version(v, in, err) < 0)
        return -1;
    if (in->path == NULL)
        return err_slug(err, ERR_INVALID, "missing_member", "each of the inputs needs a \"path\"");
    if (workspace_path_check(in->path, in->path_len, err) < 0)
        return -1;
    if ((base64 == NULL) == (in->artifact == NULL))
        return decode_bad_value(err, "inputs",
                                "made of objects with either content_base64 or artifact");
    if (in->artifact != NULL)
        return memchr(in->artifact, '\0', n) == NULL
                   ? 0
                   : decode_bad_value(err, "artifact", "a string without NUL");
    if (content(base64, n64, left, b->req.max_input_bytes, &b->contents[i], err) < 0)
        return -1;
    in->p = buf_str(&b->contents[i]);
    in->n = b->contents[i].len;
    return 0;
}

static int
inputs(struct once_body *b, struct err *err)
{
    json_val v = decode_member(b->doc, "inputs");
    int64_t left = b->req.max_input_bytes;
    size_t n = json_length(v);

    if (json_type(v) == JSON_ABSENT)
        return 0;
    if (json_type(v) != JSON_ARRAY)
        return decode_wrong_type(err, "inputs", "an array");
    if (n > ONCE_INPUTS_MAX)
        return err_slug(err, ERR_INVALID, "bad_value", "\"inputs\" has %zu items, at most %d go", n,
                        ONCE_INPUTS_MAX);
    b->req.inputs = xcalloc(n + 1, sizeof(*b->req.inputs));
    b->contents = xcalloc(n + 1, sizeof(*b->contents));
    b->req.n_inputs = n;
    for (size_t i = 0; i < n; i++)
        if (input(b, i, json_item(v, i), &left, err) < 0)
            return -1;
    return 0;
}

static int
outputs(struct once_body *b, struct err *err)
{
    json_val v = decode_member(b->doc, "outputs");
    size_t n = json_length(v);

    if (json_type(v) == JSON_ABSENT)
        return 0;
    if (json_type(v) != JSON_ARRAY || n > ONCE_OUTPUTS_MAX)
        return decode_bad_value(err, "outputs", "an array of at most 64 patterns");
    b->capture.outputs = xcalloc(n + 1, sizeof(*b->capture.outputs));
    for (size_t i = 0; i < n; i++) {
        const char *s = json_cstring(json_item(v, i));

        if (s == NULL || s[0] == '\0' || strlen(s) > GLOB_MAX)
            return decode_bad_value(err, "outputs", "made of patterns of 1 to 512 bytes");
        b->capture.outputs[b->capture.n_outputs++] = s;
    }
    return 0;
}

int
decode_once(const char *p, size_t n, const struct once_limits *l, struct once_body *ret,
            struct err *err)
{
    static const char *const known[] = {
        "code", "timeout", "on_disconnect", "session_id", "conversation_id", "workflow_run_id",
        "ttl",  "persist", "inputs",        "outputs",    "capture",         NULL};
    struct open_request *open = &ret->req.open;
    char name[SESSION_NAME_MAX + 1];

    memset(ret, 0, sizeof(*ret));
    ret->req.max_input_bytes = l->max_input_bytes;
    if (decode_object(p, n, known, &ret->doc, err) < 0 ||
        decode_run(ret->doc, &l->exec, &ret->req.exec, err) < 0 ||
        decode_binding(ret->doc, open, err) < 0 ||
        decode_seconds(decode_member(ret->doc, "ttl"), "ttl", &open->ttl_ms, err) < 0 ||
        flag(ret->doc, "persist", &ret->req.keep, err) < 0 ||
        flag(ret->doc, "capture", &ret->capture.changed, err) < 0 || inputs(ret, err) < 0 ||
        outputs(ret, err) < 0)
        return -1;
    open->has_ttl = json_type(decode_member(ret->doc, "ttl")) != JSON_ABSENT;
    ret->req.keep = ret->req.keep || open->has_ttl;
    if (ret->capture.changed || ret->capture.n_outputs > 0)
        ret->req.exec.capture = &ret->capture;
    ret->req.exec.more = p;
    ret->req.exec.more_len = n;
    return open->binding == BIND_NONE
               ? 0
               : session_name_of(open->binding, open->value, open->value_len, name, err);
}

void
once_body_done(struct once_body *b)
{
    for (size_t i = 0; i < b->req.n_inputs; i++)
        buf_done(&b->contents[i]);
    free(b->contents);
    free(b->req.inputs);
    free(b->capture.outputs);
    json_free(b->doc);
}
