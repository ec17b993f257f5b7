/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_SESSION_STORE_H
#define HUSK_STORE_SESSION_STORE_H

#include "base/err.h"
#include "model/execution.h"
#include "model/session.h"
#include "store/db.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Live sessions and their history.
 *
 * sessions(sid PK, owner, name, UNIQUE(owner, name), binding, binding_value, state, backend,
 *   workspace_id -> workspaces, generation, ttl_ms, created_at, last_work_at, last_work_boot_ms,
 *   boot_id, busy_execution, busy_since, busy_pid, holder_pid, labels, state_lost, files_kept,
 *   close_reason)
 * session_history(sid PK, owner, name, binding, binding_value, backend, created_at, ended_at,
 *   reason, executions, labels)
 *
 * state is one of opening, ready, busy, closing, cold.  A struct session is filled from the row and
 * from its runtime (runtime_store.h): handle and kernel_session are those of the runtimes row with
 * this sid, this generation and state live, else "".  expires_at is left 0: who reads derives it.
 * "Expired" below: state is ready or cold, boot_id is now's, and last_work_boot_ms + ttl_ms <=
 * now.boot_ms.  Work "touches": last_work_at, last_work_boot_ms and boot_id become now's.
 */

enum session_open_outcome {
    SESSION_OPEN_NEW,          /* inserted in state opening, with a starting runtime */
    SESSION_OPEN_EXISTING,     /* it was there, live (also: opening by somebody else) */
    SESSION_OPEN_EXPIRED,      /* it is there but past its TTL; nothing changed */
    SESSION_OPEN_CLOSING,      /* nothing changed */
    SESSION_OPEN_FULL,         /* max_sessions runtimes; nothing changed */
    SESSION_OPEN_OWNER_FULL,   /* max_sessions_per_owner of this owner; nothing changed */
    SESSION_OPEN_BACKEND_FULL, /* max_of_backend runtimes of this backend; nothing changed */
    SESSION_OPEN_ELSEWHERE,    /* it is there on another backend than asked for; nothing changed */
    SESSION_OPEN_QUARANTINED,  /* new, but a quarantined runtime of this owner + name is pending */
};

struct session_open_args {
    const char *owner, *name;
    enum session_binding binding;
    const char *value; /* binding value; binding_value is cut to what the column holds: never */
    size_t value_len;
    const char *backend;
    bool backend_asked; /* by the caller: one that is there has to be of it */
    bool has_ttl;
    int64_t ttl_ms;         /* clamped; used if has_ttl */
    int64_t default_ttl_ms; /* for a new one without */
    const char *labels;     /* JSON object text, NULL: leave, or {} for a new one */
    int64_t new_sid;        /* fresh random ids, used if it is new; the caller already holds the */
    int64_t new_workspace;  /* exclusive lock at new_sid */
    int64_t holder_pid;
    int64_t max_sessions, max_per_owner;
    int64_t max_of_backend; /* 0: no bound but the others */
    int64_t workspace_retention_ms;
    bool temporary;     /* a new one is; one that is there stays as it is, or is not any more */
    bool ignore_expiry; /* somebody holds it: it is live whatever the clock says */
    struct db_now now;
};

/*
 * One transaction.  Looks for (owner, name).
 * Found: closing -> CLOSING; expired and not ignore_expiry -> EXPIRED; of another backend and
 * backend_asked -> ELSEWHERE; opening -> EXISTING, nothing changed; else EXISTING: has_ttl raises
 * ttl_ms to max(ttl_ms, asked), but of a temporary one that is not to be it any more becomes what a
 * new one's would be; labels replace if given, touched; state_lost is reported in *ret
 * and cleared in the row.
 * Not found: a runtimes row in state quarantined with this owner and name -> QUARANTINED; count of
 * runtimes of this owner >= max_per_owner -> OWNER_FULL; count of all >= max_sessions -> FULL;
 * count of this backend's >= max_of_backend -> BACKEND_FULL;
 * else inserts (state opening, generation 1, touched, holder_pid) and runtime_begin's row
 * (generation 1, starting).  Its workspace: the kept one of owner + name whose kept_since is within
 * the retention and whose backend is this (becomes used; files_kept true), else a new workspaces
 * row with new_workspace.
 * -> NEW.  *ret is filled for NEW, EXISTING, EXPIRED, CLOSING, ELSEWHERE.
 */
