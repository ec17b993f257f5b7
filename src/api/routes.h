/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_ROUTES_H
#define HUSK_API_ROUTES_H

#include "api/call.h"

/* The query parameters a handler takes, space-separated. */
const char *route_query(const struct http_route *r);

#endif
