/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_ROW_H
#define HUSK_STORE_ROW_H

#include "model/execution.h"
#include "model/session.h"
#include "store/session_store.h"
#include "store/sql.h"

/* Rows as the model's structs; private to this folder. The columns must be selected in this order.
 */

#define SESSION_COLUMNS                                                                            \
    "s.sid, s.workspace_id, s.owner, s.name, s.binding, s.binding_value, s.state, s.backend,"      \
    " r.handle, r.kernel_session, s.generation, s.ttl_ms, s.created_at, s.last_work_at,"           \
    " s.last_work_boot_ms, s.boot_id, s.busy_execution, s.busy_since, s.labels, s.state_lost,"     \
    " s.files_kept, r.unbound, s.temporary"
#define SESSION_FROM                                                                               \
    " FROM sessions s LEFT JOIN runtimes r"                                                        \
    " ON r.sid = s.sid AND r.generation = s.generation AND r.state = 'live' "

/* Fills *ret, whose labels are then the caller's to free. */
void row_session(sqlite3_stmt *stmt, struct session *ret);

#define EXECUTION_COLUMNS                                                                          \
    "eid, sid, session_name, owner, request_id, client_request_id, created_at, started_at,"        \
    " ended_at, duration_ms, waited_ms, ok, reason, bytes_stdout, bytes_stderr, bytes_rich,"       \
    " error_name, truncated, runtime_invalidated, code_sha256, generation"

void row_execution(sqlite3_stmt *stmt, struct execution *ret);

const char *row_binding_name(enum session_binding b);

/* The state a session has once its work is over, as SQL. */
#define STATE_AFTER_WORK                                                                           \
    "CASE WHEN state <> 'busy' THEN state"                                                         \
    "     WHEN EXISTS (SELECT 1 FROM runtimes r WHERE r.sid = sessions.sid"                        \
    "                  AND r.generation = sessions.generation AND r.state = 'live')"               \
    "     THEN 'ready' ELSE 'cold' END"

/* What becomes of a workspace whose session's row is gone, in the transaction that is open. */
int row_free_workspace(struct db *db, int64_t workspace_id, enum workspace_fate fate,
                       const struct db_now *now, struct err *err);

/* A start of which nobody can say whether it made a runtime, and under which handle: its row goes
 * on counting against the caps without a session (see runtime_store.h), from now on. Only if it is
 * starting and knows no handle. How many, or -1. */
int row_abandon_start(struct db *db, int64_t sid, int64_t generation, const struct db_now *now,
                      struct err *err);

/* How long an unconfirmed end waits before the next try, after so many. */
int64_t row_back_off_ms(int64_t tries);

#endif