int session_store_open(struct db *db, const struct session_open_args *a,
                       enum session_open_outcome *ret_outcome, struct session *ret,
                       struct err *err);

/* Takes back that files were kept (they turned out to be gone), of one that is opening. 1, or 0
 * fenced. */
int session_store_no_files(struct db *db, int64_t sid, int64_t generation, struct err *err);
/* opening -> ready, touched, runtime live with handle and kernel_session. 1 done, 0 it is not
 * opening with this generation any more (closing, say). */
int session_store_opened(struct db *db, int64_t sid, int64_t generation, const char *handle,
                         const char *kernel_session, const struct db_now *now, struct err *err);

/* Undoes an open: deletes the session's row (no history) if it is still opening (or closing and
 * never ready: its runtime is starting) with this generation. The runtime's row: becomes
 * quarantined with `quarantine_handle` when that is not NULL, abandoned (see runtime_store.h) when
 * it is "", else is deleted. The workspace:
 * files_kept -> kept again with the kept_since it had is not known any more: kept_since = now;
 * else its row is deleted (or doomed when !workspace_removed). 1 done, 0 not in that state. */
int session_store_undo_open(struct db *db, int64_t sid, int64_t generation,
                            const char *quarantine_handle, bool workspace_removed,
                            const struct db_now *now, struct err *err);

/* 1 found and *ret filled, 0 not. */
int session_store_find(struct db *db, const char *owner, const char *name, struct session *ret,
                       struct err *err);
int session_store_by_sid(struct db *db, int64_t sid, struct session *ret, struct err *err);
/* Any owner's session of that name: 1 exactly one, 0 none or more than one. */
int session_store_find_any_owner(struct db *db, const char *name, struct session *ret,
                                 struct err *err);

struct session_query {
    const char *owner;                   /* NULL: every owner's */
    int state;                           /* -1 any */
    const char *label_key, *label_value; /* NULL any; value NULL: key alone */
    int64_t after_created, after_sid;    /* both 0: from the newest */
    int limit;
};
/* ORDER BY created_at DESC, sid DESC behind the cursor; at most limit. *ret heap array (each
 * session_done, then free), NULL when empty. *ret_more: there are further ones. */
int session_store_list(struct db *db, const struct session_query *q, struct session **ret,
                       size_t *ret_n, bool *ret_more, struct err *err);

/* Candidates for eviction: this owner's in state ready with a live runtime (of `backend`, if that
 * is not NULL), not `except_sid`, least recently worked in first; at most `max` sids into ret.
 * Returns how many, or -1. */
int session_store_idle_lru(struct db *db, const char *owner, const char *backend,
                           int64_t except_sid, int64_t *ret, int max, struct err *err);
/* Sweep's candidates, oldest first: expired ones; closing ones; opening ones; busy ones. Returns
 * how many sids, or -1. */
int session_store_expired(struct db *db, const struct db_now *now, int64_t *ret, int max,
                          struct err *err);
int session_store_in_state(struct db *db, enum session_state state, int64_t after_sid, int64_t *ret,
                           int max, struct err *err);

/* PATCH: ttl_ms >= 0 sets it (may shrink), labels not NULL replace. Not for closing ones. 1 done
 * (and *ret filled if not NULL), 0 no such live session. Not a touch. */
int session_store_patch(struct db *db, int64_t sid, int64_t ttl_ms, const char *labels,
                        struct session *ret, struct err *err);

/* Work ended: touches. *ret_state (may be NULL) is the state it is in (closing: carry it out). 1
 * done, 0 gone. */
int session_store_touch(struct db *db, int64_t sid, const struct db_now *now,
                        enum session_state *ret_state, struct err *err);

