/* SPDX-License-Identifier: MIT */
#include "api/decode_extract.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "api/decode_parts.h"
#include "base/utf8.h"
#include "json/writer.h"

#define SCHEMA_DEPTH 60 /* what a writer can hold, with some to spare */
#define TIMEOUT_TEXT_MAX 64

int
extract_format(const char *filename, const char **ret, struct err *err)
{
    static const char *const known[] = {"docx", "pptx", "xlsx", "html", "htm", "md", "csv", "pdf"};
    const char *dot = strrchr(filename, '.');

    for (size_t i = 0; dot != NULL && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasecmp(dot + 1, known[i]) == 0) {
            *ret = strcmp(known[i], "htm") == 0 ? "html" : known[i];
            return 0;
        }
    return err_slug(err, ERR_INVALID, "unsupported_document",
                    "the filename \"%.*s\" must end in .docx, .pptx, .xlsx, .html, .htm, .md, "
                    ".csv or .pdf",
                    (int)utf8_cut(filename, strlen(filename) < 64 ? strlen(filename) : 64),
                    filename);
}

int
extract_size_check(int64_t size, int64_t max, struct err *err)
{
    if (size <= max)
        return 0;
    return err_slug(err, ERR_LIMIT, "inputs_too_large",
                    "the document is %" PRId64 " bytes, the maximum is %" PRId64
                    " (SANDBOX_MAX_INPUT_BYTES)",
                    size, max);
}

/* The last component of what may be a path of either world. */
static int
set_filename(struct extract_body *b, const char *name, size_t n, struct err *err)
{
    for (size_t i = n; i > 0; i--)
        if (name[i - 1] == '/' || name[i - 1] == '\\') {
            name += i;
            n -= i;
            break;
        }
    if (n == 0 || n >= sizeof(b->filename))
        return decode_bad_value(err, "filename", "a name of 1 to 1024 bytes");
    memcpy(b->filename, name, n);
    b->filename[n] = '\0';
    return 0;
}

static int
schema_too_large(size_t n, struct err *err)
{
    return err_slug(err, ERR_LIMIT, "limit_exceeded", "the schema is %zu bytes, the maximum is %d",
                    n, EXTRACT_SCHEMA_MAX);
}

/* Written anew, so that what reaches the runner is JSON in the strict sense. */
static int
set_schema(struct extract_body *b, json_val v, struct err *err)
{
    struct json_writer w;

    if (json_type(v) != JSON_OBJECT)
        return decode_wrong_type(err, "schema", "an object, a JSON Schema");
    b->has_schema = true;
    jw_init(&w, &b->schema);
    jw_value(&w, NULL, v);
    return b->schema.failed ? schema_too_large(b->schema.max + 1, err) : 0;
}

static int
set_timeout(struct extract_body *b, json_val v, const struct extract_limits *l, struct err *err)
{
    if (decode_seconds(v, "timeout", &b->timeout_ms, err) < 0)
        return -1;
    if (b->timeout_ms == 0)
        b->timeout_ms = l->exec_timeout_ms;
    if (b->timeout_ms > l->max_exec_timeout_ms)
        b->timeout_ms = l->max_exec_timeout_ms;
    return 0;
}

static void
init(struct extract_body *b, const struct extract_limits *l)
{
    memset(b, 0, sizeof(*b));
    /* as sent it is bounded by EXTRACT_SCHEMA_MAX; written anew, an escape can be twice as long */
    buf_init(&b->schema, 2 * EXTRACT_SCHEMA_MAX);
    (void)set_timeout(b, NULL, l, NULL);
}

static int
file_part(struct extract_body *b, const struct multipart_part *part, const struct extract_limits *l,
          struct err *err)
{
    if (!part->has_filename)
        return err_slug(err, ERR_INVALID, "missing_member",
                        "the part \"file\" needs a filename: its end names the format");
    if (set_filename(b, part->filename, strlen(part->filename), err) < 0)
        return -1;
    b->file = part->p;
    b->file_len = part->n;
    return extract_size_check((int64_t)part->n, l->max_input_bytes, err);
}

