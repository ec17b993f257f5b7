/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MODEL_SESSION_H
#define HUSK_MODEL_SESSION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SESSION_NAME_MAX 128
#define SESSION_BINDING_MAX 512
#define OWNER_MAX 64
#define HANDLE_MAX 128
#define LABELS_MAX 16
#define LABEL_KEY_MAX 64
#define LABEL_VALUE_MAX 256
#define LABELS_JSON_MAX 40000

enum session_state { SESSION_OPENING, SESSION_READY, SESSION_BUSY, SESSION_CLOSING, SESSION_COLD };
#define SESSION_STATES 5

/* Why a session ended, for the history. */
enum session_end { SESSION_END_CLOSED, SESSION_END_EXPIRED, SESSION_END_EVICTED, SESSION_END_LOST };

const char *session_state_name(enum session_state s);
int session_state_parse(const char *s, enum session_state *ret); /* 1 known, 0 not */
const char *session_end_name(enum session_end e);

/* What a caller names a session by. Exactly one of the three forms. */
enum session_binding { BIND_NONE, BIND_SESSION, BIND_CONVERSATION, BIND_WORKFLOW_RUN, BINDINGS };
/* "session_id", "conversation_id" or "workflow_run_id", as requests and answers call it; NULL for
 * BIND_NONE. */
const char *session_binding_member(enum session_binding how);

/* The name a binding gives (design: c-, w-, ch-, wh-): ERR_INVALID names the member. For BIND_NONE
 * a fresh random name is made. value need not be NUL-terminated. */
int session_name_of(enum session_binding how, const char *value, size_t n,
                    char ret[SESSION_NAME_MAX + 1], struct err *err);

/* A session as it stands, a copy of its rows. labels is heap JSON text; free with session_done. */
struct session {
    int64_t sid;          /* internal id: rows, locks; never reused */
    int64_t workspace_id; /* the directory's name in hex */
    char owner[OWNER_MAX + 1];
    char name[SESSION_NAME_MAX + 1];
    enum session_binding binding;
    char binding_value[SESSION_BINDING_MAX + 1];
    enum session_state state;
    char backend[16];
    char handle[HANDLE_MAX + 1];         /* kernel id; "" when cold */
    char kernel_session[HANDLE_MAX + 1]; /* the kernel process's own session id */
    bool unbound;       /* a kernel of the pool that does not know the session's directory yet */
    int64_t generation; /* moves with every runtime */
    int64_t ttl_ms;
    int64_t created_at, last_work_at; /* wall ms */
    int64_t last_work_boot_ms;        /* CLOCK_BOOTTIME, together with boot_id */
    char boot_id[40];
    int64_t expires_at;      /* wall ms, derived; 0 while busy */
    char busy_execution[40]; /* "" if none */
    int64_t busy_since;      /* wall ms */
    char *labels;            /* JSON object text, "{}" if none */
    bool state_lost;         /* to be told once, with the next answer */
    bool files_kept;         /* this open found files of an earlier life */
    bool temporary;          /* a one-call run opened it, and the last of those closes it */
    bool stateful;           /* one execution sees what another left; derived */
};

void session_done(struct session *s); /* frees labels and zeroes */

#endif
