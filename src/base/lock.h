/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_LOCK_H
#define HUSK_BASE_LOCK_H

#include "base/err.h"

#include <stdint.h>

/*
 * Byte-range locks of an open file description (F_OFD_SETLK): they die with the process that opened
 * the file, cannot be lost by another close() of the same file, and are not per thread.  One byte
 * is locked at the offset.  The descriptor must never reach a child: opened with O_CLOEXEC after
 * exec. Two shared holders that both upgrade both fail.
 */

/* Opens or creates the lock file (0660). The caller closes it, which ends all its locks. */
int lock_open(const char *path, struct err *err);

/* 1 got it, 0 somebody else holds it, -1 error with errno. Never block. */
int lock_try_shared(int fd, int64_t offset);
int lock_try_exclusive(int fd, int64_t offset);

int lock_release(int fd, int64_t offset);

/* 1 if anybody else holds it (shared or exclusive), 0 if not, -1 error; takes nothing. */
int lock_is_held(int fd, int64_t offset);

#endif
