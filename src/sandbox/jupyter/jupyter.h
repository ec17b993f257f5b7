/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_JUPYTER_H
#define HUSK_SANDBOX_JUPYTER_JUPYTER_H

#include "base/clock.h"
#include "base/err.h"
#include "sandbox/jupyter/channel.h"
#include "sandbox/jupyter/gateway.h"
#include "sandbox/jupyter/kept.h"
#include "sandbox/sandbox.h"
#include "sandbox/transport/ws.h"
#include "sandbox/turn.h"

/* One process's access to a Jupyter gateway. Private to the backend but for jupyter_new(). */
struct jupyter {
    struct sandbox base; /* first: ops get it as their struct sandbox */
    struct sandbox_options o;
    struct gateway *gateway;
    struct ws_pool *pool;
    struct kept kept;
    struct turn_clock turn;
};

/* The backend "jupyter". The strings of o are borrowed for its life. */
int jupyter_new(const struct sandbox_options *o, struct sandbox **ret, struct err *err);

/* turn_wait() that also minds a call to the gateway under way. */
enum hook_verdict jupyter_turn(struct jupyter *j, const struct exec_hooks *hooks, int max_ms);

/*
 * A channel to a runtime: the kept one, or a new one whose kernel has told its session, which is
 * compared with rt->kernel_session (not if that is NULL or ""; ret->kernel_session tells then).
 * With rt->dir the kernel has been told its directory, too. ERR_CONFLICT "runtime_gone",
 * ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_ABORTED (a hook said so), ERR_INTERNAL (no such directory).
 */
int jupyter_attach(struct jupyter *j, const struct runtime_ref *rt, const struct exec_hooks *hooks,
                   struct deadline d, struct channel **ret, struct err *err);

/* ops->exec */
int jupyter_exec(struct sandbox *sb, const struct runtime_ref *rt,
                 const struct execution_request *req, const struct exec_hooks *hooks,
                 struct execution_result *ret, struct err *err);
/* ops->bind */
int jupyter_bind(struct sandbox *sb, const struct runtime_ref *rt, const char *dir,
                 struct deadline d, struct err *err);

#endif
