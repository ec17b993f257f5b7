/* SPDX-License-Identifier: MIT */
#ifndef HUSK_HTTP_CONDITIONAL_H
#define HUSK_HTTP_CONDITIONAL_H

#include "http/http.h"

/* Preconditions of RFC 9110 13 against the state of a representation; exists false: there is none.
 * Returns 0 go on, 304, 412, or 400 when a header is malformed. Strong comparison for If-Match,
 * weak for If-None-Match. */
int http_precondition(const struct http_exchange *x, bool exists, const char *etag,
                      int64_t mtime_wall_ms);
/* If-Range: true when ranges may be served (strong etag equal, or the date matches). */
bool http_if_range(const struct http_exchange *x, const char *etag, int64_t mtime_wall_ms);

#endif
