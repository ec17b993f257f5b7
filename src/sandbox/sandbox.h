/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_SANDBOX_H
#define HUSK_SANDBOX_SANDBOX_H

#include "base/clock.h"
#include "base/err.h"
#include "model/execution.h"
#include "model/session.h"
#include "workspace/workspace.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What runs code: a backend behind one interface.  A struct sandbox is one process's access to one
 * backend (its connections included).  Nothing here knows sessions, HTTP or the database.
 */
struct sandbox_options {
    const char *gateway_url; /* borrowed for the life of the sandbox, like all strings here */
    const char *gateway_token;
    const char *gateway_ca_file;
    const char *kernel_name;
    bool transfer_kernel; /* jupyter: files move through the kernels, which share no file system */
    const char *daytona_url; /* NULL or "": this backend is not set up, like all of it */
    const char *daytona_key;
    const char *daytona_ca_file;
    const char *daytona_organization;
    const char *daytona_target;
    const char *daytona_snapshot;
    const char *daytona_language;
    int64_t daytona_auto_stop_min, daytona_auto_delete_min; /* minutes; the latter above 0 */
    const char *deployment;                                 /* whose sandboxes these are */
    int64_t http_timeout_ms;
    int64_t start_timeout_ms;
    int64_t max_output_bytes; /* stdout, stderr, and rich data, each */
    int64_t flood_bytes;
    int keep_channels; /* how many channels are kept between executions; 0 none */
};

struct sandbox;

/* kernel_session of a runtime that keeps nothing from one execution to the next. */
#define RUNTIME_STATELESS "-"

/* A runtime as the database knows it. */
struct runtime_ref {
    const char *handle;         /* kernel id, sandbox id */
    const char *kernel_session; /* what holds its state, to notice a silent restart */
    /* Not NULL: it has not been told its directory yet, which this is; exec does that first, as
     * bind does, within dir_ms. */
    const char *dir;
    int64_t dir_ms;
};

/* What a new runtime is. */
struct runtime_made {
    char handle[HANDLE_MAX + 1];
    char kernel_session[HANDLE_MAX + 1];
    bool found; /* not new: it was there by its key, and has its files */
};

/* One that is at the backend. */
struct runtime_seen {
    const char *handle;
    const char *key; /* as given to open; NULL where the backend keeps none */
    bool running;
};

enum hook_verdict {
    HOOK_GO_ON,
    HOOK_INTERRUPT,  /* somebody asked for an interrupt: reason interrupted */
    HOOK_CLIENT_GONE /* the caller is gone and wants it ended: reason client_gone */
};

/* How an execution talks to whoever runs it. All three may be NULL. */
struct exec_hooks {
    void *ctx;
    /* An event, in order, already bounded and clean. Must not block. */
    void (*event)(void *ctx, const struct exec_event *ev);
    /* Called at least every 100 ms and whenever extra_fd is ready. Must not block. */
    enum hook_verdict (*tick)(void *ctx);
    /* One further descriptor the wait includes; fill events and return 1, or return 0. */
    int (*extra_fd)(void *ctx, struct pollfd *ret);
};

/* A file on its way into a runtime. */
struct file_put {
    const char *path; /* checked */
    size_t path_len;
    int fd; /* its bytes, from offset 0 on */
    int64_t size;
    bool create;                      /* fail if something is there */
    const struct file_info *expected; /* what must be there still; NULL: anything */
};

/* What to list: see workspace_list(). */
struct file_query {
    const char *folder;
    size_t folder_len;
    const char *glob;
    bool recursive;
    const char *after;
    size_t after_len;
    size_t max_entries;
};

enum alive { ALIVE_YES, ALIVE_NO, ALIVE_UNKNOWN };

typedef int (*sandbox_list_cb)(void *ctx, const struct runtime_seen *seen); /* non-zero stops */

struct sandbox_ops {
    const char *name;

