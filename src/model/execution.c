/* SPDX-License-Identifier: MIT */
#include "model/execution.h"

#include <stdlib.h>
#include <string.h>

static const char *const reasons[] = {
    [REASON_NONE] = NULL,
    [REASON_COMPLETED] = "completed",
    [REASON_EXCEPTION] = "exception",
    [REASON_TIMEOUT] = "timeout",
    [REASON_INTERRUPTED] = "interrupted",
    [REASON_OOM] = "oom",
    [REASON_PIDS] = "pids",
    [REASON_DISK_FULL] = "disk_full",
    [REASON_KERNEL_DIED] = "kernel_died",
    [REASON_OUTPUT_LIMIT] = "output_limit",
    [REASON_GATEWAY_LOST] = "gateway_lost",
    [REASON_CLIENT_GONE] = "client_gone",
    [REASON_ABORTED] = "aborted",
};

static const char *const events[] = {
    [EVENT_EXECUTION] = "execution",
    [EVENT_STDOUT] = "stdout",
    [EVENT_STDERR] = "stderr",
    [EVENT_DISPLAY_DATA] = "display_data",
    [EVENT_EXECUTE_RESULT] = "execute_result",
    [EVENT_CLEAR_OUTPUT] = "clear_output",
    [EVENT_ERROR] = "error",
    [EVENT_GAP] = "gap",
    [EVENT_RESULT] = "result",
};

const char *
exec_reason_name(enum exec_reason r)
{
    return reasons[r];
}

int
exec_reason_parse(const char *s, enum exec_reason *ret)
{
    for (size_t i = REASON_COMPLETED; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (strcmp(reasons[i], s) == 0) {
            *ret = (enum exec_reason)i;
            return 1;
        }
    return 0;
}

const char *
exec_event_name(enum exec_event_type t)
{
    return events[t];
}

void
execution_result_init(struct execution_result *r)
{
    *r = (struct execution_result){.exit_code = -1, .execution_count = -1};
}

static void
bundles_free(struct bundle *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(b[i].data);
        free(b[i].metadata);
    }
    free(b);
}

void
execution_result_done(struct execution_result *r)
{
    free(r->out);
    free(r->err);
    free(r->error_name);
    free(r->error_value);
    for (size_t i = 0; i < r->n_traceback; i++)
        free(r->traceback[i]);
    free(r->traceback);
    bundles_free(r->results, r->n_results);
    bundles_free(r->displays, r->n_displays);
    for (size_t i = 0; i < r->n_plots; i++)
        free(r->plots[i].content_base64);
    free(r->plots);
    artifact_report_done(&r->artifacts);
    execution_result_init(r);
}
