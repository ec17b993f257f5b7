/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_RUNTIME_H
#define HUSK_TESTS_SUPPORT_RUNTIME_H

#include "model/execution.h"
#include "sandbox/sandbox.h"

/* A sandbox and one runtime of it, with what hooks saw. */
struct runtime {
    struct sandbox *sb;
    struct runtime_made made;
    const char *dir; /* not NULL: runs tell it first, within 500 ms */
    /* of the last run */
    struct execution_result r;
    struct err err;
    int64_t took_ms;
    size_t events, event_bytes;
    int64_t longest_pause_ms; /* between two ticks */
    /* what the hooks say, once so many milliseconds have passed; 0 never */
    int64_t verdict_after_ms;
    enum hook_verdict verdict;
    int64_t began_ms, ticked_ms;
};

/* The backend with small bounds: 64 KiB of output, 30 MiB of flood. */
int runtime_backend(struct runtime *t, const char *url, const char *token);
int runtime_open(struct runtime *t);
/* Runs code; the result is in t->r until the next run. */
int runtime_run(struct runtime *t, const char *code, int64_t timeout_ms);
/* Fails the test unless it runs, ends for this reason and prints `out` (NULL: whatever). */
void runtime_expect(struct runtime *t, const char *code, int64_t timeout_ms,
                    enum exec_reason reason, const char *out);
void runtime_done(struct runtime *t); /* closes the runtime and frees all */

#endif
