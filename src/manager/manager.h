/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_MANAGER_H
#define HUSK_MANAGER_MANAGER_H

#include "base/clock.h"
#include "base/err.h"
#include "model/alarm.h"
#include "model/artifact.h"
#include "model/execution.h"
#include "model/session.h"
#include "sandbox/sandbox.h"
#include "workspace/workspace.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The product's rules over database, backend and workspaces: who may open what, who works in a
 * session, when it ends.  All rules hold across processes; a struct manager is one process's view
 * and holds nothing that matters if the process is killed.
 */
struct manager;

#define POOL_MAX 64 /* kernels in the warm pool */
#define BACKENDS_MAX 4

/* As it would be read: the wall's, CLOCK_BOOTTIME, the boot's id. */
struct manager_clock {
    int64_t wall_ms, boot_ms;
    const char *boot_id;
};

struct manager_options {
    const char *db_path, *workspaces_dir, *spool_dir, *lock_path; /* borrowed for its life */
    const char *keeper_dir;    /* of the keeper's sockets; NULL: kernels run without isolation */
    const char *isolation_min; /* the weakest tier a kernel may be started in; NULL: none */
    const char *traces_dir;    /* of changes to files that are under way; NULL: none are noted */
    const char *artifacts_dir; /* what runs keep; made when it is needed. NULL: nothing is kept */
    const char *alarms_path;   /* a file the sweep keeps; NULL: no watch over the database */
    const char *backend;       /* of a session that names none */
    const char *more_backends[BACKENDS_MAX - 1]; /* others a session may name; NULL: no further */
    struct sandbox_options sandbox;
    int64_t default_ttl_ms, max_ttl_ms;
    int64_t max_sessions, max_sessions_per_owner;
    int64_t max_keyed; /* runtimes of a backend that holds files itself; 0: no bound of its own */
    int64_t max_kept_keyed;             /* and its stopped ones that are kept after their session */
    int64_t pool_size, pool_max_age_ms; /* at most POOL_MAX */
    const char *pool_kind; /* which kernels of the pool are ours; NULL: those of the kernel name */
    int64_t turn_waiters, turn_wait_ms;
    int64_t workspace_retention_ms, workspaces_max_bytes, history_retention_ms;
    int64_t exec_timeout_ms, max_exec_timeout_ms;
    int64_t spool_bytes, events_retention_ms, idempotency_retention_ms;
    int64_t artifact_max_bytes;                           /* of one file */
    int64_t artifact_max_count, artifact_max_total_bytes; /* of one owner's versions */
    int64_t start_timeout_ms;
    bool keep_code;
    bool gateway_shared;
    int64_t max_file_bytes; /* the largest file that is fetched from a runtime that holds its own */
    /* How many exec workers are free just now, for the rule on waiting; NULL: always enough. */
    int (*free_exec_workers)(void *ctx);
    /* A deadline this process promises to meet (the master kills it 5 s later); NULL allowed. */
    void (*publish_deadline)(void *ctx, struct deadline d);
    /* A session got a runtime of the pool: whoever keeps a channel to it shall know; NULL allowed.
     */
    void (*pooled_given)(void *ctx, const char *handle, const char *session_name);
    /* What time it is and of which boot, for tests; NULL: the machine's. */
    const struct manager_clock *clock;
    /* Is the process asked to end? A sweep then does so before its next step; NULL: never. */
    bool (*stopping)(void *ctx);
    void *ctx;
};

int manager_new(const struct manager_options *o, struct manager **ret, struct err *err);
void manager_free(struct manager *m);

/* A caller, as authorised. admin sees and closes every owner's sessions; owner is whose name is
 * used for what it opens. */
struct caller {
    char owner[OWNER_MAX + 1];
    bool admin;
    bool read_only;
    char key_id[32]; /* "" if none */
};

/* The wait for anything slow ends when this says so (the peer is gone); NULL: never. */
struct watch {
    bool (*gone)(void *ctx);
    void *ctx;
};