/* A part whose content is JSON. */
static int
json_part(struct extract_body *b, const struct multipart_part *part, const struct extract_limits *l,
          struct err *err)
{
    bool schema = strcmp(part->name, "schema") == 0;
    struct json_doc *doc;
    int rc;

    if (schema && part->n > EXTRACT_SCHEMA_MAX)
        return schema_too_large(part->n, err);
    if (!schema && part->n > TIMEOUT_TEXT_MAX)
        return decode_wrong_type(err, "timeout", "a finite number of seconds");
    if (json_parse(part->p, part->n, SCHEMA_DEPTH, 0, &doc, err) < 0)
        return err_wrap(err, "the part \"%s\"", part->name);
    rc = schema ? set_schema(b, json_root(doc), err) : set_timeout(b, json_root(doc), l, err);
    json_free(doc);
    return rc;
}

int
decode_extract_form(const char *type, const char *p, size_t n, const struct extract_limits *l,
                    struct extract_body *ret, struct err *err)
{
    static const char *const known[] = {"file", "schema", "timeout"};
    struct multipart_part part;
    struct multipart m;
    unsigned seen = 0;
    int rc;

    init(ret, l);
    if (multipart_begin(&m, type, p, n, err) < 0)
        return -1;
    while ((rc = multipart_next(&m, &part, err)) > 0) {
        unsigned i = 0;

        while (i < 3 && strcmp(part.name, known[i]) != 0)
            i++;
        if (i == 3)
            return err_slug(err, ERR_INVALID, "unknown_member", "the part \"%s\" is not known here",
                            part.name);
        if (seen & 1u << i)
            return err_slug(err, ERR_INVALID, "bad_value", "the part \"%s\" is given twice",
                            part.name);
        seen |= 1u << i;
        if ((i == 0 ? file_part(ret, &part, l, err) : json_part(ret, &part, l, err)) < 0)
            return -1;
    }
    if (rc == 0 && ret->file == NULL)
        return err_slug(err, ERR_INVALID, "missing_member", "the part \"file\" is needed");
    return rc;
}

static int
document(struct extract_body *b, struct err *err)
{
    json_val version = decode_member(b->doc, "version");
    const char *name;
    size_t n;

    if (decode_text(decode_member(b->doc, "artifact"), "artifact", SESSION_NAME_MAX, &b->artifact,
                    &n, err) < 0 ||
        decode_text(decode_member(b->doc, "filename"), "filename", MULTIPART_FILENAME_MAX, &name,
                    &n, err) < 0)
        return -1;
    if (b->artifact == NULL)
        return err_slug(err, ERR_INVALID, "missing_member", "the member \"artifact\" is needed");
    if (name != NULL && set_filename(b, name, n, err) < 0)
        return -1;
    if (json_type(version) != JSON_ABSENT && !json_i64(version, 1, INT64_MAX, &b->version))
        return decode_bad_value(err, "version", "a whole number from 1 on");
    return 0;
}

int
decode_extract_json(const char *p, size_t n, const struct extract_limits *l,
                    struct extract_body *ret, struct err *err)
{
    static const char *const known[] = {"artifact",        "version",         "session_id",
                                        "conversation_id", "workflow_run_id", "filename",
                                        "schema",          "timeout",         NULL};
    struct open_request *scope = &ret->scope;
    char name[SESSION_NAME_MAX + 1];
    json_val schema;

    init(ret, l);
    if (n > 0 && (json_parse(p, n, SCHEMA_DEPTH, 0, &ret->doc, err) < 0 ||
                  decode_known(json_root(ret->doc), "the body", known, err) < 0))
        return -1;
    schema = decode_member(ret->doc, "schema");
    if (document(ret, err) < 0 || decode_binding(ret->doc, scope, err) < 0 ||
        set_timeout(ret, decode_member(ret->doc, "timeout"), l, err) < 0)
        return -1;
    if (json_type(schema) != JSON_ABSENT && set_schema(ret, schema, err) < 0)
        return -1;
    return scope->binding == BIND_NONE
               ? 0
               : session_name_of(scope->binding, scope->value, scope->value_len, name, err);
}

void
extract_body_done(struct extract_body *b)
{
    json_free(b->doc);
    buf_done(&b->schema);
}
