/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_KMSG_H
#define HUSK_SANDBOX_JUPYTER_KMSG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "json/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Messages of the Jupyter protocol 5.3 as they travel, in JSON, on a gateway's channels WebSocket
 * (https://jupyter-client.readthedocs.io/en/stable/messaging.html).  Pure: no I/O.
 */

#define KMSG_ID_MAX 128           /* msg_id and session: longer ones are cut */
#define KMSG_TYPE_NAME_MAX 64     /* msg_type */
#define KMSG_DEPTH_MAX 60         /* nesting of a message that is parsed */
#define KMSG_STRING_MAX 65536     /* a string of an error or a reply; longer ones are cut */
#define KMSG_ITEM_STRING_MAX 8192 /* the same inside an array (a traceback's frame) */
#define KMSG_ITEMS_MAX 1000 /* items of an array of an error or a reply; the rest is dropped */

/* ---- requests ---- */

struct kmsg_execute {
    const char *code;
    size_t code_len;
    bool silent;
    bool store_history;
    bool allow_stdin;
    bool stop_on_error;
    const char *user_expressions; /* the text of a JSON object, or NULL for none */
};

/*
 * Append one request for the shell channel to out.  msg_id is made fresh for every call (a kernel
 * drops a message whose signature it has seen) and returned: replies carry it as their parent.
 * session is the client's session id.  0, or -1 with ERR_LIMIT when out's maximum is exceeded.
 */
int kmsg_execute_request(struct buf *out, const char *session, const struct kmsg_execute *x,
                         char ret_id[ID_UUID_SIZE], struct err *err);
int kmsg_kernel_info_request(struct buf *out, const char *session, char ret_id[ID_UUID_SIZE],
                             struct err *err);

/* ---- messages ---- */

enum kmsg_type {
    KMSG_OTHER, /* unknown, or none of our business */
    KMSG_STREAM,
    KMSG_DISPLAY_DATA,
    KMSG_UPDATE_DISPLAY_DATA,
    KMSG_EXECUTE_RESULT,
    KMSG_CLEAR_OUTPUT,
    KMSG_ERROR,
    KMSG_STATUS,
    KMSG_EXECUTE_REPLY,
    KMSG_KERNEL_INFO_REPLY,
    KMSG_INPUT_REQUEST
};

enum kmsg_channel { KMSG_CHANNEL_UNKNOWN, KMSG_SHELL, KMSG_IOPUB, KMSG_STDIN, KMSG_CONTROL };

enum kmsg_stream { KMSG_STREAM_OTHER, KMSG_STDOUT, KMSG_STDERR };

enum kmsg_state {
    KMSG_STATE_UNKNOWN,
    KMSG_STATE_STARTING,
    KMSG_STATE_BUSY,
    KMSG_STATE_IDLE,
    KMSG_STATE_RESTARTING, /* autorestarting too: told by the gateway, without a parent */
    KMSG_STATE_DEAD
};

/* Who a message is from and what it answers. Empty strings where the message has none. */
struct kmsg_head {
    enum kmsg_type type;
    char type_name[KMSG_TYPE_NAME_MAX + 1];
    char session[KMSG_ID_MAX + 1];   /* of the kernel's process: another value, another process */
    char parent_id[KMSG_ID_MAX + 1]; /* msg_id of the request */
};

/* A message that fitted. content and metadata are borrowed for the length of the call. */
struct kmsg {
    struct kmsg_head head;
    enum kmsg_channel channel;
    json_val content;  /* absent if it is no object */
    json_val metadata; /* absent if it is no object */
    size_t size;       /* bytes of the message */
    bool trimmed;      /* strings or items were left out (errors and replies only) */
};

/* Does it answer this request? */
bool kmsg_is_for(const struct kmsg_head *h, const char *msg_id);

/* execution_state of a status message. */
enum kmsg_state kmsg_execution_state(const struct kmsg *m);

/* ---- reading ---- */

/*
 * Where messages go, in the order they came.  All are needed.  Called from kmsg_reader_add, which
 * they must not call.
 */
struct kmsg_handler {
    void *ctx;
    /* A stream message's text, in pieces: valid UTF-8, no sequence is split.  Every stream message
     * whose header and name precede its text comes so, small ones too, of any size. */
    void (*text)(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n);
    /* Any other message that fits into max_bytes. */
    void (*message)(void *ctx, const struct kmsg *m);
    /* A message over max_bytes (or nested over KMSG_DEPTH_MAX), all of it dropped; n is its size in
     * bytes.  s is the stream's, of a stream message that could not be handed on in pieces. */
    void (*oversize)(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n);
};

/*
 * Puts messages together from the chunks they come in.  Memory is bounded by max_bytes (plus a
 * constant, plus the parsed document) however large a message is.
 */
struct kmsg_reader;

struct kmsg_reader *kmsg_reader_new(size_t max_bytes, const struct kmsg_handler *h);
void kmsg_reader_free(struct kmsg_reader *r); /* NULL is fine */

/*
 * The next n bytes of a WebSocket message; final with its last.  0, or -1 with ERR_INVALID (at
 * final only) when the message was no Jupyter message; it is dropped then, and the next one can be
 * read.  Text of a stream may have been handed on before.
 */
int kmsg_reader_add(struct kmsg_reader *r, const char *p, size_t n, bool final, struct err *err);

/* Forgets a message that is half read (the connection is gone). */
void kmsg_reader_reset(struct kmsg_reader *r);

#endif
