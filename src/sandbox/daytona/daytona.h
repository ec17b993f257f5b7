/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_DAYTONA_H
#define HUSK_SANDBOX_DAYTONA_DAYTONA_H

#include "base/clock.h"
#include "base/err.h"
#include "sandbox/daytona/box.h"
#include "sandbox/sandbox.h"
#include "sandbox/transport/rest.h"
#include "sandbox/transport/ws.h"
#include "sandbox/turn.h"

/*
 * The backend "daytona": one managed VM (a box here, a sandbox in Daytona's words) a session, found
 * by its labels.  In the box an interpreter context holds the session's state; its id and its
 * process are the runtime's kernel_session ("CONTEXT:PID", or RUNTIME_STATELESS where the box has
 * no interpreter).  A box that was stopped, or whose context is gone, is "runtime_gone" to an
 * execution: the next open of its key wakes it and makes a new context; its files stay.
 */

#define DAYTONA_WORKSPACE "/home/daytona/docsgpt-sandbox"
#define DAYTONA_TOOLBOXES 64 /* boxes whose toolbox is remembered */

struct daytona {
    struct sandbox base; /* first: ops get it as their struct sandbox */
    struct sandbox_options o;
    char *authorization;
    struct rest *api;
    struct rest *toolbox; /* of whichever box it was last pointed at */
    struct rest *aside;   /* the same, for what is said beside a call under way */
    struct ws_pool *pool;
    struct turn_clock turn;
    int upload_way; /* the last way of uploading that was there */
    struct {
        char id[HANDLE_MAX + 1];
        char url[BOX_URL_MAX + 1];
    } known[DAYTONA_TOOLBOXES];
    int known_next;
};

/* The strings of o are borrowed for its life. ERR_INVALID where a needed option is missing. */
int daytona_new(const struct sandbox_options *o, struct sandbox **ret, struct err *err);

/* A context as kernel_session names it. false: RUNTIME_STATELESS, or none of ours. */
struct context {
    char id[80];
    int64_t pid; /* of its process in the box; 0 not known */
};
bool context_parse(const char *kernel_session, struct context *ret);

/* open.c: ops->open and ops->leave */
int daytona_open(struct sandbox *sb, const char *key, struct runtime_made *ret, struct deadline d,
                 struct err *err);
int daytona_leave(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
                  struct err *err);
/* A box that is there is started, as it may be stopped or on its way. -1: "runtime_gone" and what
 * the calls give. */
int daytona_wake(struct daytona *dt, const char *id, struct deadline d, struct err *err);

/* exec.c: ops->exec */
int daytona_exec(struct sandbox *sb, const struct runtime_ref *rt,
                 const struct execution_request *req, const struct exec_hooks *hooks,
                 struct execution_result *ret, struct err *err);
/* Runs a few lines of ours in a context and appends what they print. */
int daytona_probe(struct daytona *dt, const char *id, const char *context, const char *code,
                  struct buf *ret, struct deadline d, struct err *err);
/* coderun.c: the same without an interpreter. */
int daytona_code_run(struct daytona *dt, const char *id, const struct execution_request *req,
                     const struct exec_hooks *hooks, struct execution_result *ret, struct err *err);

/* files.c: the file operations of struct sandbox_ops */
int daytona_put(struct sandbox *sb, const struct runtime_ref *rt, const struct file_put *p,
                bool *ret_created, struct file_info *ret, struct deadline d, struct err *err);
int daytona_get(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                int64_t max_bytes, int fd, struct file_info *ret, struct deadline d,
                struct err *err);
int daytona_stat(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                 struct file_info *ret, struct deadline d, struct err *err);
int daytona_list(struct sandbox *sb, const struct runtime_ref *rt, const struct file_query *q,
                 struct file_list *ret, struct deadline d, struct err *err);
int daytona_remove(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                   bool recursive, struct deadline d, struct err *err);

#endif
