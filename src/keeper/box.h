/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_BOX_H
#define HUSK_KEEPER_BOX_H

#include "base/err.h"
#include "keeper/cgroup.h"
#include "keeper/keeper.h"

#include <stddef.h>
#include <sys/types.h>

/*
 * One sandbox: namespaces (as the tier has them), a root of its own, ids, limits, filters, and in
 * it init (pid 1) and the kernel's interpreter.  Made by the monitor, which is init's parent.
 */
struct box_spec {
    const struct keeper_options *o;
    const char *kernel; /* id, checked */
    uid_t uid;          /* of the session: KERNEL_UID_BASE + slot; rootless: our own */
    int slot;
    int slot_lock;          /* inherited by init: the uid stays taken as long as anything lives */
    int out, err;           /* the kernel's stdout and stderr */
    int listeners[5];       /* shell iopub stdin control hb */
    const char *connection; /* bytes for the connection file inside */
    size_t connection_len;
    const char *home; /* container tier: the placeholder's folder on the host; else "" */
};

struct box {
    pid_t pid; /* init, as the monitor sees it */
    int pidfd;
    int notify_fd; /* seccomp notifications (egress public without NET_ADMIN), or -1 */
};

/* Makes it and lets the interpreter run. On failure nothing is left. The deadline is its own: 10 s.
 * `network` (or NULL) is called by the parent when init's namespaces stand and before anything of
 * the session runs, with init's pid; non-zero fails the start. */
int box_start(const struct box_spec *s, struct cgroup *cg, int (*network)(void *ctx, pid_t init),
              void *ctx, struct box *ret, struct err *err);
/* Moves a detached mount onto the empty placeholder /home/workspace. errno EBUSY if something is
 * mounted there already. */
int box_attach(const struct box *b, int tree, struct err *err);
/* A signal to the kernel's process group (SIGINT, …), by way of init. */
int box_signal(const struct box *b, int signum);
/* Everything in it, at once (SIGKILL to init ends the pid namespace; the cgroup's rest after). */
void box_kill(struct box *b, struct cgroup *cg);

#endif
