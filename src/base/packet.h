/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_PACKET_H
#define HUSK_BASE_PACKET_H

#include "base/clock.h"
#include "base/err.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * Packets between processes of this machine: SOCK_SEQPACKET sockets, where a message is whole or
 * not there, and descriptors ride with it (SCM_RIGHTS).  Sizes are fixed by the protocol, so a
 * packet of another size is refused.  Everything waits to its deadline at most.
 */
#define PACKET_FDS_MAX 8
#define PACKET_BACKLOG 128

/* Binds and listens at a path that is free; the socket has this owner and mode (no moment at which
 * others may connect). Returns the descriptor (non-blocking, close-on-exec) or -1. */
int packet_listen(const char *path, uid_t uid, gid_t gid, mode_t mode, struct err *err);

/* Connects; err->sys_errno tells ENOENT and ECONNREFUSED (nobody listens) from EACCES and from
 * EAGAIN (the backlog was full to the deadline). */
int packet_connect(const char *path, struct deadline d, struct err *err);

/* Sends one packet with up to PACKET_FDS_MAX descriptors, which the caller keeps. 0, -1 errno. */
int packet_send(int fd, const void *p, size_t n, const int *fds, int n_fds, struct deadline d);

/* Receives one packet of exactly n bytes. 1 got it, with *ret_n_fds descriptors (close-on-exec,
 * the caller's); 0 the peer has closed; -1 ERR_TIMEOUT, or ERR_INVALID for another size or more
 * than max_fds descriptors (all closed then). */
int packet_receive(int fd, void *p, size_t n, int *fds, int max_fds, int *ret_n_fds,
                   struct deadline d, struct err *err);

/* Who connected (or, seen from there, who listens). 0, -1 errno. */
int packet_peer(int fd, struct ucred *ret);

#endif
