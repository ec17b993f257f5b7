/* SPDX-License-Identifier: MIT */
#include "api/render.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/utf8.h"
#include "http/disposition.h"

void
render_session_members(struct json_writer *w, const struct session *s)
{
    jw_string(w, "session_id", s->name);
    if (s->binding == BIND_CONVERSATION || s->binding == BIND_WORKFLOW_RUN)
        jw_string(w, session_binding_member(s->binding), s->binding_value);
    jw_string(w, "owner", s->owner);
    jw_string(w, "state", session_state_name(s->state));
    jw_string(w, "backend", s->backend);
    jw_double(w, "ttl", (double)s->ttl_ms / 1000);
    jw_time(w, "created_at", s->created_at);
    jw_time(w, "last_work_at", s->last_work_at);
    jw_time(w, "expires_at", s->expires_at);
    if (s->busy_execution[0] != '\0') {
        jw_object(w, "busy");
        jw_string(w, "execution_id", s->busy_execution);
        jw_time(w, "since", s->busy_since);
        jw_end_object(w);
    }
    if (s->labels != NULL && s->labels[0] != '\0')
        jw_raw(w, "labels", s->labels, strlen(s->labels));
    else
        jw_raw(w, "labels", "{}", 2);
}

void
render_session(const struct api_options *o, struct json_writer *w, const char *name,
               const struct session *s)
{
    const struct manager_isolation *i =
        o->isolation ? o->isolation : manager_isolation_of(o->manager, s->backend);

    jw_object(w, name);
    render_session_members(w, s);
    jw_string(w, "isolation", i->tier);
    jw_string(w, "egress", i->egress);
    jw_bool(w, "stateful", s->stateful);
    jw_bool(w, "state_lost", s->state_lost);
    jw_bool(w, "files_kept", s->files_kept);
    jw_i64(w, "generation", s->generation);
    jw_end_object(w);
}

static void
render_bytes(struct json_writer *w, int64_t out, int64_t err, int64_t rich)
{
    jw_object(w, "bytes");
    jw_i64(w, "stdout", out);
    jw_i64(w, "stderr", err);
    jw_i64(w, "rich", rich);
    jw_end_object(w);
}

void
render_execution(struct json_writer *w, const char *name, const struct execution *e)
{
    bool running = e->reason == REASON_NONE;

    jw_object(w, name);
    jw_string(w, "execution_id", e->eid);
    jw_string(w, "session_id", e->session_name);
    jw_string(w, "request_id", e->request_id);
    if (e->client_request_id[0] != '\0')
        jw_string(w, "client_request_id", e->client_request_id);
    jw_time(w, "created_at", e->created_at);
    jw_time(w, "started_at", e->started_at);
    jw_time(w, "ended_at", e->ended_at);
    jw_string(w, "status", running ? "running" : e->ok ? "ok" : "error");
    jw_string(w, "reason", exec_reason_name(e->reason));
    jw_i64(w, "duration_ms", e->duration_ms);
    jw_i64(w, "waited_ms", e->waited_ms);
    render_bytes(w, e->bytes_stdout, e->bytes_stderr, e->bytes_rich);
    if (e->error_name[0] != '\0')
        jw_string(w, "error_name", e->error_name);
    jw_bool(w, "truncated", e->truncated);
    jw_string(w, "code_sha256", e->code_sha256);
    jw_end_object(w);
}

/* A path as text, or where it is none in base64. */
static void
render_path(struct json_writer *w, const char *path, size_t n)
{
    _cleanup_buf_ struct buf base64 = BUF_INIT(8192);

    if (utf8_valid(path, n))
        jw_string_n(w, "path", path, n);
    else if (base64_encode(&base64, path, n) == 0)
        jw_string_n(w, "path_base64", base64.data, base64.len);
}