struct open_request {
    enum session_binding binding;
    const char *value; /* for BIND_NONE ignored */
    size_t value_len;
    bool has_ttl;
    int64_t ttl_ms;         /* as asked; clamped here. <= 0 is the default */
    int64_t default_ttl_ms; /* of a new one without; <= 0 is the setting */
    const char *backend;    /* NULL: the setting */
    const char *labels;     /* JSON object text, NULL: leave */
    bool temporary;         /* to be closed again by the caller, if nobody opens it in earnest */
};

/* Opens or reuses. Slugs: bad_session_id, session_closing, session_limit, owner_session_limit,
 * gateway_unavailable, start_failed, runtime_quarantined, unknown_backend. */
int manager_open(struct manager *m, const struct caller *c, const struct open_request *r,
                 const struct watch *watch, struct deadline d, struct session *ret,
                 bool *ret_created, struct err *err);

/* Looking is no work. Slug session_not_found. An admin's look-up by name alone falls back to any
 * owner's when its own has none and the name is unique. The answer takes state_lost as told when
 * `tell`. */
int manager_get(struct manager *m, const struct caller *c, const char *name, bool tell,
                struct session *ret, struct err *err);

struct session_filter {
    int state;                            /* -1 any, else enum session_state */
    const char *label_key, *label_value;  /* NULL any */
    int64_t after_sid_created, after_sid; /* cursor; 0 from the newest */
    int limit;
};
/* Newest first. *ret is a heap array (free each with session_done, then the array); it is empty
 * only when there are no further ones. */
int manager_list(struct manager *m, const struct caller *c, const struct session_filter *f,
                 struct session **ret, size_t *ret_n, bool *ret_more, struct err *err);

/* has_ttl: the TTL, which may shrink here. labels NULL: leave. */
int manager_patch(struct manager *m, const struct caller *c, const char *name, bool has_ttl,
                  int64_t ttl_ms, const char *labels, struct session *ret, struct err *err);

/* *ret_deferred: it is busy and will be closed when the work ends (202). */
int manager_close(struct manager *m, const struct caller *c, const char *name, enum session_end why,
                  struct deadline d, bool *ret_deferred, struct err *err);

/* A new runtime in place of the old one; session_busy when it is. */
int manager_restart(struct manager *m, const struct caller *c, const char *name,
                    const struct watch *watch, struct deadline d, struct session *ret,
                    struct err *err);

/* Interrupts what runs there now; nothing running is no error (*ret_running false). */
int manager_interrupt(struct manager *m, const struct caller *c, const char *name,
                      struct deadline d, bool *ret_running, struct err *err);

/* Runs code in a session. Events go to the spool and to cb->event, with the spool's sequence
 * number. Returns 0 once an execution row exists and it ended, however; -1 if nothing ran:
 * session_not_found, session_busy (message: what runs since when), session_closing,
 * duplicate_request, idempotency_mismatch, gateway_unavailable, … With an idempotency key seen
 * before: 0 with ret->replayed set and nothing run; the caller then answers from the spool of
 * ret->row.eid (following it while it still runs). */
struct exec_outcome {
    struct execution row;
    struct execution_result result;
    struct session session; /* as it stands after; state_lost to be told in this answer */
    bool replayed;
    bool closes;          /* the session is closed with the call: the answer only names it */
    int64_t untold_bytes; /* of events that are not in the spool, and nothing there says so */
};
void exec_outcome_done(struct exec_outcome *o);

struct exec_callbacks {
    void *ctx;
    /* The row is committed and the spool is there; the first byte may be sent now. NULL allowed. */
    void (*begun)(void *ctx, const struct execution *row, const struct session *s);
    void (*event)(void *ctx, const struct exec_event *ev, int64_t seq);
    enum hook_verdict (*tick)(void *ctx); /* also while waiting for a turn and a start */
    int (*extra_fd)(void *ctx, struct pollfd *ret);
    /* Builds the result object for the spool (`full`: with all text; else without what the stream
     * already sent). 0, or -1 when it does not fit. */
    int (*render)(void *ctx, const struct exec_outcome *o, bool full, struct buf *out);
};
int manager_exec(struct manager *m, const struct caller *c, const char *name,
                 const struct execution_request *r, const struct exec_callbacks *cb,
                 struct exec_outcome *ret, struct err *err);

