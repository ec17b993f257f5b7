/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_INTERNAL_H
#define HUSK_MANAGER_INTERNAL_H

#include "base/clock.h"
#include "base/err.h"
#include "manager/manager.h"
#include "sandbox/sandbox.h"
#include "store/db.h"
#include "workspace/place.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What the files of this folder share.
 *
 * The lock file is one space of byte offsets, each range with a meaning of its own:
 *   0              the sweep: one at a time
 *   sid            the session is in use (shared) or being opened or closed (exclusive)
 *   sid | 2^62     the turn to execute in it
 *   2^62           the pool is being filled: one start at a time (no sid is 0)
 *   lock_id | 2^62 a waiter for a turn is alive (lock_id is as random as a sid)
 * All of a process's locks belong to its one descriptor and end with it.
 *
 * Order of locks: use hold, then turn, then the exclusive lock of *another* session that is evicted
 * or closed on the way; all but the first are only tried, never waited for while holding others.
 */
#define LOCK_SWEEP 0
#define LOCK_HIGH (INT64_C(1) << 62)
#define LOCK_POOL LOCK_HIGH

struct backend_slot {
    char name[16];
    struct sandbox *sb;
};

struct manager {
    struct manager_options o;
    struct workspace_place place;
    struct manager_isolation isolation; /* as the keeper said */
    int64_t isolation_at_ms;            /* monotonic; when, 0 never */
    struct db *db;
    int lock_fd;
    char boot_id[CLOCK_BOOT_ID_SIZE];
    struct backend_slot backends[BACKENDS_MAX]; /* [0] is the setting's */
    int n_backends;
    int64_t optimized_ms;        /* monotonic; when it last ran the planner's upkeep */
    int64_t pool_next_ms;        /* monotonic; not before may the pool's next start be tried */
    int64_t pool_pause_ms;       /* how long the last failure made it wait, 0 none */
    int artifacts_fd;            /* the folder of contents; -1 until it is needed */
    int traces_fd;               /* the folder of traces; -1: there is none */
    int64_t artifacts_looked_ms; /* monotonic; when the sweep last looked for unnamed ones */
};

/* manager.c */
/* manager_new with a backend made by the caller (tests), known by o->backend; taken, also when it
 * fails. */
int manager_new_with(const struct manager_options *o, struct sandbox *sb, struct manager **ret,
                     struct err *err);
/* A folder below the state directory, made when it is missing; by root, for whoever owns the folder
 * it lies in. */
int manager_state_dir(const char *path, struct err *err);
struct db_now manager_now(const struct manager *m);
/* Whose rows the caller may see; NULL: everybody's. */
const char *caller_owner(const struct caller *c);
/* The sandbox of a backend by name. ERR_INVALID "unknown_backend". */
int manager_backend(struct manager *m, const char *name, struct sandbox **ret, struct err *err);
/* The same for a session's own. ERR_UNAVAILABLE "unavailable": its settings were taken away. */
int manager_backend_of(struct manager *m, const struct session *s, struct sandbox **ret,
                       struct err *err);
/* Reads a session anew by its sid, which stays in *s whatever comes of it. ERR_NOT_FOUND
 * "session_not_found"; the second also ERR_CONFLICT "session_closing". */
int manager_reread(struct manager *m, struct session *s, struct err *err);
int manager_reread_usable(struct manager *m, struct session *s, struct err *err);
/* How many runtimes it may have at once; 0: no bound of its own. */
int64_t manager_max_of(struct manager *m, const char *backend);
/* Where the files of its sessions are, also where it is not set up any more. */
enum sandbox_files manager_files_of(struct manager *m, const char *backend);
/* The backend whose kernels are anonymous at their start, so that the pool can hold them; NULL if
 * there is none. */
struct backend_slot *manager_pool_backend(struct manager *m);
/* The workspace that a backend's label of a runtime names; false: it is none of ours. */
bool runtime_key_parse(const char *key, int64_t *ret_workspace_id);
/* Promises to be done with what comes next in ms. */
void manager_promise(struct manager *m, int64_t ms);
void manager_promise_by(struct manager *m, struct deadline d, int64_t more_ms);
int64_t manager_clamp_ttl(const struct manager *m, int64_t ttl_ms);
/* How long one attempt to end a runtime may take. */
struct deadline manager_end_deadline(const struct manager *m);
/* And one to interrupt what runs there, until it has ended or is known not to. */
#define INTERRUPT_MS 6000
struct deadline interrupt_deadline(const struct manager *m);

/* hold.c: a wait that polls (blocking locks can neither time out nor watch the peer). */
struct wait {
    struct deadline d;
    bool (*gone)(void *ctx); /* NULL: never */
    void *ctx;
    int pause_ms; /* of the next step; 0 at first */
};
/* Sleeps a step (5 to 50 ms). 0, or -1: ERR_ABORTED "client_closed", ERR_TIMEOUT "timeout". */
int wait_step(struct wait *w, struct err *err);

/* It is being closed though nobody asked for that (expired, evicted, a one-call run's): gone for
 * every caller, while one that was deleted shows as closing. */
