/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_REMOVAL_H
#define HUSK_WORKSPACE_REMOVAL_H

#include "base/err.h"

/* Looks at this many entries at most. */
#define REMOVAL_MAX_ENTRIES 5000000

/*
 * Removes `name` in parent_fd with all below it, no links followed, no other mount entered.  What
 * lies too deep is moved up into top_fd under a hidden name first, so that depth costs neither
 * descriptors nor stack.  Goes on past what cannot be removed and then reports the first reason.
 * `shown` is the name for messages.
 */
int removal_run(int top_fd, int parent_fd, const char *name, const char *shown, struct err *err);

#endif
