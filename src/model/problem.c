/* SPDX-License-Identifier: MIT */
#include "model/problem.h"

#include <string.h>

/* In the order of their statuses. A slug is a promise to clients: it may be added, never renamed.
 */
static const struct problem table[] = {
    {"invalid_request", 400, "Invalid request",
     "Something in the request is wrong; the detail says what. Do not repeat it unchanged."},
    {"invalid_json", 400, "Invalid JSON",
     "The body is not one strict JSON document in UTF-8; the detail gives the offset."},
    {"unknown_member", 400, "Unknown member",
     "The body holds a member this call does not know; the detail names it."},
    {"unknown_parameter", 400, "Unknown query parameter",
     "The query holds a parameter this call does not know; the detail names it. Keys never go into "
     "a URL."},
    {"missing_member", 400, "Missing member", "A member this call needs is absent."},
    {"wrong_type", 400, "Wrong type", "A member holds a value of the wrong JSON type."},
    {"bad_value", 400, "Bad value",
     "A value is out of its range; the detail names it and the range."},
    {"unknown_backend", 400, "Unknown backend", "No backend of this name is built in or set up."},
    {"bad_session_id", 400, "Bad session id",
     "A session_id is 1 to 128 characters of A-Z, a-z, 0-9, _ and -, and does not begin with c-, "
     "w-, ch- or wh-."},
    {"bad_path", 400, "Bad path",
     "A file's path is relative, without empty, . and .. components, control characters or names "
     "beginning with .husk-."},
    {"bad_cursor", 400, "Bad cursor", "A cursor is taken unchanged from next_cursor of a list."},
    {"bad_request_target", 400, "Bad request target",
     "The path or query is badly percent-encoded, repeats a parameter or holds one too many."},
    {"bad_header", 400, "Bad header",
     "A header's value cannot be understood; the detail names it."},
    {"bad_multipart", 400, "Bad multipart body",
     "The body is no multipart/form-data that can be read; the detail says why."},
    {"bad_tls", 400, "TLS needed",
     "The request came without TLS to a port that needs it, or with a client certificate that is "
     "not "
     "accepted."},
    {"body_incomplete", 400, "Body incomplete",
     "The connection ended before the announced length was read. Nothing was changed."},
    {"digest_mismatch", 400, "Digest mismatch",
     "The bytes received do not have the digest announced. Nothing was changed; send it again."},
    {"outside_workspace", 400, "Outside the workspace",
     "The path leads out of the session's workspace, by a link for instance."},
    {"not_a_file", 400, "Not a regular file",
     "The path names a folder, a pipe or something else that has no bytes to send."},
    {"unauthorized", 401, "Unauthorized",
     "No valid key was given. Send Authorization: Bearer with a key of this service."},
    {"key_expired", 401, "Key expired", "The key's time is over. Ask the operator for another."},
    {"key_revoked", 401, "Key revoked", "The key was revoked. Ask the operator for another."},
    {"forbidden", 403, "Forbidden", "The key is valid, but its scopes do not allow this call."},
    {"file_unreadable", 403, "File unreadable",
     "The session's code has made the file unreadable to the service."},
    {"not_found", 404, "Not found", "There is no such resource."},
    {"session_not_found", 404, "Session not found",
     "There is no such session, it has expired, or it is another owner's."},
    {"execution_not_found", 404, "Execution not found",
     "There is no such execution, its history is over, or it is another owner's."},
    {"file_not_found", 404, "File not found", "The workspace holds no such file."},
    {"workspace_gone", 404, "Workspace gone", "The session's files are not there any more."},
    {"artifact_not_found", 404, "Artifact not found",
     "There is no such artifact or version, or it is another owner's."},
    {"key_not_found", 404, "Key not found", "There is no key of this id."},
    {"method_not_allowed", 405, "Method not allowed",
     "The resource is there, but not for this method; Allow names those it takes."},
    {"conflict", 409, "Conflict", "The state of the resource forbids this now."},
    {"session_busy", 409, "Session busy",
     "An execution runs and no further one may wait; the detail says which and since when. Try "
     "again when it has ended, or interrupt it."},
    {"session_closing", 409, "Session closing",
     "The session is being closed. Open it again when it is gone."},
    {"duplicate_request", 409, "Duplicate request",
     "This very request arrived a second time and was not run again. Look the execution up by its "
     "request id."},
    {"runtime_gone", 409, "Runtime gone",
     "The kernel ended while the call was made. The next call gets a new one."},
    {"file_busy", 409, "File busy", "Another process holds the file. Try again later."},
    {"folder_not_empty", 409, "Folder not empty",
     "A folder is removed with its content only when recursive=true is given."},
    {"not_a_folder", 409, "Not a folder",
     "A component of the path is there and is no folder, or the target is a folder."},
    {"events_gone", 410, "Events gone",
     "The events of this execution are not kept any longer; its row may still be read."},
    {"length_required", 411, "Length required", "A body is needed, with a Content-Length."},
    {"precondition_failed", 412, "Precondition failed",
     "If-Match or If-None-Match does not hold. Fetch the present state first."},
    {"limit_exceeded", 413, "Limit exceeded", "The detail names the limit and its value."},
    {"body_too_large", 413, "Body too large", "The body is larger than this call takes."},
    {"file_too_large", 413, "File too large",
     "The file is larger than SANDBOX_MAX_FILE_BYTES allows."},
    {"code_too_large", 413, "Code too large",
     "The code is longer than SANDBOX_MAX_CODE_BYTES allows. Upload it as a file and run that."},
    {"inputs_too_large", 413, "Inputs too large",
     "The inputs together are larger than SANDBOX_MAX_INPUT_BYTES allows. Put them into a session "
     "as files first."},
    {"extraction_too_large", 413, "Extraction too large",
     "What the document holds is larger as JSON than SANDBOX_MAX_OUTPUT_BYTES allows. Split the "
     "document."},
    {"uri_too_long", 414, "URI too long", "The request's target is too long."},
    {"unsupported_media_type", 415, "Unsupported media type",
     "The body's Content-Type must be application/json here."},
    {"unsupported_document", 415, "Unsupported document",
     "The document's name does not end like a format that can be extracted; the detail names them "
     "all."},
    {"range_not_satisfiable", 416, "Range not satisfiable",
     "The range lies beyond the end of the file; Content-Range gives its size."},
    {"idempotency_mismatch", 422, "Idempotency key used before",
     "The same Idempotency-Key came with another body. Use a fresh key for another request."},
    {"document_unreadable", 422, "Document unreadable",
     "The document is damaged, is not of the format its name says, or is a scan without text; the "
     "detail says which."},
    {"bad_schema", 422, "Bad schema",
     "The schema is no valid JSON Schema, or refers to one that is not within it."},
    {"schema_mismatch", 422, "Schema mismatch",
     "What was extracted does not match the schema; the detail names the first places."},
    {"rate_limited", 429, "Too many requests", "Slow down; Retry-After says how long."},
    {"too_many_connections", 429, "Too many requests at once",
     "This client has too many requests under way. Wait for some to end."},
    {"headers_too_large", 431, "Headers too large", "The request's headers are too large."},
    {"client_closed", 499, "Client closed the request",
     "The client went away before the answer; only logs show it."},
    {"internal", 500, "Internal error",
     "A fault of the service or its machine. The request id leads to the log."},
    {"database_error", 500, "Database error",
     "The database failed. The request id leads to the log."},
    {"not_implemented", 501, "Not implemented", "This part is not built or not set up here."},
    {"extraction_unavailable", 501, "Extraction unavailable",
     "The runner lacks Docling. The operator gets it by building the runner with "
     "INSTALL_DOCLING=true."},
    {"gateway_error", 502, "Gateway error",
     "The kernel gateway answered with something unexpected. Nothing ran."},
    {"start_failed", 502, "Kernel did not start",
     "The gateway could not start a kernel. Nothing is left behind; try again later."},
    {"extraction_failed", 502, "Extraction failed",
     "The runner ended before the document was extracted, for want of memory for instance; the "
     "detail says how."},
    {"transfer_failed", 502, "Transfer failed",
     "The session's kernel did not move the file whole, or something in the session has changed "
     "what moves it. Nothing was taken for the file; try again, or restart the session."},
    {"worker_lost", 502, "Worker lost",
     "The worker that served the request is gone, and what it did is not known. Look the execution "
     "up by its request id before repeating it."},
    {"unavailable", 503, "Unavailable", "Something the service needs is away. Try again later."},
    {"session_limit", 503, "Too many sessions",
     "All sessions of the service are in use. Retry-After says when to try again."},
    {"owner_session_limit", 503, "Too many sessions of this owner",
     "All your sessions are in use. Close one, or try again later."},
    {"runtime_quarantined", 503, "Runtime quarantined",
     "The end of the session's earlier kernel is not confirmed yet. Try again later."},
    {"gateway_unavailable", 503, "Gateway unavailable",
     "The kernel gateway cannot be reached. Nothing ran; try again later."},
    {"isolation_unavailable", 503, "Isolation unavailable",
     "Sessions cannot be kept apart as the settings demand, so that none is opened; the detail "
     "says "
     "what is missing."},
    {"keeper_unavailable", 503, "Keeper unavailable",
     "The program that keeps sandboxes and their files cannot be reached. Nothing ran; try again "
     "later."},
    {"database_busy", 503, "Database busy", "The database is locked. Try again at once."},
    {"database_version", 503, "Database of another version",
     "The database must be migrated: huskctl db migrate."},
    {"no_worker", 503, "No worker free", "All workers are busy or restarting. Try again soon."},
    {"timeout", 504, "Timeout", "The time for this request is over."},
    {"gateway_timeout", 504, "Gateway timeout",
     "The worker did not answer in time, and what it did is not known. Look the execution up by "
     "its request id before repeating it."},
    {"disk_full", 507, "Disk full",
     "There is no space left for the session's files, or for the service's own. Nothing was done; "
     "try again "
     "when there is."},
};

const struct problem *
problem_table(size_t *ret_n)
{
    *ret_n = sizeof(table) / sizeof(table[0]);
    return table;
}

const struct problem *
problem_find(const char *slug)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].slug, slug) == 0)
            return &table[i];
    return NULL;
}

static const char *
slug_of_code(enum err_code code)
{
    switch (code) {
    case ERR_INVALID:
        return "invalid_request";
    case ERR_DENIED:
        return "forbidden";
    case ERR_NOT_FOUND:
        return "not_found";
    case ERR_CONFLICT:
        return "conflict";
    case ERR_LIMIT:
        return "limit_exceeded";
    case ERR_TIMEOUT:
        return "timeout";
    case ERR_ABORTED:
        return "client_closed";
    case ERR_UNAVAILABLE:
    case ERR_UNCERTAIN:
        return "unavailable";
    case ERR_NONE:
    case ERR_NOMEM:
    case ERR_INTERNAL:
        break;
    }
    return "internal";
}

const struct problem *
problem_of(const struct err *err)
{
    const struct problem *p = err->slug ? problem_find(err->slug) : NULL;
    return p ? p : problem_find(slug_of_code(err->code));
}
