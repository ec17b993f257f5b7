/* SPDX-License-Identifier: MIT */
#ifndef HUSK_LAUNCH_CONNECTION_H
#define HUSK_LAUNCH_CONNECTION_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

/*
 * The connection file that a gateway writes for a kernel (jupyter_client, "Connection files"): a
 * flat JSON object.  Only what a kernel needs is taken, and what goes on is written anew, so
 * nothing that is not understood reaches the sandbox.
 */
enum connection_channel {
    CHANNEL_SHELL,
    CHANNEL_IOPUB,
    CHANNEL_STDIN,
    CHANNEL_CONTROL,
    CHANNEL_HB
};
#define CONNECTION_CHANNELS 5
#define CONNECTION_FILE_MAX 8192

struct connection {
    char ip[200];                   /* with transport ipc: the sockets' common path */
    int ports[CONNECTION_CHANNELS]; /* 1 to 65535, all different */
    char key[200], scheme[40], kernel_name[100];
};

/* Reads the object. ERR_INVALID says what is wrong with it, ERR_UNAVAILABLE that its transport is
 * not ipc. */
int connection_parse(const char *text, size_t n, struct connection *ret, struct err *err);

/* The file a kernel inside reads: the same key and ports, no path of the gateway's. */
int connection_write(const struct connection *c, struct buf *out);

/* The path of a channel's socket, where the gateway will connect. 0, -1 if it is too long. */
int connection_socket(const struct connection *c, enum connection_channel channel, char *ret,
                      size_t room);

/* The kernel's id from the file's name, "…/kernel-<id>.json", 8 to max - 1 bytes of [0-9a-f-]. */
int connection_kernel(const char *path, char *ret, size_t max, struct err *err);

#endif
