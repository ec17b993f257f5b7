/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_CHANNEL_H
#define HUSK_SANDBOX_JUPYTER_CHANNEL_H

#include "base/err.h"
#include "base/id.h"
#include "model/session.h"
#include "sandbox/jupyter/gateway.h"
#include "sandbox/jupyter/kmsg.h"
#include "sandbox/transport/ws.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * One WebSocket to one kernel's channels.  Messages reach a sink only if they answer the request
 * that runs (by parent id); what else is to be known of the kernel is noted in the fields.
 */
struct channel {
    struct ws *ws;
    struct ws_pool *pool;
    struct kmsg_reader *reader;
    char handle[HANDLE_MAX + 1];          /* the kernel's id */
    char session[ID_UUID_SIZE];           /* ours: unique per channel, kept by channel_again() */
    char kernel_session[KMSG_ID_MAX + 1]; /* of the kernel's process, once it told us */
    char info_id[ID_UUID_SIZE];           /* the last channel_ask() or _tell(), and that before */
    char info_id_before[ID_UUID_SIZE];
    bool info_replied;
    bool subscribed;               /* something the kernel published came: all of it comes */
    bool told;                     /* it was channel_tell() */
    char refused[200];             /* what the kernel said when that failed, "" when it did not */
    char request_id[ID_UUID_SIZE]; /* what runs, "" for nothing */
    const struct kmsg_handler *sink;
    bool restarted;   /* the gateway said that the process ended */
    bool warm;        /* nothing has used it yet: it waits as long as the kernel does */
    bool foreign;     /* somebody else runs code there */
    int64_t heard_ms; /* when something last came in */
    int64_t used_ms;  /* when it was last put aside */
};

/* Begins to connect; the caller waits (ws_state(c->ws)). max_message bounds a message that is held
 * whole. */
int channel_new(struct gateway *g, struct ws_pool *p, const char *handle, size_t max_message,
                struct channel **ret, struct err *err);
void channel_free(struct channel *c); /* NULL is fine */

/* Connects anew under the same session id, so that the gateway replays what it held back. */
int channel_again(struct channel *c, struct gateway *g, struct err *err);

/* Asks the kernel who it is; info_replied and kernel_session tell. */
int channel_ask(struct channel *c, struct err *err);
/* The same by a silent execution of ours, which the kernel answers as well; `refused` tells whether
 * that went well. */
int channel_tell(struct channel *c, const char *code, struct err *err);

/* Sends code; what answers it goes to sink until channel_done(). */
int channel_execute(struct channel *c, const struct kmsg_execute *x,
                    const struct kmsg_handler *sink, struct err *err);
void channel_done(struct channel *c);

/* Open, and nothing happened there that makes it unfit for the next request. */
bool channel_fit(const struct channel *c);

#endif
