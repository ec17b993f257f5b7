/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_EVIDENCE_H
#define HUSK_MANAGER_EVIDENCE_H

#include "manager/internal.h"
#include "model/execution.h"
#include "workspace/keeper_client.h"

#include <stdbool.h>

/*
 * Why a run failed, by what the keeper counts: the sandbox's counters before and after it.  Where
 * nothing is counted, or the keeper does not answer, nothing is changed.
 */
struct evidence {
    bool taken;
    struct wire_counters before;
};

/* The counters as they stand. -1: ERR_CONFLICT "runtime_gone", the sandbox has ended, which the
 * gateway may not know yet. */
int evidence_before(struct evidence *e, struct manager *m, const struct sandbox *sb,
                    const char *handle, struct err *err);
/* Makes the reason of a run that failed by itself (an exception, or its kernel died) oom, pids or
 * disk_full where the counters say so. */
void evidence_after(const struct evidence *e, struct manager *m, const char *handle,
                    struct execution_result *r);
/* The judgement alone. */
enum exec_reason evidence_reason(const struct wire_counters *before,
                                 const struct wire_counters *after,
                                 const struct execution_result *r);

#endif