bool session_ended_itself(const struct manager *m, const struct session *s);
/* Gone for every caller: past its TTL and without a live hold of another process, or ended
 * already. */
bool session_expired(const struct manager *m, const struct session *s);
/* Fills expires_at and stateful. */
void session_derive(const struct manager *m, struct session *s);
/* The caller's session of that name, expired ones included: 0, or session_not_found. */
int session_resolve(struct manager *m, const struct caller *c, const char *name,
                    struct session *ret, struct err *err);
/* Takes a shared hold; *ret is the row as it stands under it. Slugs session_not_found,
 * session_closing, and wait_step's. */
int hold_take(struct manager *m, const struct caller *c, const char *name, struct wait *w,
              struct session *ret, struct err *err);
/* Lets go, and carries a close out that was asked for meanwhile if this was the last hold. */
void hold_leave(struct manager *m, int64_t sid);

/* How long a caller is told to wait where nobody knows. */
#define RETRY_AFTER_S 5

/* close.c */
/* Fills err: there is no room for another runtime, of the whole service, of this owner or
 * of a backend that has a bound of its own. -1. */
enum room { ROOM_SERVICE, ROOM_OWNER, ROOM_BACKEND };
int no_room(const struct manager *m, enum room what, struct err *err);
/* If nobody holds it and it is closing, carries the close out. *ret_done: it is gone now. */
int close_if_free(struct manager *m, int64_t sid, bool *ret_done, struct err *err);
/* If nobody holds it and it is past its TTL: closes it as expired. *ret_done as above. */
int close_if_expired(struct manager *m, int64_t sid, bool *ret_done, struct err *err);
/* If nobody holds it and it is temporary still. *ret_done as above. */
int close_if_temporary(struct manager *m, int64_t sid, bool *ret_done, struct err *err);
/* An open whose process died: undone if nobody holds it. *ret_done: it is gone now. */
int close_dead_open(struct manager *m, int64_t sid, bool *ret_done, struct err *err);
/* Makes room for one runtime: expired ones of anybody, else the owner's least recently used idle
 * session (at this backend, if that is not NULL). 1 done, 0 there is none to end, -1
 * (gateway_unavailable: an end was not confirmed). */
int close_for_room(struct manager *m, const char *owner, const char *backend, int64_t except_sid,
                   struct err *err);

/* files.c: a session's directory, made anew if its code removed it. */
int manager_workspace_open(struct manager *m, int64_t workspace_id, struct workspace *ret,
                           struct err *err);
/* The calls on a session's files for who holds it, or, with `turn`, has its turn as well: *turn is
 * then the session as it is after a call. Ends with files_held_end. */
int files_held(struct manager *m, const struct session *s, struct session *turn,
               struct file_lease *ret, struct err *err);
void files_held_end(struct file_lease *l);
/* For good; a backend whose runtimes hold the files has none. */
int manager_workspace_remove(struct manager *m, const char *backend, int64_t workspace_id,
                             struct err *err);

/* traces.c: that a session's files are being changed, for the sweep should we not get to the end of
 * it. false with err; "" where none are left. */
#define TRACE_NAME_SIZE 34
bool trace_leave(struct manager *m, int64_t sid, char ret[TRACE_NAME_SIZE], struct err *err);
void trace_remove(struct manager *m, const char *trace);
/* Whose maker died: what is left of the change is removed. */
void traces_follow(struct manager *m, struct deadline d, struct sweep_report *r);

/* artifacts.c */
/* Makes m->artifacts_fd be there; not_implemented where nothing is kept. */
int manager_artifacts_dir(struct manager *m, struct err *err);
/* Removes a content that no row names; false where one does, or that cannot be told now. */
bool artifact_content_forget(struct manager *m, const char *sha256);
void upkeep_artifacts(struct manager *m, struct deadline d, struct sweep_report *r);

/* isolation.c */
void isolation_init(struct manager *m);
/* May a kernel be started? ERR_UNAVAILABLE "isolation_unavailable" says what is missing. */
int isolation_check(struct manager *m, bool afresh, struct err *err);
/* Is it certain that no sandbox of this kernel lives? Its gateway may not know yet, and cannot
 * start it again: whoever sees it ends that kernel there. */
bool isolation_dead(struct manager *m, const struct sandbox *sb, const char *handle);
/* Does the keeper have the kernels of this backend? */
bool isolation_kept(const struct manager *m, const struct sandbox *sb);
/* Does any? Where all sessions are machines of a provider's there need be no keeper. */
bool isolation_wanted(const struct manager *m);

/* runtime.c */
/* Ends exactly this runtime; true when its end is confirmed. */
bool runtime_end(struct manager *m, const char *backend, const char *handle);
/* The session goes and its files are kept: a runtime that holds them is stopped, any other ends.
 * One that could not be stopped is no danger: the sweep finds it by its key. */
bool runtime_end_keeping(struct manager *m, const char *backend, const char *handle);
/* The same for one whose start came to nothing: one that was not there before ends. */
bool runtime_undo(struct manager *m, const char *backend, const struct runtime_made *made);
/* All runtimes that hold this workspace's files end; true when that is confirmed, or there is no
 * such thing at this backend. */
