/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_OUTPUT_OUTPUT_H
#define HUSK_SANDBOX_OUTPUT_OUTPUT_H

#include "model/execution.h"
#include "sandbox/output/failure.h"
#include "sandbox/output/rich.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What one execution says, whatever backend runs it, becomes (a) events, in order, as it comes,
 * whole, and (b) a result that is bounded while it is collected.
 *
 * stdout and stderr: max_output_bytes each, the first and the last half kept, a marker line between
 * that says how many bytes were left out.  Carriage returns and backspaces are applied as a
 * terminal would (a progress bar leaves its last state); events carry the text as it came.
 * Rich data: max_output_bytes for all results, displays and pictures together; what does not fit
 * is counted and dropped whole.  Clearing and updates of displays are applied.
 * The error is always kept, within the maxima of failure.h.
 */
struct output;

struct output_options {
    int64_t max_output_bytes;
    void *ctx;
    void (*event)(void *ctx, const struct exec_event *ev); /* or NULL */
};

struct output *output_new(const struct output_options *o); /* o is copied */
void output_free(struct output *c);                        /* NULL is fine */

/* Text: valid UTF-8, no sequence is split. */
void output_text(struct output *c, bool is_err, const char *p, size_t n);
/* Text of n bytes that nobody has seen: a line says so in its place. */
void output_lost_text(struct output *c, bool is_err, uint64_t n);
void output_rich(struct output *c, const struct rich_source *m);
/* Rich data of n bytes that could not be read. */
void output_lost_rich(struct output *c, uint64_t n);
/* All that came so far is forgotten, now or (wait) when more comes. */
void output_clear(struct output *c, bool wait);
/* How the code failed; of several the last is the one that ended it. Takes what f holds. */
void output_error(struct output *c, struct failure *f);

bool output_has_error(const struct output *c);
/* stdout, stderr and rich so far, true sizes. */
int64_t output_bytes(const struct output *c);

/*
 * Moves what was collected into *ret, which is initialised here; execution_result_done frees it.
 * otherwise: the error where none came, or NULL; what it holds is taken then.  Afterwards c can
 * only be freed.
 */
void output_take(struct output *c, struct failure *otherwise, struct execution_result *ret);

#endif
