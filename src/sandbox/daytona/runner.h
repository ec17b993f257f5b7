/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_RUNNER_H
#define HUSK_SANDBOX_DAYTONA_RUNNER_H

#include "base/buf.h"
#include "json/json.h"
#include "sandbox/output/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Our half inside the interpreter (runner.py): what it is sent, and what it says beside text. Pure:
 * no I/O.  Its messages stand in the text of the standard output, each named by the run's nonce, so
 * that no code of another run is taken for it.
 */
#define RUNNER_NONCE_BYTES 16
#define RUNNER_NONCE_SIZE (2 * RUNNER_NONCE_BYTES + 1)

/* The code that puts the runner into a new context, and prints the context's process. */
void runner_boot(struct buf *out);
/* The code that has the runner run code. */
void runner_call(struct buf *out, const char *nonce, const char *code, size_t n);
/* The error of such code in a context that has no runner: it was started anew behind our back. */
bool runner_missing(json_val error);

/* Messages of one run; one may come in parts. */
struct runner_reader {
    char mark[RUNNER_NONCE_SIZE + 1]; /* "" : there is no runner, all is text */
    struct buf message;
    uint64_t over; /* bytes of this message that did not fit */
    int64_t count; /* of the context's runs; -1 not told */
};

void runner_reader_init(struct runner_reader *r, const char *nonce); /* NULL: no runner */
void runner_reader_done(struct runner_reader *r);
/* Text of the standard output: what is the code's, and what the runner says of it, go to out. */
void runner_text(struct runner_reader *r, struct output *out, const char *p, size_t n);

#endif
