/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_CHUNK_H
#define HUSK_SANDBOX_DAYTONA_CHUNK_H

#include "base/buf.h"
#include "sandbox/daytona/runner.h"
#include "sandbox/output/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages of the interpreter's WebSocket. Pure: no I/O. */

#define CHUNK_MAX                                                                                  \
    (8u * 1024 * 1024) /* bytes of a message that is read; of more only the size is                \
                        */

enum chunk_type {
    CHUNK_OTHER,
    CHUNK_OUTPUT,
    CHUNK_ERROR,
    CHUNK_NO_RUNNER, /* an error: the context is not the one that was made ready */
    CHUNK_COMPLETED,
    CHUNK_INTERRUPTED
};

/* Puts messages together from the pieces they come in, and hands on what they say. */
struct chunk_reader {
    struct output *out;
    struct buf message;
    uint64_t over; /* bytes of this message that did not fit */
    struct runner_reader runner;
};

/* nonce: of the run, as the runner got it; NULL where the code goes without one. */
void chunk_reader_init(struct chunk_reader *r, struct output *out, const char *nonce);
void chunk_reader_done(struct chunk_reader *r);

/* The next n bytes of a message; what it was is known with its last (CHUNK_OTHER before that, and
 * for what is no message of the interpreter). */
enum chunk_type chunk_add(struct chunk_reader *r, const char *p, size_t n, bool final);

/* The first message of an execution; context NULL: the default one. */
void chunk_request(struct buf *out, const char *code, size_t n, const char *context,
                   int64_t timeout_s);

#endif
