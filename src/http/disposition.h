/* SPDX-License-Identifier: MIT */
#ifndef HUSK_HTTP_DISPOSITION_H
#define HUSK_HTTP_DISPOSITION_H

#include "base/buf.h"

#include <stddef.h>

/* The media type by a file name's end; never one that a browser would run as ours (HTML, SVG, XML,
 * JS become application/octet-stream). Static. */
const char *http_media_type(const char *name, size_t n);

/* A Content-Disposition value: attachment, or inline for plain pictures; an ASCII filename and,
 * when needed, filename* (RFC 6266, RFC 8187). */
int http_disposition(struct buf *out, const char *name, size_t n);

#endif
