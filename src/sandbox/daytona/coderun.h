/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_CODERUN_H
#define HUSK_SANDBOX_DAYTONA_CODERUN_H

#include "base/buf.h"
#include "sandbox/output/output.h"

/* Takes what the answer of a run without an interpreter says, without I/O: output (both streams in
 * one), pictures, and where the status is not 0 the exception that the output ends with. false:
 * that is no such answer. */
bool coderun_take(struct output *out, json_val answer, int64_t *ret_status);

#endif
