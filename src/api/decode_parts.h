/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_DECODE_PARTS_H
#define HUSK_API_DECODE_PARTS_H

#include "api/decode.h"

/* What the decoders of bodies share. */

/* Fills err and returns -1. */
int decode_wrong_type(struct err *err, const char *name, const char *must);
int decode_bad_value(struct err *err, const char *name, const char *must);

/* Parses an object that has no members but those of the NULL-terminated list. */
int decode_object(const char *p, size_t n, const char *const *known, struct json_doc **ret,
                  struct err *err);
/* The same for an object that is parsed already; `what` names it. */
int decode_known(json_val object, const char *what, const char *const *known, struct err *err);
/* The member, with null taken for absent. */
json_val decode_member(const struct json_doc *doc, const char *name);
/* Seconds as any finite number: milliseconds, 0 for what is not above 0. */
int decode_seconds(json_val v, const char *name, int64_t *ret_ms, struct err *err);
/* A string without NUL of at most max bytes; *ret NULL if absent. */
int decode_text(json_val v, const char *name, size_t max, const char **ret, size_t *ret_n,
                struct err *err);
/* session_id, conversation_id or workflow_run_id. */
int decode_binding(const struct json_doc *doc, struct open_request *r, struct err *err);
/* code, timeout and on_disconnect. */
int decode_run(const struct json_doc *doc, const struct exec_limits *l, struct execution_request *r,
               struct err *err);

#endif
