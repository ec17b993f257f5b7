/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_BUF_H
#define HUSK_BASE_BUF_H

#include "base/cleanup.h"
#include "base/err.h"

#include <stdarg.h>
#include <stddef.h>

/*
 * A growing byte buffer with a mandatory maximum.  data is NUL-terminated behind len once anything
 * was appended (the NUL is not counted).  A failed append changes nothing and returns -1 with
 * failed set, which sticks until buf_clear: a run of appends can be checked once at the end.
 */
struct buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max; /* largest len */
    int failed; /* an append did not fit or there was no memory */
};

#define BUF_INIT(max_bytes)                                                                        \
    {                                                                                              \
        NULL, 0, 0, (max_bytes), 0                                                                 \
    }

void buf_init(struct buf *b, size_t max_bytes);
void buf_done(struct buf *b);  /* frees; b stays usable */
void buf_clear(struct buf *b); /* len 0, keeps the memory */

int buf_append(struct buf *b, const void *p, size_t n);
int buf_puts(struct buf *b, const char *s);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Makes room for n more bytes and returns where to write them, NULL on failure. Follow with
 * buf_added(). */
char *buf_reserve(struct buf *b, size_t n);
void buf_added(struct buf *b, size_t n);

/* Removes n bytes from the front. */
void buf_consume(struct buf *b, size_t n);

/* The bytes as a C string, "" when empty; borrowed until the next change. */
const char *buf_str(const struct buf *b);

/* Moves the (NUL-terminated) memory out; the caller frees it. Never NULL unless memory ran out. */
char *buf_steal(struct buf *b, size_t *ret_len);

/* 0, or -1 with ERR_LIMIT naming `what` and the maximum when an append has failed. */
int buf_check(const struct buf *b, const char *what, struct err *err);

#define _cleanup_buf_ _cleanup_(buf_done)

#endif