    /* Starts a runtime and waits until it answers. On failure nothing is left behind, or
     * ERR_UNCERTAIN: with ret->handle filled the caller quarantines that handle, with "" the
     * backend gave no answer and may have started one that nobody has the handle of.  With
     * FILES_KEYED the one that is there with this key is taken and woken, and only if there is none
     * a new one is made; the other backends start one anew and look at no key (NULL is fine). */
    int (*open)(struct sandbox *sb, const char *key, struct runtime_made *ret, struct deadline d,
                struct err *err);
    /* Silently makes `dir` its working directory (first in sys.path stays ""); NULL: one of its
     * own, which ends with it and which the file operations below work in. ERR_CONFLICT slug
     * "runtime_gone" if the runtime is gone or not the one named. */
    int (*bind)(struct sandbox *sb, const struct runtime_ref *rt, const char *dir,
                struct deadline d, struct err *err);
    /* Runs code. 0 with *ret filled whenever the code may have been sent; -1 only if nothing was
     * sent: ERR_CONFLICT "runtime_gone" (make another), ERR_UNAVAILABLE "gateway_unavailable",
     * ERR_TIMEOUT, ERR_ABORTED (a hook said so before the code went out). */
    int (*exec)(struct sandbox *sb, const struct runtime_ref *rt,
                const struct execution_request *req, const struct exec_hooks *hooks,
                struct execution_result *ret, struct err *err);
    /* Of what runs there and nobody waits for: 0 when it has ended; its state is kept where that
     * can be. ERR_TIMEOUT: it goes on in spite of that, and only the runtime's end will end it. */
    int (*interrupt)(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
                     struct err *err);
    /* Ends exactly this runtime. 0 when its end is confirmed (gone already counts), else
     * ERR_UNCERTAIN. */
    int (*close)(struct sandbox *sb, const char *handle, struct deadline d, struct err *err);
    /* These three with FILES_KEYED only, else NULL.  leave: ends what runs there, with its state;
     * the runtime stays with its files, for the next open of its key.  park: stops the runtime,
     * which keeps its files.  discard: ends all that have this key, as close does. */
    int (*leave)(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
                 struct err *err);
    int (*park)(struct sandbox *sb, const char *handle, struct deadline d, struct err *err);
    int (*discard)(struct sandbox *sb, const char *key, struct deadline d, struct err *err);
    int (*alive)(struct sandbox *sb, const char *handle, struct deadline d, enum alive *ret,
                 struct err *err);
    /* All runtimes of our own kind at the backend. */
    int (*list)(struct sandbox *sb, sandbox_list_cb cb, void *ctx, struct deadline d,
                struct err *err);
    /* Can the backend be used? ERR_UNAVAILABLE says why not. */
    int (*ping)(struct sandbox *sb, struct deadline d, struct err *err);
    /* Files of a runtime that was bound to a directory of its own; all NULL where the backend has
     * no such thing. For an idle runtime only: they wait for what runs there. Errors as those of
     * the same calls in workspace/workspace.h, and "runtime_gone", "gateway_unavailable",
     * ERR_TIMEOUT, and ERR_UNAVAILABLE "transfer_failed": what came does not fit together, and
     * nothing was taken for the file. */
    int (*put_file)(struct sandbox *sb, const struct runtime_ref *rt, const struct file_put *p,
                    bool *ret_created, struct file_info *ret, struct deadline d, struct err *err);
    /* Appends the bytes to fd; ERR_LIMIT "file_too_large" over max_bytes. */
    int (*get_file)(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                    int64_t max_bytes, int fd, struct file_info *ret, struct deadline d,
                    struct err *err);
    int (*stat_path)(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                     struct file_info *ret, struct deadline d, struct err *err);
    int (*list_files)(struct sandbox *sb, const struct runtime_ref *rt, const struct file_query *q,
                      struct file_list *ret, struct deadline d, struct err *err);
    int (*remove_path)(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                       bool recursive, struct deadline d, struct err *err);
    /* Opens a channel to a runtime that nobody uses yet, and keeps it; NULL: this backend has no
     * such thing. Errors as bind's; ERR_LIMIT: there is no room for one more. */
    int (*warm)(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d,
                struct err *err);
    /* Kept channels while the process idles: fills up to max pollfds, returns how many. */
    int (*idle_fds)(struct sandbox *sb, struct pollfd *fds, int max);
    /* Services them (answers pings, drains, closes what ended or idled too long); call when one is
     * ready and at least every second. */
    void (*idle)(struct sandbox *sb);
    /* Lets go of a kept channel to this runtime, if there is one. */
    void (*forget)(struct sandbox *sb, const char *handle);
    void (*free)(struct sandbox *sb);
};

/* Where the files of a session are. */
enum sandbox_files {
    FILES_IN_WORKSPACE, /* a directory of this machine's that runtimes are bound to */
    FILES_IN_RUNTIME,   /* they move by the operations above and end with the runtime */
    FILES_KEYED /* the same, but a runtime belongs to a key from its start, is found again by it and
                   keeps the files while nothing runs */
};

struct sandbox {
    const struct sandbox_ops *ops;
    enum sandbox_files files;
};

/* The factory: ERR_INVALID for an unknown name. The caller frees with ops->free. */
int sandbox_new(const char *backend, const struct sandbox_options *o, struct sandbox **ret,
                struct err *err);

/* Where its files are, set up or not; FILES_IN_WORKSPACE for an unknown name. */
enum sandbox_files sandbox_files_of(const char *backend, const struct sandbox_options *o);

#endif
