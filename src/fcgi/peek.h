/* SPDX-License-Identifier: MIT */
#ifndef HUSK_FCGI_PEEK_H
#define HUSK_FCGI_PEEK_H

#include <stddef.h>

/* Finds a parameter in the first bytes of a FastCGI connection (BEGIN_REQUEST and PARAMS records;
 * FastCGI 1.0, 3.3 and 3.4). The length of its value, which *ret borrows, or -1 when it is not
 * there, not whole yet, or the bytes are something else. A value that is split over two records is
 * not found. */
long fcgi_find_param(const void *p, size_t n, const char *name, const char **ret);

/* Looks at a connection's first bytes without taking them, waiting up to wait_ms for them: copies
 * the parameter (NUL-terminated), returns its length or -1. */
long fcgi_peek_param(int fd, const char *name, char *ret, size_t size, int wait_ms);

#endif
