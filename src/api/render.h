/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_RENDER_H
#define HUSK_API_RENDER_H

#include "api/api.h"
#include "base/buf.h"
#include "json/writer.h"
#include "manager/manager.h"
#include "model/execution.h"
#include "workspace/workspace.h"

/* What everybody is told of a session, into an object that the caller has begun. */
void render_session_members(struct json_writer *w, const struct session *s);
/* The API's objects as JSON (docs/openapi.json, components). name as in json/writer.h. */
void render_session(const struct api_options *o, struct json_writer *w, const char *name,
                    const struct session *s);
void render_execution(struct json_writer *w, const char *name, const struct execution *e);
void render_file(struct json_writer *w, const char *name, const char *path, size_t n,
                 const struct file_info *f, int64_t now_wall_ms);
void render_artifact(struct json_writer *w, const char *name, const struct artifact *a);
/* What a run of POST /v1/exec put in, and artifacts and artifacts_left_out of any run. */
void render_kept(struct json_writer *w, const struct execution_result *r);
/* A key's members, into an object that the caller has begun; its token is shown once, by him. */
void render_key_members(struct json_writer *w, const struct key_info *k);
/* Whole keys, into an array that the caller has begun. */
void render_keys(struct json_writer *w, const struct key_info *keys, size_t n);

/* The execution result as one whole object.  s NULL: the session is gone and is named only.  full
 * false leaves stdout and stderr out: a stream has sent them.  Bounded by out's maximum: what does
 * not fit is cut (text first, then rich output) and marked truncated. 0, or -1 when not even that
 * goes. */
int render_result(const struct api_options *o, const struct execution *row,
                  const struct execution_result *r, const struct session *s, bool full,
                  struct buf *out);
/* The largest such object under these options, for out's maximum. */
size_t render_result_max(const struct api_options *o);

/* What is left to say of a run whose output is not kept: its row as a result. Free with
 * execution_result_done. */
void result_of_row(const struct execution *row, struct execution_result *ret);

#endif
