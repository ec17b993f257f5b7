/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_TRANSPORT_WS_H
#define HUSK_SANDBOX_TRANSPORT_WS_H

#include "base/clock.h"
#include "base/err.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * WebSocket connections (RFC 6455) over libwebsockets, several in one pool.  The library never
 * waits: the caller polls the descriptors (or calls ws_wait, which does) and every wait has an end.
 * Incoming messages are handed on in pieces as they arrive, so that their size has no bound here
 * and needs none.
 */
struct ws_pool;
struct ws;

/* One pool a process; must not cross a fork. ca_file (or NULL: the system's) serves wss:// URLs. */
int ws_pool_new(const char *ca_file, struct ws_pool **ret, struct err *err);
void ws_pool_free(struct ws_pool *p); /* with all its connections; NULL is fine */

/* A piece of a message; never called but from within ws_service() and ws_wait(). Must not call
 * anything of this header. */
typedef void (*ws_piece_cb)(void *ctx, const char *p, size_t n, bool first, bool final);

/*
 * Begins to connect to a ws:// or wss:// URL; authorization is the value of that header, or NULL.
 * ERR_INVALID for a bad URL, ERR_UNAVAILABLE if it fails at once.  Free with ws_close().
 */
int ws_connect(struct ws_pool *p, const char *url, const char *authorization, ws_piece_cb piece,
               void *ctx, struct ws **ret, struct err *err);

enum ws_state { WS_CONNECTING, WS_OPEN, WS_CLOSED };
enum ws_state ws_state(const struct ws *w);
/* The status code its peer closed it with (RFC 6455, 7.4), 0 if none came. */
int ws_close_code(const struct ws *w);
/* Why it closed: text for a person, never NULL. */
const char *ws_reason(const struct ws *w);

#define WS_SEND_MAX (16u * 1024 * 1024) /* bytes waiting to go out */
/* Queues a text message (copied). ERR_LIMIT, or ERR_UNAVAILABLE if it is not open. */
int ws_send(struct ws *w, const char *p, size_t n, struct err *err);
/* Whether any of it still waits for the socket. */
bool ws_sending(const struct ws *w);

/* Its socket and what to wait for there: 1 filled, 0 there is none. */
int ws_pollfd(const struct ws *w, struct pollfd *ret);
/* Moves all connections of the pool without waiting. Call when one is ready, and every second. */
void ws_service(struct ws_pool *p);
/*
 * Waits until a connection of the pool or extra (NULL, or of n_extra) is ready, at most max_ms, and
 * services the pool.
 */
void ws_wait(struct ws_pool *p, struct pollfd *extra, int n_extra, int max_ms);

/* Closes politely, without waiting for the other end, and frees. NULL is fine. */
void ws_close(struct ws *w);

#endif
