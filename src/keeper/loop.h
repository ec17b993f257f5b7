/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_LOOP_H
#define HUSK_KEEPER_LOOP_H

#include "base/err.h"

/*
 * Loop devices.  An image must never be behind two of them: both would be accepted, both mounted,
 * and the file system destroyed.  So whoever attaches looks for the image's own device first, and
 * does it while nobody else attaches this image (the caller has the volume's lock).
 */
#define LOOP_PATH_SIZE 32

/* The device behind which this open image is, attached if it was not yet (4 KiB blocks, direct I/O
 * where the host's file system can, gone by itself with its last user). Returns it open, so that it
 * stays until it is mounted, with its path in ret_path. ERR_UNAVAILABLE where there are none. */
int loop_attach(int image_fd, char ret_path[LOOP_PATH_SIZE], struct err *err);

#endif