/* state_lost was set and is now cleared: 1; it was not set: 0. */
int session_store_take_state_lost(struct db *db, int64_t sid, struct err *err);

/* Any state but closing -> closing with close_reason (busy_execution stays). only_if_expired:
 * re-checks in the transaction that it is expired. only_if_idle: that it is ready or cold. 1 done
 * or it was closing already (the reason stays the first one's), 0 gone or the condition does not
 * hold. *ret (may be NULL) is filled on 1. */
struct session_close_args {
    int64_t sid;
    enum session_end why;
    bool only_if_expired, only_if_idle;
    bool only_if_temporary; /* else it is not that any more: it was closed in earnest */
    struct db_now now;
};
int session_store_begin_close(struct db *db, const struct session_close_args *a,
                              struct session *ret, struct err *err);

/* closing -> gone. Whoever calls holds the exclusive lock. The row moves to the history with its
 * close_reason; unfinished executions of the sid become aborted (ended_at now); its turns rows go;
 * its runtimes row (starting or live) is deleted, or when !runtime_ended and it has a handle
 * quarantined with next try at now + first back-off; earlier ones that are quarantined stay so; the
 * workspace's row is deleted when WORKSPACE_REMOVED, kept with kept_since = now when
 * WORKSPACE_KEPT, doomed when WORKSPACE_DOOMED. 1 done, 0 it is not closing any more. */
enum workspace_fate { WORKSPACE_REMOVED, WORKSPACE_KEPT, WORKSPACE_DOOMED };
int session_store_finish_close(struct db *db, int64_t sid, bool runtime_ended,
                               enum workspace_fate fate, const struct db_now *now, struct err *err);
/* The close_reason of a closing session; 1 found, 0 not closing. */
int session_store_close_reason(struct db *db, int64_t sid, enum session_end *ret, struct err *err);

/* Is the clock's row of this boot? 1, 0 of another or missing, -1. */
int session_store_same_boot(struct db *db, const struct db_now *now, struct err *err);
/* Called by every process when it starts: if the clock row's boot_id is another than now's, the
 * machine was rebooted: every session gets a fresh TTL (touched); ready and busy ones become cold
 * with state_lost, unfinished executions aborted, busy columns cleared; opening and closing stay;
 * every live runtime is quarantined with the next try due at once (a gateway elsewhere may still
 * have it), starting ones of sessions that are not opening are deleted; turns and orphans are
 * emptied; the clock row takes the new boot_id. 1 it did, 0 same boot. */
int session_store_reboot(struct db *db, const struct db_now *now, struct err *err);

/* The reaper's clock row, for the views: clock(id = 1, wall_ms, boot_ms, boot_id, swept_at). */
int session_store_set_clock(struct db *db, const struct db_now *now, struct err *err);

/* Deletes history rows ended before; at most max. Returns how many, or -1. */
int session_store_prune_history(struct db *db, int64_t ended_before, int max, struct err *err);

/* Numbers, one read transaction. */
struct session_counts {
    int64_t by_state[SESSION_STATES];
    int64_t starting, live, quarantined; /* runtimes */
    int64_t pooled;                      /* and those that no session has */
    int64_t waiting_turns;
    int64_t workspaces_used, workspaces_kept;
    int64_t workspaces_kept_bytes; /* of those that were measured */
    int64_t workspaces_dropped;    /* over the bound, ever */
    int64_t swept_at;              /* wall ms, 0 never */
    /* ended ever, those pruned since too; [REASON_NONE] still running */
    int64_t executions_by_reason[EXEC_REASONS];
};
int session_store_counts(struct db *db, struct session_counts *ret, struct err *err);
/* The same by backend, in the order of their names: of all that a row names, at most max. Returns
 * how many. */
struct backend_counts {
    char backend[16];
    int64_t sessions, runtimes; /* the pool's not */
    int64_t workspaces_kept;
};
int session_store_backend_counts(struct db *db, struct backend_counts *ret, int max,
                                 struct err *err);

#endif
