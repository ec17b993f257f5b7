/* SPDX-License-Identifier: MIT */
#include "api/render.h"

#include <string.h>

#include "base/digest.h"
#include "base/utf8.h"

void
render_session(const struct api_options *o, struct json_writer *w, const char *name,
               const struct session *s)
{
    jw_object(w, name);
    jw_string(w, "session_id", s->name);
    if (s->binding == BIND_CONVERSATION)
        jw_string(w, "conversation_id", s->binding_value);
    if (s->binding == BIND_WORKFLOW_RUN)
        jw_string(w, "workflow_run_id", s->binding_value);
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
    jw_string(w, "isolation", o->isolation != NULL ? o->isolation : "none");
    jw_string(w, "egress", o->egress != NULL ? o->egress : "open");
    jw_bool(w, "stateful", true);
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
    _cleanup_buf_ struct buf base64 = BUF_INIT(8192);

    file_etag(f, now_wall_ms, etag);
    jw_object(w, name);
    if (utf8_valid(path, n)) {
        jw_string_n(w, "path", path, n);
    } else if (base64_encode(&base64, path, n) == 0) {
        jw_string_n(w, "path_base64", base64.data, base64.len);
    }
    jw_string(w, "type", types[f->type]);
    jw_i64(w, "size", f->size);
    jw_time(w, "mtime", f->mtime_ns / 1000000);
    jw_string(w, "etag", etag);
    jw_end_object(w);
}

void
render_key(struct json_writer *w, const struct key_info *k, const char *token)
{
    jw_object(w, NULL);
    jw_string(w, "key_id", k->key_id);
    if (token != NULL)
        jw_string(w, "token", token);
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
    jw_end_object(w);
}