/* One call that opens a session (or finds one), puts files into it, runs and keeps what came out.
 * What such a call opened is closed again, unless `keep`, with the last that is at work in it; what
 * somebody else opened, before or meanwhile, stays. As manager_exec, and the errors of opening, of
 * uploads and of taking a file; besides inputs_too_large, artifact_not_found, and not_implemented
 * for a capture where files are not in a workspace. */
struct once_request {
    struct open_request open;
    bool keep;
    struct run_input *inputs; /* size and sha256 are filled */
    size_t n_inputs;
    int64_t max_input_bytes; /* of all inputs together */
    /* A file to read back after a run that was ok, up to the buffer's maximum; one that is not
     * there leaves it empty. NULL: none. */
    const char *take_path;
    struct buf *take;
    struct execution_request exec;
};
int manager_exec_once(struct manager *m, const struct caller *c, struct once_request *r,
                      const struct exec_callbacks *cb, struct exec_outcome *ret, struct err *err);

/* Artifacts: what runs kept. Slug artifact_not_found; an admin sees every owner's. */
/* The latest version (version 0) or a certain one. */
int manager_artifact_get(struct manager *m, const struct caller *c, const char *id, int64_t version,
                         struct artifact *ret, struct err *err);
/* By its short reference in one of the caller's own sessions' names. */
int manager_artifact_by_ref(struct manager *m, const struct caller *c, const char *session_name,
                            int64_t ref, struct artifact *ret, struct err *err);
/* Latest versions, newest artifact first, behind after_aid (0: from the newest); session_name NULL:
 * all. *ret is a heap array. */
int manager_artifacts(struct manager *m, const struct caller *c, const char *session_name,
                      int64_t after_aid, int limit, struct artifact **ret, size_t *ret_n,
                      bool *ret_more, struct err *err);
/* All versions of one, newest first, behind after_version (0: from the newest). */
int manager_artifact_versions(struct manager *m, const struct caller *c, const char *id,
                              int64_t after_version, int limit, struct artifact **ret,
                              size_t *ret_n, bool *ret_more, struct err *err);
/* Its content, for reading; the caller closes *ret_fd. */
int manager_artifact_open(struct manager *m, const struct artifact *a, int *ret_fd,
                          struct err *err);
/* With all versions; contents that nothing else has go too. */
int manager_artifact_remove(struct manager *m, const struct caller *c, const char *id,
                            struct err *err);

/* Executions. Slug execution_not_found. */
int manager_execution_get(struct manager *m, const struct caller *c, const char *eid,
                          struct execution *ret, struct err *err);
/* By nginx's request id, for a caller that met worker_lost. */
int manager_execution_by_request(struct manager *m, const struct caller *c, const char *request_id,
                                 struct execution *ret, struct err *err);
/* Newest first, behind `after_created`/`after_eid`. *ret is a heap array. */
int manager_executions(struct manager *m, const struct caller *c, const char *session_name,
                       int64_t after_created, const char *after_eid, int limit,
                       struct execution **ret, size_t *ret_n, bool *ret_more, struct err *err);
/* Is a worker alive that runs it? An execution left behind by a dead one is recorded aborted here.
 */
int manager_execution_settle(struct manager *m, struct execution *e, struct err *err);

/* File work: a hold on the session for as long as the lease lives. end() counts as work when
 * `worked`. A session in state cold serves files too. */