void
render_file(struct json_writer *w, const char *name, const char *path, size_t n,
            const struct file_info *f, int64_t now_wall_ms)
{
    static const char *const types[] = {
        [FILE_REGULAR] = "file",
        [FILE_DIRECTORY] = "directory",
        [FILE_SYMLINK] = "symlink",
        [FILE_OTHER] = "other",
    };
    char etag[FILE_ETAG_SIZE];

    file_etag(f, now_wall_ms, etag);
    jw_object(w, name);
    render_path(w, path, n);
    jw_string(w, "type", types[f->type]);
    jw_i64(w, "size", f->size);
    jw_time(w, "mtime", f->mtime_ns / 1000000);
    jw_string(w, "etag", etag);
    jw_end_object(w);
}

void
render_artifact(struct json_writer *w, const char *name, const struct artifact *a)
{
    size_t n = strlen(a->path);
    const char *slash = strrchr(a->path, '/');
    const char *file = slash != NULL ? slash + 1 : a->path;
    char ref[24];

    (void)snprintf(ref, sizeof(ref), "A%" PRId64, a->ref);
    jw_object(w, name);
    jw_string(w, "artifact_id", a->artifact_id);
    jw_string(w, "ref", ref);
    jw_i64(w, "version", a->version);
    render_path(w, a->path, n);
    jw_i64(w, "size", a->size);
    jw_string(w, "mime_type", http_media_type(file, strlen(file)));
    jw_string(w, "sha256", a->sha256);
    jw_time(w, "created_at", a->created_at);
    jw_string(w, "execution_id", a->eid);
    jw_string(w, "session_id", a->session_name);
    jw_end_object(w);
}

static void
render_inputs(struct json_writer *w, const struct run_input *in, size_t n)
{
    jw_array(w, "inputs_loaded");
    for (size_t i = 0; i < n; i++) {
        jw_object(w, NULL);
        render_path(w, in[i].path, in[i].path_len);
        jw_i64(w, "size", in[i].size);
        jw_string(w, "sha256", in[i].sha256);
        if (in[i].artifact != NULL) {
            jw_string(w, "artifact", in[i].artifact);
            jw_i64(w, "version", in[i].version);
        }
        jw_end_object(w);
    }
    jw_end_array(w);
}

void
render_kept(struct json_writer *w, const struct execution_result *r)
{
    const struct artifact_report *a = &r->artifacts;

    if (r->once)
        render_inputs(w, r->inputs, r->n_inputs);
    jw_array(w, "artifacts");
    for (size_t i = 0; i < a->n_kept; i++)
        render_artifact(w, NULL, &a->kept[i]);
    jw_end_array(w);
    if (!r->once)
        return;
    jw_object(w, "artifacts_left_out");
    jw_i64(w, "count", a->left_total);
    jw_array(w, "files");
    for (size_t i = 0; i < a->n_left; i++) {
        jw_object(w, NULL);
        if (a->left[i].path[0] != '\0')
            render_path(w, a->left[i].path, strlen(a->left[i].path));
        jw_string(w, "reason", left_out_name(a->left[i].why));
        jw_end_object(w);
    }
    jw_end_array(w);
    jw_end_object(w);
}

void
render_key_members(struct json_writer *w, const struct key_info *k)
{
    jw_string(w, "key_id", k->key_id);
    jw_string(w, "owner", k->owner);
    jw_array(w, "scopes");
    for (int i = 0; i < KEY_SCOPES; i++) {
        const char *scope;

        if (k->scopes & key_scope_at(i, &scope))
            jw_string(w, NULL, scope);
    }
    jw_end_array(w);
    jw_string(w, "note", k->note);
    jw_time(w, "created_at", k->created_at);
    jw_time(w, "expires_at", k->expires_at);
    jw_time(w, "revoked_at", k->revoked_at);
    jw_time(w, "last_used_at", k->last_used_at);
}

void
render_keys(struct json_writer *w, const struct key_info *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        jw_object(w, NULL);
        render_key_members(w, &keys[i]);
        jw_end_object(w);
    }
}
