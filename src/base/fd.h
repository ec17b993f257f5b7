/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_FD_H
#define HUSK_BASE_FD_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

int fd_set_cloexec(int fd, bool on);
int fd_set_nonblock(int fd, bool on);

/* All n bytes, over EINTR and short calls. 0, or -1 with errno (reads: ENODATA at an early end). */
int fd_write_all(int fd, const void *p, size_t n);
int fd_read_all(int fd, void *p, size_t n);
int fd_pread_all(int fd, void *p, size_t n, off_t at);

/* Waits for poll(2) events; 1 ready, 0 deadline passed, -1 error (EINTR is continued). */
int fd_wait(int fd, short events, struct deadline d);

/* As many descriptors as may be. Linux also refuses to pass any to another process when as many as
 * the sender may have are on their way between processes of the same user, whoever sent those. */
void fd_raise_limit(void);

/* True when the peer of a stream socket has closed or reset it (POLLRDHUP). Never blocks. */
bool fd_peer_gone(int fd);

/* Reads a whole small file (up to the buffer's maximum). */
int fd_read_file(const char *path, struct buf *ret, struct err *err);

/* mkdir -p below an existing root; 0 also when it is there already. */
int fd_mkdirs(const char *path, unsigned mode, struct err *err);

#endif
