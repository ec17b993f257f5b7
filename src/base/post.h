/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_POST_H
#define HUSK_BASE_POST_H

#include "base/err.h"

/*
 * Descriptors passed between processes of one user: a datagram socket at a path (0600), one
 * descriptor a message.  Nothing blocks.
 */

/* Binds a fresh socket at the path, whatever was there before; non-blocking, close-on-exec. */
int post_open(const char *path, struct err *err);

/* Sends a descriptor; the caller keeps its own copy. 0, or -1 when nobody takes it. */
int post_send(int post_fd, const char *to_path, int fd);

/* The next descriptor (close-on-exec; the caller closes it), -1 if there is none. */
int post_receive(int post_fd);

#endif
