/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_KMSG_SCAN_H
#define HUSK_SANDBOX_JUPYTER_KMSG_SCAN_H

#include "base/buf.h"
#include "sandbox/jupyter/kmsg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Looks at a message while it arrives, byte by byte and without its end: finds the few members that
 * say what it is, hands on a stream's text, and copies what the reader keeps.  Not a validator:
 * what is kept is parsed later; of a stream only the structure (strings and brackets) is checked.
 */

#define SCAN_OUT_MAX 32768 /* text is handed on in pieces of about this size */
#define SCAN_WORD_MAX 255  /* member names and short values that are looked at */

enum kmsg_scan_state { SCAN_STRUCTURE, SCAN_STRING, SCAN_DONE };

/* Names that mean something, at depth 1 and 2. */
enum kmsg_scan_member {
    MEMBER_OTHER,
    MEMBER_HEADER,
    MEMBER_PARENT,
    MEMBER_CONTENT,
    MEMBER_MSG_TYPE,
    MEMBER_SESSION,
    MEMBER_MSG_ID,
    MEMBER_NAME,
    MEMBER_TEXT
};

enum kmsg_scan_sink { SINK_NONE, SINK_WORD, SINK_TEXT }; /* where a string's characters go */

struct kmsg_scan {
    /* set by the owner before kmsg_scan_begin */
    const struct kmsg_handler *handler;
    struct buf *keep; /* what is kept of the message's bytes; a failed append sticks in it */

    /* results */
    struct kmsg_head head;
    enum kmsg_stream stream;
    bool have_header, have_parent;
    bool streaming; /* the text is (or was) handed on: nothing is kept */
    bool trim;      /* long strings and arrays are cut */
    bool trimmed;
    bool bad;      /* unbalanced, or a wrong escape in a stream's text */
    bool too_deep; /* nested over KMSG_DEPTH_MAX: the rest was not looked at */

    /* position */
    enum kmsg_scan_state state;
    int depth;
    uint64_t arrays; /* a bit per level: it is an array */
    bool expect_key; /* the next string at this level is a member's name */
    enum kmsg_scan_member at1, at2;
    uint32_t items[KMSG_DEPTH_MAX + 1];
    int skip_depth; /* > 0: the rest of the array at this depth is not kept */

    /* the string being read */
    enum kmsg_scan_sink sink;
    bool is_key;
    bool text_ended;
    size_t string_len, string_max; /* bytes kept of it */
    char escape[6];
    size_t escape_len;
    unsigned high;     /* a high surrogate waiting for its partner */
    const char *quote; /* the next quote of this chunk, or its end */
    char word[SCAN_WORD_MAX + 1];
    size_t word_len;
    size_t out_len;
    bool bare_high; /* out holds bytes over 0x7f that came unescaped */
    char out[SCAN_OUT_MAX + 4];
};

void kmsg_scan_begin(struct kmsg_scan *s);

/* Looks at the next n bytes, or fewer: stops after the message's structure no longer matters (the
 * rest need not be looked at, state is SCAN_DONE then).  Returns how many were taken. */
size_t kmsg_scan_add(struct kmsg_scan *s, const char *p, size_t n);

/* At the end of the message: was it one whole object? Only if the state is not SCAN_DONE. */
bool kmsg_scan_whole(const struct kmsg_scan *s);

/* Hands on text that is valid UTF-8 or not, scrubbed. */
void kmsg_scan_emit(const struct kmsg_scan *s, const char *p, size_t n);

#endif
