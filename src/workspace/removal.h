/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_REMOVAL_H
#define HUSK_WORKSPACE_REMOVAL_H

#include "base/err.h"

/* removal_run() with what it meets put as an error of ours. `shown` is the name for messages. */
int workspace_removal(int top_fd, int parent_fd, const char *name, const char *shown,
                      struct err *err);

#endif
