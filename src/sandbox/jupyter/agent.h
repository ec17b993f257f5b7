/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_AGENT_H
#define HUSK_SANDBOX_JUPYTER_AGENT_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "sandbox/jupyter/jupyter.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The half of the file transfer that runs in the kernel (transfer.py), called one operation at a
 * time.  Its text goes with every call and is evaluated with builtins of its own, so that the
 * session's names neither harm it nor see it.
 */

#define AGENT_ARGS_MAX (1024 * 1024) /* text of one call's arguments */
#define AGENT_READ_MAX 46080         /* bytes of a file one answer carries (as base64: 61440) */
#define AGENT_WRITE_MAX 393216       /* bytes of a file one call carries */

/* Append Python literals to arguments; every argument ends with a comma. */
void agent_bytes(struct buf *out, const char *p, size_t n); /* the literal only, no comma */
void agent_arg_bytes(struct buf *out, const char *p, size_t n);
void agent_arg_word(struct buf *out, const char *s); /* [A-Za-z0-9+/= ]* or NULL: None */
void agent_arg_i64(struct buf *out, int64_t v);
void agent_arg_bool(struct buf *out, bool v);

/*
 * Calls an operation of transfer.py; ret (cleared first) gets the words of its answer.  The
 * agent's own refusals have the slugs and codes of workspace/workspace.h; whatever else comes back
 * is ERR_UNAVAILABLE "transfer_failed".  Otherwise as jupyter_evaluate().
 */
int agent_call(struct jupyter *j, struct channel *c, const char *operation, const struct buf *args,
               struct buf *ret, struct deadline d, struct err *err);

/* Gives the kernel a directory of its own and goes there; the name is that of the kernel. */
int agent_bind(struct jupyter *j, struct channel *c, struct deadline d, struct err *err);

#endif
