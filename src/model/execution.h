/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MODEL_EXECUTION_H
#define HUSK_MODEL_EXECUTION_H

#include "base/buf.h"
#include "base/id.h"
#include "model/artifact.h"
#include "model/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_ID_MAX 64
#define IDEMPOTENCY_KEY_MAX 255

enum exec_reason {
    REASON_NONE, /* still running */
    REASON_COMPLETED,
    REASON_EXCEPTION,
    REASON_TIMEOUT,
    REASON_INTERRUPTED,
    REASON_OOM,
    REASON_PIDS,
    REASON_DISK_FULL,
    REASON_KERNEL_DIED,
    REASON_OUTPUT_LIMIT,
    REASON_GATEWAY_LOST,
    REASON_CLIENT_GONE,
    REASON_ABORTED
};
#define EXEC_REASONS 13

const char *exec_reason_name(enum exec_reason r); /* NULL for REASON_NONE */
int exec_reason_parse(const char *s, enum exec_reason *ret);

enum on_disconnect { DISCONNECT_INTERRUPT, DISCONNECT_CONTINUE };

/* A file that is put into the workspace before a run: bytes, or a kept file by its id or, within
 * this session's name, by its short reference ("A1"); its latest version or a certain one. */
struct run_input {
    const char *path; /* checked */
    size_t path_len;
    const void *p; /* NULL: artifact */
    size_t n;
    const char *artifact;
    int64_t version; /* of the artifact; 0 the latest. Filled too */
    /* filled before it is put there */
    int fd; /* of the artifact's content; else -1 */
    int64_t size;
    char sha256[SHA256_HEX_SIZE];
};

/* Which files of the workspace are kept after a run. */
struct capture_request {
    bool changed;         /* all that the run made or changed, as the file system shows it */
    const char **outputs; /* patterns as in lists; what they match is kept, changed or not */
    size_t n_outputs;
};

/* What is to run. Everything is borrowed for the length of the call. */
struct execution_request {
    const char *code;
    size_t code_len;
    int64_t timeout_ms; /* already clamped */
    enum on_disconnect on_disconnect;
    const char *request_id;        /* unique: nginx's, never the client's */
    const char *client_request_id; /* or NULL */
    const char *idempotency_key;   /* or NULL */
    /* of a run that opens its session by itself */
    bool once;
    bool closes; /* … and closes it: the answer only names it */
    const struct run_input *inputs;
    size_t n_inputs;
    const struct capture_request *capture; /* NULL: nothing is kept */
    const char *more;                      /* what else tells it from a request of the same code */
    size_t more_len;
};

/*
 * One thing that happened during a run, in the order it happened.  Text is valid UTF-8, json is
 * valid JSON; both are borrowed for the length of the call they are passed to.
 */
enum exec_event_type {
    EVENT_EXECUTION,      /* json: {"execution_id", "session_id", "started_at"} */
    EVENT_STDOUT,         /* text */
    EVENT_STDERR,         /* text */
    EVENT_DISPLAY_DATA,   /* json: {"data", "metadata", "transient", "update"} */
    EVENT_EXECUTE_RESULT, /* json: {"data", "metadata", "execution_count"} */
    EVENT_CLEAR_OUTPUT,   /* json: {"wait"} */
    EVENT_ERROR,          /* json: {"error_name", "error_value", "traceback"} */
    EVENT_GAP,            /* json: {"dropped_bytes"}: the spool's bound was reached */
    EVENT_RESULT          /* json: the execution result without the text already sent */
};

const char *exec_event_name(enum exec_event_type t); /* the SSE event's name */

struct exec_event {
    enum exec_event_type type;
    const char *p; /* text or json */
    size_t n;
};

/* A display bundle: `data` and `metadata` are JSON object texts, heap. */
struct bundle {
    char *data;
    size_t data_len;
    char *metadata;
    size_t metadata_len;
};

/* A picture, taken out of the bundle it belongs to. */
struct plot {
    char format[8];       /* "png", "jpeg", "svg", "gif", "webp" */
    char *content_base64; /* heap; SVG text is encoded too */
    size_t content_len;
    bool of_display; /* of display_data, else of results */
    size_t index;
};

/* What came out, bounded while it was collected. All pointers heap; execution_result_done frees. */
struct execution_result {
    enum exec_reason reason;
    bool ok; /* status ok: the reply said ok and reason is completed */
    int exit_code;
    char *out;
    size_t out_len;
    char *err;
    size_t err_len;
    int64_t bytes_stdout, bytes_stderr, bytes_rich; /* true sizes, before any cut */
    int64_t execution_count;                        /* -1 unknown */
    char *error_name, *error_value;                 /* NULL if none */
    char **traceback;
    size_t n_traceback;
    struct bundle *results;
    size_t n_results;
    struct bundle *displays;
    size_t n_displays;
    struct plot *plots;
    size_t n_plots;
    bool truncated;
    bool runtime_invalidated; /* the kernel is gone or must go */
    bool incomplete;          /* a message that should have come did not */
    bool once;                /* below: what a run that opened its session by itself has besides */
    const struct run_input *inputs; /* the request's */
    size_t n_inputs;
    struct artifact_report artifacts;
};

void execution_result_init(struct execution_result *r);
void execution_result_done(struct execution_result *r);

/* An execution's row. */
struct execution {
    char eid[ID_UUID_SIZE];
    int64_t sid;
    char session_name[SESSION_NAME_MAX + 1];
    char owner[OWNER_MAX + 1];
    char request_id[REQUEST_ID_MAX + 1];
    char client_request_id[REQUEST_ID_MAX + 1];
    int64_t created_at, started_at, ended_at; /* wall ms; 0 not yet */
    int64_t duration_ms, waited_ms;
    bool ok;
    enum exec_reason reason; /* REASON_NONE while running */
    int64_t bytes_stdout, bytes_stderr, bytes_rich;
    char error_name[129];
    bool truncated;
    bool runtime_invalidated;
    char code_sha256[65];
    int64_t generation;
};

#endif