struct file_lease {
    struct workspace ws; /* none where the runtime holds the files */
    struct session session;
    struct session *turn; /* private: whose turn the caller has; NULL: nobody's */
    void *hold;           /* private */
};
int manager_files_begin(struct manager *m, const struct caller *c, const char *name,
                        struct file_lease *ret, struct err *err);
void manager_files_end(struct manager *m, struct file_lease *l, bool worked);

/* The calls of workspace/workspace.h on a leased session's files, with their errors.  With
 * FILES_IN_WORKSPACE they go beneath its root; else through the session's runtime, and these are
 * added: session_busy, those of making a runtime, transfer_failed, file_too_large (fetching). Paths
 * are checked ones. */
int manager_file_open(struct manager *m, struct file_lease *l, const char *path, size_t n,
                      int *ret_fd, struct file_info *ret, struct err *err);
int manager_file_stat(struct manager *m, struct file_lease *l, const char *path, size_t n,
                      struct file_info *ret, struct err *err);
int manager_file_list(struct manager *m, struct file_lease *l, const struct file_query *q,
                      struct deadline d, struct file_list *ret, struct err *err);
int manager_file_remove(struct manager *m, struct file_lease *l, const char *path, size_t n,
                        bool recursive, struct err *err);
/* An upload ends with the lease at the latest; commit frees it in any case. */
struct file_upload;
int manager_upload_begin(struct manager *m, struct file_lease *l, const char *path, size_t n,
                         struct file_upload **ret, struct err *err);
int manager_upload_write(struct file_upload *u, const void *p, size_t n, struct err *err);
int manager_upload_commit(struct file_upload *u, enum upload_mode mode,
                          const struct file_info *expected, bool *ret_created,
                          struct file_info *ret, struct err *err);
void manager_upload_abort(struct file_upload *u); /* NULL is fine */

/* Keys (SANDBOX_AUTH=keys). Stored as a SHA-256 only. */
enum key_scope { KEY_READ = 1, KEY_EXECUTE = 2, KEY_ADMIN = 4 };
#define KEY_SCOPES 3
/* Scope number i (0 to KEY_SCOPES - 1) and its name. */
enum key_scope key_scope_at(int i, const char **ret_name);
/* By its name of n bytes: 1 known, 0 not. */
int key_scope_find(const char *name, size_t n, enum key_scope *ret);
struct key_info {
    char key_id[32];
    char owner[OWNER_MAX + 1];
    unsigned scopes;
    char note[129];
    int64_t created_at, expires_at, revoked_at, last_used_at; /* wall ms; 0 none */
};
#define KEY_TOKEN_SIZE 96
/* The token ("husk_" …) is given once. ret->key_id names it from then on. */
int manager_key_create(struct manager *m, const char *owner, unsigned scopes, int64_t expires_at,
                       const char *note, char ret_token[KEY_TOKEN_SIZE], struct key_info *ret,
                       struct err *err);
int manager_key_list(struct manager *m, struct key_info **ret, size_t *ret_n, struct err *err);
int manager_key_revoke(struct manager *m, const char *key_id, struct err *err);
/* ERR_DENIED slug unauthorized (unknown), key_expired, key_revoked. Notes the use at most once a
 * minute. */
int manager_key_check(struct manager *m, const char *token, size_t n, struct caller *ret,
                      struct err *err);

/* What keeps sessions apart, as the keeper says it: what is in force, not what was wished. Asked at
 * the start and again when it is stale, two seconds at most. Borrowed; changes with the next call.
 */
struct manager_isolation {
    bool keeper;  /* kernels are in the hands of husk-keeper */
    bool answers; /* it did when it was last asked */
    bool ready; /* they may be started: it answers, can make sandboxes, and of the minimum at least
                 */
    char tier[16], egress[16], disk[16]; /* "unknown" as long as it has never answered */
    char detail[400];                    /* why not ready, or what a better tier would need; "" */
    int64_t memory_bytes, cpu_milli, pids, disk_bytes; /* limits in force; 0: none */
    int64_t sandboxes;
};
const struct manager_isolation *manager_isolation(struct manager *m);
/* The same for the sessions of a backend: "vm" where each is a machine of the provider's. */
const struct manager_isolation *manager_isolation_of(struct manager *m, const char *backend);

