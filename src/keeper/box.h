/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_BOX_H
#define HUSK_KEEPER_BOX_H

#include "base/err.h"
#include "keeper/cgroup.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * One sandbox: namespaces (as the tier has them), a root of its own, ids, limits, filters, and in
 * it init (pid 1) and the kernel's interpreter.  Made by the monitor, which is init's parent.
 */
struct box_spec {
    const struct keeper_options *o;
    uid_t uid; /* of the session: KERNEL_UID_BASE + slot; rootless: our own */
    int slot;
    int slot_lock;          /* inherited by init: the uid stays taken as long as anything lives */
    int out, err;           /* the kernel's stdout and stderr */
    int listeners[5];       /* shell iopub stdin control hb */
    const char *connection; /* bytes for the connection file inside */
    size_t connection_len;
    const char *home; /* container tier: the session's folder on the host (0700, its uid's; the
                         caller makes and removes it), with an empty `workspace` in it; else "" */
    const char *const *argv; /* what runs instead of the kernel (tests), ended by NULL; or NULL */
};

/* Where things are inside. The container tier has `home` itself for BOX_HOME, `home`/workspace for
 * BOX_WORKSPACE and o->library for BOX_LIBRARY. */
#define BOX_HOME "/home/husk"
#define BOX_WORKSPACE "/home/workspace"
#define BOX_LIBRARY "/run/husk"
#define BOX_CONNECTION ".runtime/connection.json" /* below home, 0600, the session's own */
#define BOX_LISTENER_FD 3                         /* HUSK_FDS; shell iopub stdin control hb */

struct box {
    pid_t pid; /* init, as the monitor sees it */
    int pidfd;
    int mount_ns;  /* its mounts, for box_attach(); -1 in the container tier */
    int notify_fd; /* seccomp notifications (egress public without NET_ADMIN), or -1; the monitor
                      may take it out */
    enum tier tier;
    uid_t uid;
};

/* Has a sandbox a network namespace of its own? */
bool box_own_network(const struct keeper_options *o);
/* Are its connections made by a supervisor (egress.h) instead? Then notify_fd is to be served. */
bool box_is_supervised(const struct keeper_options *o);

/* Makes it and lets the interpreter run. On failure nothing is left. The deadline is its own: 10 s.
 * `network` (or NULL) is called by the parent when init's namespaces stand and before anything of
 * the session runs, with init's pid; non-zero fails the start. */
int box_start(const struct box_spec *s, struct cgroup *cg, int (*network)(void *ctx, pid_t init),
              void *ctx, struct box *ret, struct err *err);
/* Moves a detached mount onto the empty placeholder /home/workspace. ERR_CONFLICT: something is
 * mounted there already (errno EBUSY), or the container tier. */
int box_attach(const struct box *b, int tree, struct err *err);
/* A signal to the kernel's process group (SIGINT, …), by way of init. */
int box_signal(const struct box *b, int signum);
/* Has init ended? 1: *ret_value is the kernel's exit code or, negative, the signal it died by; 0:
 * it lives; -1 with errno. Reaps it. box_kill() still has to follow. */
int box_ended(const struct box *b, int *ret_value);
/* Everything in it, at once (SIGKILL to init ends the pid namespace; the cgroup's rest and, where
 * there are no namespaces, everything of the uid after). Reaps init (in the container tier
 * every other child of the caller as well: the session's orphans), closes the descriptors and
 * removes the cgroup; also after init has ended by itself, and twice. */
void box_kill(struct box *b, struct cgroup *cg);
/* The container tier's part of that, for a uid whose slot the caller holds: kills everything of
 * this uid, reaps the caller's children and removes what the uid has left in /dev/shm. */
void box_end_uid(uid_t uid);

#endif
