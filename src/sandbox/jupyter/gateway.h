/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_GATEWAY_H
#define HUSK_SANDBOX_JUPYTER_GATEWAY_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "model/session.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The gateway's REST calls (Jupyter Server's /api/kernels and /api/kernelspecs, which Kernel
 * Gateway and Enterprise Gateway share).  Every call ends within http_timeout_ms and the deadline
 * it is given.  Failures: ERR_UNAVAILABLE with slug "gateway_unavailable" (not reached, no answer,
 * 5xx) or "gateway_error" (it answers, but not as a gateway that we may use: HTML, a redirect, a
 * refused token).
 */
struct gateway;

/* Of the options: gateway_*, kernel_name, http_timeout_ms; borrowed. */
int gateway_new(const struct sandbox_options *o, struct gateway **ret, struct err *err);
void gateway_free(struct gateway *g); /* NULL is fine */

/* Starts a kernel. Not repeated: a start whose answer is lost leaves a kernel without a row. */
int gateway_start(struct gateway *g, char ret_handle[HANDLE_MAX + 1], struct deadline d,
                  struct err *err);
/* Ends a kernel: 0 when the gateway confirms it (404 counts), else ERR_UNCERTAIN. */
int gateway_delete(struct gateway *g, const char *handle, struct deadline d, struct err *err);
/* ERR_CONFLICT "runtime_gone" for 404. */
int gateway_interrupt(struct gateway *g, const char *handle, struct deadline d, struct err *err);
/* Does code run in it, as the gateway last heard? 1 yes, 0 no or not said, -1 as gateway_interrupt.
 */
int gateway_busy(struct gateway *g, const char *handle, struct deadline d, struct err *err);
/* ALIVE_UNKNOWN comes with -1 and the error. */
int gateway_alive(struct gateway *g, const char *handle, struct deadline d, enum alive *ret,
                  struct err *err);
/* Kernels of our own kernel name. */
int gateway_list(struct gateway *g, sandbox_list_cb cb, void *ctx, struct deadline d,
                 struct err *err);
/* Reached, token good, kernelspec there? */
int gateway_ping(struct gateway *g, struct deadline d, struct err *err);

/* The same calls beside other work; one at a time, a new one cancels that before. */
enum gateway_call { CALL_NONE, CALL_ALIVE, CALL_INTERRUPT, CALL_DELETE };

struct gateway_answer {
    enum gateway_call call;
    bool reached;     /* the gateway gave an answer that counts */
    enum alive alive; /* ALIVE_NO after a delete that is confirmed, too */
};

int gateway_begin(struct gateway *g, enum gateway_call call, const char *handle, struct deadline d,
                  struct err *err);
enum gateway_call gateway_pending(const struct gateway *g);
/* 1 answered (or failed: reached is false), 0 not yet or nothing under way. Never waits. */
int gateway_step(struct gateway *g, struct gateway_answer *ret);
void gateway_cancel(struct gateway *g); /* what is under way, if anything */

/* The channels' WebSocket URL of a kernel, for a client session of ours. */
int gateway_channel_url(const struct gateway *g, const char *handle, const char *session,
                        struct buf *out, struct err *err);
/* The Authorization header's value, or NULL. */
const char *gateway_authorization(const struct gateway *g);

#endif
