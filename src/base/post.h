/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_POST_H
#define HUSK_BASE_POST_H

#include "base/err.h"

#include <stdint.h>

/*
 * Descriptors passed between processes of one user: a datagram socket at a path (0600), one
 * descriptor and one number a message.  Nothing blocks.
 */

/* Binds a fresh socket at the path, whatever was there before; non-blocking, close-on-exec. */
int post_open(const char *path, struct err *err);

/* Sends a descriptor with a number that means something to both; the caller keeps its own copy.
 * 0, or -1 when nobody takes it. */
int post_send(int post_fd, const char *to_path, int fd, uint64_t note);

/* The next descriptor (close-on-exec; the caller closes it) and its number, -1 if there is none or
 * the message is not one of post_send's. */
int post_receive(int post_fd, uint64_t *ret_note);

#endif
