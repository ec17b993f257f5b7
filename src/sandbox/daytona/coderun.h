/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_CODERUN_H
#define HUSK_SANDBOX_DAYTONA_CODERUN_H

#include "base/buf.h"
#include "sandbox/output/output.h"

/* The two ends of a run without an interpreter. Pure: no I/O. */

/* The body of the call. The code goes along as a text that is compiled by itself, in the workspace,
 * so that what must stand first in it (from __future__ …) does. */
void coderun_request(struct buf *out, const char *code, size_t n, int64_t timeout_s);

/* Takes what the answer says: output (both streams in one), pictures, and where the status is not 0
 * the exception that the output ends with. false: that is no such answer. */
bool coderun_take(struct output *out, json_val answer, int64_t *ret_status);

#endif
