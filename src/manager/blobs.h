/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_BLOBS_H
#define HUSK_MANAGER_BLOBS_H

#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Contents by their SHA-256, each one file DIR/ab/cdef…, written under another name, put on disk
 * and renamed: what has its name is whole.  dir_fd is the folder's descriptor, as blobs_open()
 * gives it.
 */
int blobs_open(const char *dir, struct err *err);

/* Stores what fd holds from its start, at most max bytes. Slugs: file_too_large, disk_full,
 * ERR_TIMEOUT; ERR_UNAVAILABLE when it cannot be read. Content that is there already counts as
 * written just now. */
int blobs_put(int dir_fd, int fd, int64_t max, struct deadline d, char ret_sha256[SHA256_HEX_SIZE],
              int64_t *ret_size, struct err *err);
/* ERR_INTERNAL if it is not there. */
int blobs_get(int dir_fd, const char *sha256, int *ret_fd, struct err *err);
bool blobs_there(int dir_fd, const char *sha256);
int blobs_remove(int dir_fd, const char *sha256);

/* Calls fn for contents last written before, in one pass from a random place on, and removes left
 * behind temporary files of that age, until the deadline. */
void blobs_old(int dir_fd, int64_t before_wall_ms, struct deadline d,
               void (*fn)(void *ctx, const char *sha256), void *ctx);

#endif