/* Readiness: database and every backend; the message says which is not ready. */
int manager_ready(struct manager *m, struct deadline d, struct err *err);

/* Numbers for /metrics and `huskctl status`. */
#define STATS_BACKENDS_MAX (2 * BACKENDS_MAX) /* also those that are not set up any more */
struct backend_stats {
    char name[16];
    bool set_up;
    int64_t sessions;
    int64_t runtimes, max_runtimes;    /* at most so many; 0: it is not set up */
    int64_t workspaces_kept, max_kept; /* and so many; 0: only their bytes are bounded */
};
struct manager_stats {
    struct backend_stats backends[STATS_BACKENDS_MAX]; /* first those that are set up */
    int n_backends;
    int64_t sessions[SESSION_STATES]; /* by enum session_state */
    int64_t runtimes_live, runtimes_starting, runtimes_quarantined;
    int64_t runtimes_pooled; /* which no session has yet */
    /* ended since the database was made, pruned ones too; [REASON_NONE] still running */
    int64_t executions_by_reason[EXEC_REASONS];
    int64_t waiting_turns;
    int64_t workspaces, workspaces_kept;
    int64_t workspaces_kept_bytes; /* on disk, of those that were measured */
    int64_t workspaces_dropped;    /* over a bound, since the database was made */
    int64_t db_bytes, wal_bytes;
    int64_t last_sweep_at; /* wall ms */
};
int manager_stats(struct manager *m, struct manager_stats *ret, struct err *err);

/* What an operator should look at just now; returns how many, or -1. Reads only. */
#define MANAGER_ALARMS_MAX 64
int manager_alarms(struct manager *m, struct alarm ret[MANAGER_ALARMS_MAX], struct err *err);

/* One pass of the reaper: expired sessions, dead holders, orphans, quarantined and stuck opening
 * ones, kept workspaces, spool and history retention, clock row, checkpoint. A lock lets one at a
 * time; another returns with ran false. Fails with database_busy, having done nothing but raise the
 * alarm, while somebody holds the writer's lock. */
struct sweep_report {
    bool ran;
    int expired, closed, aborted, orphans, lost, starts_undone, quarantine_tried, quarantine_ended,
        opening_undone, workspaces_dropped, workspaces_removed, spools_removed, history_removed,
        pool_ended, blobs_removed, traces_followed;
};
int manager_sweep(struct manager *m, struct deadline d, struct sweep_report *ret, struct err *err);

/* Starts one kernel for the pool if one is wanted: fewer than pool_size wait, nobody's start is
 * under way, no other process is at it, and the last failure is long enough ago; gently also that
 * the last start is, so that running sessions keep the machine. The sweep takes out what died or
 * grew old. *ret_again_ms: when to call again, < 0: there is nothing more to do for now. */
int manager_refill(struct manager *m, struct deadline d, bool gently, int64_t *ret_again_ms,
                   struct err *err);

/* The pool's runtimes to which a channel could be opened ahead of need, the oldest first; 0 where
 * there is no such thing. The count, or -1. */
struct manager_pooled {
    char handle[HANDLE_MAX + 1], kernel_session[HANDLE_MAX + 1];
};
int manager_pooled(struct manager *m, struct manager_pooled *ret, int max, struct err *err);
/* Opens one and keeps it, so that the first code of whoever gets that runtime need not wait for a
 * channel. Nobody's claim is touched: it may be given to a session meanwhile. ERR_LIMIT: as many
 * are kept as may be. */
int manager_warm(struct manager *m, const struct manager_pooled *p, struct deadline d,
                 struct err *err);

/* Between requests: kept channels. */
int manager_idle_fds(struct manager *m, struct pollfd *fds, int max);
void manager_idle(struct manager *m);

#endif
