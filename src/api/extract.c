/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/decode_extract.h"
#include "api/extract_py.h"
#include "base/log.h"
#include "base/num.h"
#include "json/writer.h"

/*
 * POST /v1/extract: a document, by Docling, in the kernel of a session that is there for it alone.
 * extract.py finds it as document.FORMAT and the schema as schema.json, and leaves extracted.json.
 */
#define RESULT_PATH "extracted.json"
#define RESULT_DEPTH 60 /* Docling's structure has a fifth of it */
#define CALL_MAX 128    /* bytes of the line that calls the function */
#define HEAD_MAX 16384  /* what the answer has besides, names escaped */

struct extraction {
    struct api_call *call;
    struct extract_body body;
    const char *format;
    char artifact_id[ID_UUID_SIZE]; /* "" the body's own bytes */
    struct buf code, made;
};

static int
read_request(struct extraction *e, struct buf *text, struct err *err)
{
    const struct api_options *o = &e->call->api->o;
    const struct extract_limits l = {o->max_input_bytes, o->exec_timeout_ms,
                                     o->max_exec_timeout_ms};
    const char *type = http_header(e->call->x, "content-type");

    if (multipart_is_form(type))
        return http_read_body(e->call->x, text->max, text, err) < 0
                   ? -1
                   : decode_extract_form(type, buf_str(text), text->len, &l, &e->body, err);
    if (api_read_json(e->call, EXTRACT_SCHEMA_MAX + LIMIT_JSON_BODY, text, err) < 0) {
        if (err->slug != NULL && strcmp(err->slug, "unsupported_media_type") == 0)
            return err_slug(err, ERR_INVALID, "unsupported_media_type",
                            "the body must be multipart/form-data or application/json");
        return -1;
    }
    return decode_extract_json(buf_str(text), text->len, &l, &e->body, err);
}

/* The artifact that is meant: its id, its version and what its name says. */
static int
find_artifact(struct extraction *e, struct err *err)
{
    struct manager *m = e->call->api->o.manager;
    const struct caller *c = &e->call->caller;
    struct extract_body *b = &e->body;
    const char *which = b->artifact, *base;
    char name[SESSION_NAME_MAX + 1];
    struct artifact a;
    int64_t ref;

    if (b->scope.binding != BIND_NONE) {
        if (which[0] != 'A' || !num_i64(which + 1, strlen(which + 1), 1, INT64_MAX, &ref))
            return err_slug(err, ERR_INVALID, "bad_value",
                            "\"artifact\" must be a short reference (\"A1\") where a session is "
                            "named");
        if (session_name_of(b->scope.binding, b->scope.value, b->scope.value_len, name, err) < 0 ||
            manager_artifact_by_ref(m, c, name, ref, &a, err) < 0)
            return -1;
        memcpy(e->artifact_id, a.artifact_id, sizeof(e->artifact_id));
        which = e->artifact_id;
    }
    if (manager_artifact_get(m, c, which, b->version, &a, err) < 0)
        return -1;
    memcpy(e->artifact_id, a.artifact_id, sizeof(e->artifact_id));
    b->version = a.version;
    if (b->filename[0] == '\0') {
        base = strrchr(a.path, '/');
        base = base != NULL ? base + 1 : a.path;
        memcpy(b->filename, base, strlen(base) + 1); /* both hold a path's length */
    }
    return extract_size_check(a.size, e->call->api->o.max_input_bytes, err);
}

static int
run(struct extraction *e, struct exec_outcome *ret, bool *ret_gone, struct err *err)
{
    const struct api_options *o = &e->call->api->o;
    const struct extract_body *b = &e->body;
    char path[32];
    struct run_input inputs[2] = {
        {.path = path, .p = b->file, .n = b->file_len, .version = b->version},
        {.path = "schema.json", .path_len = 11, .p = buf_str(&b->schema), .n = b->schema.len}};
    struct once_request r = {.inputs = inputs,
                             .n_inputs = b->has_schema ? 2 : 1,
                             .max_input_bytes = o->max_input_bytes + (int64_t)b->schema.max,
                             .take_path = RESULT_PATH,
                             .take = &e->made};

    if (b->file == NULL)
        inputs[0].artifact = e->artifact_id;
    (void)snprintf(path, sizeof(path), "document.%s", e->format);
    inputs[0].path_len = strlen(path);
    (void)buf_append(&e->code, extract_py, extract_py_len);
    (void)buf_printf(&e->code, "husk_extract(\"%s\", %" PRId64 ", %s)\n", e->format,
                     o->max_output_bytes, b->has_schema ? "True" : "False");
    if (buf_check(&e->code, "the code", err) < 0)
        return -1;
    r.exec.code = buf_str(&e->code);
    r.exec.code_len = e->code.len;
    r.exec.timeout_ms = b->timeout_ms;
    return api_run_once(e->call, &r, ret, ret_gone, err);
}

