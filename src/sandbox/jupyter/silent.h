/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_SILENT_H
#define HUSK_SANDBOX_JUPYTER_SILENT_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "sandbox/jupyter/jupyter.h"

/*
 * Work of ours in a kernel that leaves no trace in the session: it enters no history, binds no name
 * and its output goes nowhere.  The channel is good for another request after 0 only; -1:
 * ERR_CONFLICT "runtime_gone" (the process ended), ERR_UNAVAILABLE "gateway_unavailable" (the
 * channel broke), ERR_TIMEOUT (it may still run), ERR_INTERNAL (the code raised; the message says
 * what).
 */
int jupyter_silent(struct jupyter *j, struct channel *c, const char *code, struct deadline d,
                   struct err *err);

/*
 * Evaluates a Python expression and appends the text of its value's repr.  No code of the session's
 * (hooks, transformers) runs for it.  A text over KMSG_STRING_MAX comes cut.
 */
int jupyter_evaluate(struct jupyter *j, struct channel *c, const struct buf *expression,
                     struct buf *ret, struct deadline d, struct err *err);

/* The code that makes `dir` the working directory (bind.c); initialises *ret, the caller frees it
 * in any case. */
int jupyter_directory_code(const char *dir, struct buf *ret, struct err *err);

#endif
