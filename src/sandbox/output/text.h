/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_OUTPUT_TEXT_H
#define HUSK_SANDBOX_OUTPUT_TEXT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_LINE_MAX 8192 /* bytes of a line that can still be overwritten */
#define TEXT_MARKER_MAX 64 /* bytes of the line that stands for what was left out */

enum text_escape { TEXT_PLAIN, TEXT_ESC, TEXT_CSI, TEXT_OSC, TEXT_OSC_ESC };

/*
 * Output text of any length in bounded memory: the first and the last half of max bytes are kept.
 * The line being written is kept as a terminal would show it: \r goes back to its beginning, \b one
 * place, what follows overwrites, \n ends it wherever the cursor is.  Escape sequences are kept as
 * they are and take no place; only "erase to the end of the line" is carried out where there is
 * something to erase.  A line longer than TEXT_LINE_MAX can be overwritten in its last part only.
 */
struct text {
    size_t max;
    struct buf head;
    char *tail; /* ring, grown up to its maximum before it wraps */
    size_t tail_cap, tail_len, tail_pos;
    uint64_t left_out;
    char left[TEXT_LINE_MAX];  /* of the line: before the cursor */
    char right[TEXT_LINE_MAX]; /* after it, at the array's end */
    size_t left_len, right_off;
    enum text_escape escape;
};

void text_init(struct text *t, size_t max_bytes);
void text_done(struct text *t);  /* frees */
void text_clear(struct text *t); /* forgets everything that was added */

/* p is valid UTF-8 without a cut sequence at either end. */
void text_add(struct text *t, const char *p, size_t n);

/* What was kept, heap, at most max + TEXT_MARKER_MAX bytes, valid UTF-8; NULL if there is no
 * memory.  t is empty afterwards. */
char *text_take(struct text *t, size_t *ret_len, bool *ret_cut);

#endif
