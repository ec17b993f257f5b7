/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_DECODE_H
#define HUSK_API_DECODE_H

#include "base/buf.h"
#include "base/err.h"
#include "json/json.h"
#include "manager/manager.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Request bodies, strictly: an unknown member, a wrong type or a value out of its set is
 * ERR_INVALID ("unknown_member", "wrong_type", "bad_value", "missing_member") and the message names
 * it.  An
 * empty text is the empty object.  What is filled in is borrowed from the body's document: call
 * the _done function when through, also after a failure.
 */
struct open_body {
    struct json_doc *doc;
    struct buf labels;
    struct open_request req;
};
int decode_open(const char *p, size_t n, struct open_body *ret, struct err *err);
void open_body_done(struct open_body *b);

struct patch_body {
    struct json_doc *doc;
    struct buf labels;
    bool has_ttl, has_labels;
    int64_t ttl_ms; /* 0: the default */
};
int decode_patch(const char *p, size_t n, struct patch_body *ret, struct err *err);
void patch_body_done(struct patch_body *b);

struct exec_limits {
    int64_t max_code_bytes, exec_timeout_ms, max_exec_timeout_ms;
};
struct exec_body {
    struct json_doc *doc;
    struct execution_request req; /* code, timeout_ms and on_disconnect are filled */
};
/* Also ERR_LIMIT "code_too_large". The timeout is clamped here. */
int decode_exec(const char *p, size_t n, const struct exec_limits *l, struct exec_body *ret,
                struct err *err);
void exec_body_done(struct exec_body *b);

/* POST /v1/exec. */
#define ONCE_INPUTS_MAX 256
#define ONCE_OUTPUTS_MAX 64
struct once_limits {
    struct exec_limits exec;
    int64_t max_input_bytes;
};
struct once_body {
    struct json_doc *doc;
    struct once_request req; /* but for the headers' part of it */
    struct capture_request capture;
    struct buf *contents; /* of the inputs, decoded */
};
/* As decode_exec and decode_open; also bad_path, and ERR_LIMIT "inputs_too_large" for what is given
 * in the body itself. */
int decode_once(const char *p, size_t n, const struct once_limits *l, struct once_body *ret,
                struct err *err);
void once_body_done(struct once_body *b);

struct key_body {
    char owner[OWNER_MAX + 1];
    unsigned scopes; /* enum key_scope */
    int64_t expires_at;
    char note[129];
};
int decode_key(const char *p, size_t n, struct key_body *ret, struct err *err);

/* A body of a call that takes no members: nothing, or {}. */
int decode_empty(const char *p, size_t n, struct err *err);

/* "2026-01-02T03:04:05[.678]Z" to wall-clock milliseconds: 1 valid, 0 not. */
int decode_time(const char *s, size_t n, int64_t *ret);

#endif
