/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_COLLECT_H
#define HUSK_SANDBOX_JUPYTER_COLLECT_H

#include "model/execution.h"
#include "sandbox/jupyter/kmsg.h"
#include "sandbox/output/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The messages of one execution, on their way to struct output (output.h: events and bounded
 * result), and what they say of how it ended.  clear_output and update_display_data are applied.
 */
struct collect;

struct collect *collect_new(const struct output_options *o); /* o is copied */
void collect_free(struct collect *c);                        /* NULL is fine */

/* The three of struct kmsg_handler, after the caller has seen that the message is for this
 * execution (kmsg_is_for): messages of other parents do not belong here. */
void collect_text(struct collect *c, enum kmsg_stream s, const char *p, size_t n);
void collect_message(struct collect *c, const struct kmsg *m);
void collect_oversize(struct collect *c, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n);

struct collect_state {
    bool idle;      /* status idle was seen */
    bool replied;   /* execute_reply was seen */
    bool reply_ok;  /* and said ok */
    bool aborted;   /* and said aborted: the code did not run */
    bool has_error; /* an error message came, whatever the reply says */
    int64_t bytes;  /* stdout, stderr and rich so far, true sizes */
};

void collect_state(const struct collect *c, struct collect_state *ret);

/*
 * Moves what was collected into *ret, which is initialised here; execution_result_done frees it.
 * reason, ok and exit_code are what the reply says (REASON_NONE, -1 and incomplete without one;
 * incomplete without idle too): the caller overrides them where it knows better.  Afterwards c can
 * only be freed.
 */
void collect_take(struct collect *c, struct execution_result *ret);

#endif