/* A run that did not come to its end. */
static int
ended_early(const struct extraction *e, const struct exec_outcome *o, struct err *err)
{
    const struct execution *row = &o->row;

    if (row->reason == REASON_TIMEOUT)
        return err_slug(err, ERR_TIMEOUT, "timeout",
                        "the document was not extracted within %" PRId64
                        " ms (timeout, at most SANDBOX_MAX_EXEC_TIMEOUT); execution %s",
                        e->body.timeout_ms, row->eid);
    return err_slug(err, ERR_UNAVAILABLE, "extraction_failed",
                    "the run ended before the document was extracted (%s%s%s), execution %s",
                    exec_reason_name(row->reason), row->error_name[0] != '\0' ? ": " : "",
                    row->error_name, row->eid);
}

/* What the runner says went wrong, as one of our own errors. */
static int
refused(const struct exec_outcome *o, const char *slug, const char *detail, struct err *err)
{
    static const struct {
        const char *slug;
        enum err_code code;
    } known[] = {{"document_unreadable", ERR_INVALID},
                 {"bad_schema", ERR_INVALID},
                 {"schema_mismatch", ERR_INVALID},
                 {"extraction_too_large", ERR_LIMIT}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(slug, known[i].slug) == 0)
            return err_slug(err, known[i].code, known[i].slug, "%s", detail);
    if (strcmp(slug, "extraction_unavailable") == 0)
        return err_slug(err, ERR_UNAVAILABLE, "extraction_unavailable",
                        "this runner lacks Docling (%s): build it with INSTALL_DOCLING=true",
                        detail);
    return err_slug(err, ERR_UNAVAILABLE, "extraction_failed",
                    "the runner answered with something unexpected, execution %s", o->row.eid);
}

/* The runner's result with what the request says, as the answer. */
static int
render(const struct extraction *e, const struct exec_outcome *o, struct buf *out, struct err *err)
{
    static const struct {
        const char *name;
        enum json_type type;
    } members[] = {{"text", JSON_STRING},
                   {"markdown", JSON_STRING},
                   {"tables", JSON_ARRAY},
                   {"structure", JSON_OBJECT},
                   {"warnings", JSON_ARRAY}};
    struct json_doc *doc = NULL;
    struct json_writer w;
    struct err bad = ERR_INIT;
    const char *error, *detail;
    int rc = 0;

    if (json_parse(buf_str(&e->made), e->made.len, RESULT_DEPTH,
                   JSON_LAX_NUMBERS | JSON_LAX_SURROGATES, &doc, &bad) < 0)
        return refused(o, "", "", err);
    error = json_cstring(json_member(json_root(doc), "error"));
    detail = json_cstring(json_member(json_root(doc), "detail"));
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "document");
    jw_string(&w, "filename", e->body.filename);
    jw_string(&w, "format", e->format);
    jw_end_object(&w);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        json_val v = json_member(json_root(doc), members[i].name);

        if (json_type(v) != members[i].type && rc == 0)
            rc = refused(o, error != NULL ? error : "", detail != NULL ? detail : "", err);
        jw_value(&w, members[i].name, v);
    }
    jw_string(&w, "execution_id", o->row.eid);
    jw_end_object(&w);
    json_free(doc);
    return rc;
}

static void
answer(struct extraction *e, const struct exec_outcome *o)
{
    /* Of some characters the writer makes an escape of twice their bytes, of control ones none. */
    _cleanup_buf_ struct buf json = BUF_INIT(2 * e->made.len + HEAD_MAX);
    struct err err = ERR_INIT;
    int rc;

    log_set_execution(o->row.eid);
    rc = o->result.ok ? render(e, o, &json, &err) : ended_early(e, o, &err);
    if (rc < 0)
        api_problem(e->call, &err);
    else
        api_send_json(e->call, 200, &json);
}

void
handle_extract(struct api_call *c)
{
    const struct api_options *o = &c->api->o;
    _cleanup_buf_ struct buf text =
        BUF_INIT((size_t)limit_once_body(o->max_code_bytes, o->max_input_bytes));
    struct extraction e = {.call = c};
    struct exec_outcome outcome = {0};
    struct err err = ERR_INIT;
    bool gone = false;

    buf_init(&e.code, extract_py_len + CALL_MAX);
    buf_init(&e.made, (size_t)o->max_output_bytes + HEAD_MAX); /* of a refusal at least */
    if (read_request(&e, &text, &err) < 0 || (e.body.file == NULL && find_artifact(&e, &err) < 0) ||
        extract_format(e.body.filename, &e.format, &err) < 0 ||
        run(&e, &outcome, &gone, &err) < 0) {
        if (!gone)
            api_problem(c, &err);
    } else {
        if (!gone)
            answer(&e, &outcome);
        exec_outcome_done(&outcome);
    }
    extract_body_done(&e.body);
    buf_done(&e.code);
    buf_done(&e.made);
}
