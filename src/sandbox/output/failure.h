/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_OUTPUT_FAILURE_H
#define HUSK_SANDBOX_OUTPUT_FAILURE_H

#include "base/buf.h"
#include "json/json.h"

#include <stdbool.h>
#include <stddef.h>

#define FAILURE_NAME_MAX 1024   /* bytes */
#define FAILURE_VALUE_MAX 65536 /* bytes */
#define FAILURE_FRAMES_MAX 200  /* of a traceback: the first and the last half are kept */
#define FAILURE_FRAME_MAX 8192  /* bytes */

/* How code failed: an exception as the kernel tells it, within the maxima above. */
struct failure {
    char *name, *value; /* heap, valid UTF-8; NULL: there is none */
    char **traceback;   /* heap */
    size_t n_traceback;
    bool cut; /* something was left out */
};

/*
 * From the content of an error message or of a reply.  Whatever is there is taken: a missing name
 * becomes "Error", a missing value "", what is no string its JSON text.
 */
void failure_read(struct failure *ret, json_val content);
/* The same from its three parts; a traceback that is one text is taken line by line. */
void failure_of(struct failure *ret, json_val name, json_val value, json_val traceback);

/* The same from a traceback as text, p[0..n), whose last lines, from `line` on, say "Name: value".
 */
void failure_lines(struct failure *ret, const char *p, size_t n, const char *line);

/* One that could not be read. */
void failure_unreadable(struct failure *ret, const char *value);
void failure_done(struct failure *f); /* frees; none afterwards */

/* The error event as JSON text. 0, or -1 without memory. */
int failure_event(struct buf *out, const struct failure *f);

#endif
