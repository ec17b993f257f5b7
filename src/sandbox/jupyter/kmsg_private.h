/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_KMSG_PRIVATE_H
#define HUSK_SANDBOX_JUPYTER_KMSG_PRIVATE_H

#include "sandbox/jupyter/kmsg.h"

/* What the files of the message codec share. */

enum kmsg_type kmsg_type_find(const char *name);     /* NULL: KMSG_OTHER */
enum kmsg_stream kmsg_stream_find(const char *name); /* NULL: KMSG_STREAM_OTHER */

/* A string into a field of max + 1 bytes, cut to fit; empty if p is NULL or no valid UTF-8. */
void kmsg_copy_field(char *dst, size_t max, const char *p, size_t n);

/* Reads a parsed message; false if it is none (no msg_type in a header). size and trimmed are 0. */
bool kmsg_from_json(json_val root, struct kmsg *ret);

#endif
