/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_RUN_H
#define HUSK_MANAGER_RUN_H

#include "base/digest.h"
#include "manager/capture.h"
#include "manager/evidence.h"
#include "manager/internal.h"
#include "spool/spool.h"

#include <stdbool.h>
#include <stdint.h>

/* One call of manager_exec, from its hold to its answer. */
struct run {
    struct manager *m;
    const struct execution_request *req;
    const struct exec_callbacks *cb;
    bool goes_on; /* a caller that leaves does not end it */
    struct session s;
    struct turn turn;
    struct capture capture;
    struct execution row;
    bool bound; /* the runtime was told its directory ahead of the code */
    struct evidence evidence;
    bool announced;
    struct spool_writer *spool; /* NULL: could not be made; the run goes on without */
    int64_t seq;                /* of the last event */
    bool asked;                 /* another process wants it interrupted */
    int64_t asked_looked_ms;
    int64_t began_ms; /* monotonic */
};

/* run.c: the part between the committed row and the recorded end. `out` gets result and row. */
void run_code(struct run *r, struct exec_outcome *out);
/* Does the caller want the wait to end? For struct wait. */
bool run_given_up(void *run);

/* exec.c: the look for an earlier request alone, as manager_exec does it first: 1 *ret is the
 * replay, 0 none, -1. */
int exec_replay(struct manager *m, const struct caller *c, const char *name,
                const struct execution_request *q, struct exec_outcome *ret, struct err *err);

/* manager_exec in a session that the caller holds, and goes on holding; *held is the session as it
 * is then. */
int exec_in(struct manager *m, const struct caller *c, struct session *held,
            const struct execution_request *q, const struct exec_callbacks *cb,
            struct exec_outcome *ret, struct err *err);

/* inputs.c: the request's inputs into the session, with its turn: what another run reads is not
 * changed under it, nor are these before they are read. Errors of uploads. */
int inputs_put(struct run *r, struct err *err);

/* replay.c */
void digest_request(const struct execution_request *q, char ret_code[SHA256_HEX_SIZE],
                    char ret_body[SHA256_HEX_SIZE]);
/* Was this request, or one with its idempotency key, seen before? 1 and *ret is the replay, 0 no,
 * -1 duplicate_request or idempotency_mismatch. */
int replay_find(struct manager *m, const struct caller *c, const char *name,
                const struct execution_request *q, const char *body_sha256,
                struct exec_outcome *ret, struct err *err);
/* *ret stands for an execution that was found. */
int replay_of(struct manager *m, const struct execution *seen, struct exec_outcome *ret,
              struct err *err);

#endif