bool runtime_discard(struct manager *m, const char *backend, int64_t workspace_id);
/* Tries once to end the quarantined runtimes of an owner's session name. 1 none is left, 0 some. */
int runtime_settle_quarantined(struct manager *m, const char *owner, const char *name,
                               struct err *err);
/* Claims or starts a runtime for a row in state starting and binds it to the session's workspace.
 * On failure ret_uncertain is set when made->handle may be alive and must be quarantined, or with
 * "" when there may be one of which nobody has the handle. */
int runtime_start(struct manager *m, const struct session *s, struct runtime_made *made,
                  bool *ret_uncertain, struct err *err);
/* 1 if its runtime may hold what code left there, 0 if nothing was ever sent to it but by the
 * execution that is excepted ("" none). */
int runtime_had_state(struct manager *m, const struct session *s, const char *except_eid);
/* The runtime of a session as code is sent to it. dir is for the path that *ret may point to. */
int runtime_ref_of(struct manager *m, const struct session *s, char dir[PATH_MAX],
                   struct runtime_ref *ret, struct err *err);
/* A new runtime for a session without one; the caller has its turn. *s is read anew. */
int runtime_make(struct manager *m, struct session *s, struct wait *w, struct err *err);
/* Its runtime is lost or given up: ended, dropped; `lost` as in runtime_drop_args. *s is read anew.
 */
int runtime_replace_begin(struct manager *m, struct session *s, int lost, struct err *err);

/* pool.c */
/* A kernel of the pool for a session's row in state starting, which names it from then on. 1 *ret
 * is to be bound, or (unbound) is by the first code that is sent to it; 0 there is none, -1. */
int pool_claim(struct manager *m, const struct session *s, bool unbound, struct runtime_made *ret,
               struct err *err);
/* Ends those of the pool that died, grew old, are of another kind or too many. */
void pool_check(struct manager *m, struct deadline d, struct sweep_report *r);

/* turn.c */
struct turn {
    int64_t sid;
    int64_t ticket;  /* our row, 0 none */
    int64_t lock_id; /* locked while ticket is not 0 */
    bool held;
    int64_t waited_ms;
};
/* Takes the turn, waiting for it where the rules allow. session_busy otherwise. */
int turn_take(struct manager *m, int64_t sid, struct wait *w, struct turn *ret, struct err *err);
/* Only if it is free at once and nobody waits. */
int turn_take_now(struct manager *m, int64_t sid, struct turn *ret, struct err *err);
/* The ticket's row is gone (execution_store_begin deletes it): only the turn itself is kept. */
void turn_admitted(struct manager *m, struct turn *t);
void turn_leave(struct manager *m, struct turn *t);
/* session_busy, naming what runs since when. */
int turn_busy(struct manager *m, int64_t sid, struct err *err);
/* Removes rows of waiters that died. How many, or -1. */
int turn_drop_dead(struct manager *m, struct err *err);

/* settle.c */
/* After a restart of the machine all that is unfinished is going to be aborted: what its spool says
 * to have ended is recorded so first. */
void settle_before_reboot(struct manager *m);
/* An execution whose process died: recorded as its spool says that it ended, else aborted. 1, or 0
 * it had ended. */
int settle_execution(struct manager *m, const char *eid, struct err *err);
/* The caller has the session's turn: an execution that is still unfinished belongs to a dead
 * process. Interrupts the kernel and records its end as above. 1 it was so, 0 there was none, -1.
 */
int settle_unfinished(struct manager *m, const struct session *s, struct err *err);
/* The caller has the turn: *s, of which the sid counts, is read anew, with a backend that is set up
 * and free of what a dead process left at work. ERR_NOT_FOUND, ERR_CONFLICT and ERR_UNAVAILABLE as
 * manager_reread_usable and manager_backend_of. */
int settle_held(struct manager *m, struct session *s, struct err *err);
/* As settle_unfinished for whoever has not the turn: does it only if nobody has it. *ret_alive:
 * somebody has.
 */
int settle_if_dead(struct manager *m, int64_t sid, bool *ret_alive, struct err *err);

/* alarms.c: looks whether somebody holds the database, keeps that in the alarms' file and logs it;
 * empties the write-ahead log. -1: nobody can write now. */
int alarms_watch(struct manager *m, struct err *err);

/* The sweep is to end: its time is up, or the process is asked to. */
bool sweep_over(const struct manager *m, struct deadline d);

/* reconcile.c: holds the rows against what the backends have, both ways. */
void reconcile_runtimes(struct manager *m, struct deadline d, struct sweep_report *r);

/* upkeep.c: the slow half of the sweep. */
void upkeep_runtimes(struct manager *m, struct deadline d, struct sweep_report *r);
void upkeep_storage(struct manager *m, struct deadline d, struct sweep_report *r);
/* Kept workspaces: measured, bounded, dropped. */
void upkeep_workspaces(struct manager *m, struct deadline d, struct sweep_report *r);

#endif
