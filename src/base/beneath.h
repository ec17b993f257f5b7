/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_BENEATH_H
#define HUSK_BASE_BENEATH_H

/* How names may be resolved: reading follows relative links inside, writing follows none. */
enum beneath_links { LINKS_INSIDE, LINKS_NONE };

/* openat2(2) beneath dir_fd with O_CLOEXEC added; never through magic links or to another mount.
 * The descriptor, or -1 with errno (EXDEV or ELOOP: would lead out; EAGAIN: a lease). */
int beneath_open(int dir_fd, const char *path, int flags, enum beneath_links links);

#endif
