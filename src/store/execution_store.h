/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_EXECUTION_STORE_H
#define HUSK_STORE_EXECUTION_STORE_H

#include "base/err.h"
#include "model/execution.h"
#include "model/session.h"
#include "store/db.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * executions(eid PK, sid, session_name, owner, key_id, request_id UNIQUE, client_request_id,
 *   idempotency_key, body_sha256, generation, pid, created_at, started_at, ended_at, duration_ms,
 *   waited_ms, ok, reason (NULL while running), bytes_stdout, bytes_stderr, bytes_rich, error_name,
 *   truncated, runtime_invalidated, code_sha256, code, interrupt_asked, spool_pruned)
 * Partial UNIQUE(owner, session_name, idempotency_key) where that is not NULL.  Indexed by (owner,
 * session_name, created_at, eid) and by ended_at.  Rows outlive their session: sid is no foreign
 * key.
 */

enum execution_begin_outcome {
    EXECUTION_BEGIN_OK,
    EXECUTION_BEGIN_STALE,     /* the session is gone, closing, or its generation is another */
    EXECUTION_BEGIN_BUSY,      /* busy_execution is set: an unfinished one must be settled first */
    EXECUTION_BEGIN_DUPLICATE, /* the request id was seen before; *ret_seen is that row */
    EXECUTION_BEGIN_REPLAY,    /* idempotency key seen with this body; *ret_seen */
    EXECUTION_BEGIN_MISMATCH   /* idempotency key seen with another body */
};
struct execution_begin_args {
    /* eid, sid, session_name, owner, request_id, client_request_id, created_at, started_at,
     * waited_ms, code_sha256, generation */
    const struct execution *row;
    const char *key_id;          /* "" none */
    const char *idempotency_key; /* NULL none */
    int64_t idempotency_retention_ms;
    const char *body_sha256;
    const char *code; /* NULL: not kept */
    size_t code_len;
    int64_t pid;
    int64_t ticket; /* the turn's row to delete, 0 none */
    struct db_now now;
};
/* One transaction, in this order: the same request id -> DUPLICATE; with an idempotency key: keys
 * of this owner + session_name older than the retention (created_at) are set NULL, then a row with
 * the key -> REPLAY or MISMATCH by body_sha256; the session's row -> STALE or BUSY; then inserts,
 * sets the session busy (busy_execution, busy_since = started_at, busy_pid, state busy) and deletes
 * the ticket -> OK. */
int execution_store_begin(struct db *db, const struct execution_begin_args *a,
                          enum execution_begin_outcome *ret_outcome, struct execution *ret_seen,
                          struct err *err);

/* The look before the wait: as above without writing. 1 with REPLAY, MISMATCH or DUPLICATE in
 * *ret_outcome, 0 not seen. idempotency_key may be NULL. */
int execution_store_seen(struct db *db, const char *request_id, const char *owner,
                         const char *session_name, const char *idempotency_key,
                         const char *body_sha256, int64_t idempotency_retention_ms,
                         const struct db_now *now, enum execution_begin_outcome *ret_outcome,
                         struct execution *ret_seen, struct err *err);

/* Was another execution than this one begun in this runtime of a session? 1 or 0, -1. */
int execution_store_ran(struct db *db, int64_t sid, int64_t generation, const char *except_eid,
                        struct err *err);

/* Ends a running one: ended_at, duration_ms, ok, reason, bytes, error_name, truncated,
 * runtime_invalidated from *row. The session, if its busy_execution is this: busy columns cleared,
 * touched, state busy -> ready (a live runtime of its generation exists) or cold; closing stays;
 * state_lost is reported in session->state_lost and cleared with FINISH_TELLS_LOST; with
 * FINISH_BOUND the session's runtime has been told its directory. *ret_session (may
 * be NULL) is filled as it stands then. 1, or 0 when the row had ended already (somebody recorded
 * it aborted) or the session is gone: then *ret_session is left alone. */
enum execution_finish { FINISH_TELLS_LOST = 1, FINISH_BOUND = 2 };
int execution_store_finish(struct db *db, const struct execution *row, unsigned flags,
                           const struct db_now *now, struct session *ret_session, struct err *err);

/* The holder died: reason aborted, ended_at now, duration since started_at; the session's busy
 * columns cleared and touched as above. 1, or 0 it had ended already. */
int execution_store_abort(struct db *db, const char *eid, const struct db_now *now,
                          struct err *err);

/* Somebody wants the running one interrupted: interrupt_asked = 1. 1, or 0 it is not running. */
int execution_store_ask_interrupt(struct db *db, const char *eid, struct err *err);
/* 1 asked, 0 not. Called several times a second by whoever runs it: one look-up by key. */
int execution_store_interrupt_asked(struct db *db, const char *eid, struct err *err);

/* 1 found, 0 not. owner NULL: any owner's. */
int execution_store_get(struct db *db, const char *owner, const char *eid, struct execution *ret,
                        struct err *err);
int execution_store_by_request(struct db *db, const char *owner, const char *request_id,
                               struct execution *ret, struct err *err);

struct execution_query {
    const char *owner, *session_name;
    int64_t after_created; /* 0: from the newest */
    const char *after_eid; /* "" or NULL then */
    int limit;
};
/* ORDER BY created_at DESC, eid DESC. *ret heap array, NULL when empty. */
int execution_store_list(struct db *db, const struct execution_query *q, struct execution **ret,
                         size_t *ret_n, bool *ret_more, struct err *err);
/* Was there ever (live, history or executions) a session of that name of this owner? 1 or 0. */
int execution_store_session_known(struct db *db, const char *owner, const char *name,
                                  struct err *err);

struct execution_id {
    char eid[ID_UUID_SIZE];
};
/* Ended before, whose spool was not removed yet (column spool_pruned), the oldest first. Returns
 * how many, or -1. */
int execution_store_old_spools(struct db *db, int64_t ended_before, struct execution_id *ret,
                               int max, struct err *err);
/* Notes that their spools are removed. */
int execution_store_spools_removed(struct db *db, const struct execution_id *ids, int n,
                                   struct err *err);
/* Rows that ended before and whose spool is removed are deleted, at most max; returns how many. */
int execution_store_prune(struct db *db, int64_t ended_before, int max, struct err *err);
/* Unfinished ones; with `strays` only those whose session is gone or has another busy_execution:
 * nobody will end them. At most max into ret; how many, or -1. */
int execution_store_unfinished(struct db *db, bool strays, struct execution_id *ret, int max,
                               struct err *err);

#endif
