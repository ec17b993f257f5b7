/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_FOLDER_H
#define HUSK_WORKSPACE_FOLDER_H

#include "base/err.h"

#include <stddef.h>

/*
 * Opens a folder (checked path, "" is the root) and makes what is missing of it, one component at
 * a time, no links followed.  Returns an O_PATH descriptor; *ret_made_from is the length of the
 * shortest prefix made here together with all below it, or the whole length + 1 if nothing was.
 * A failure leaves nothing made.
 */
int folder_open_making(int root_fd, const char *folder, size_t *ret_made_from, struct err *err);

/* Removes the folders that folder_open_making() made, where they are empty. */
void folder_unmake(int root_fd, const char *folder, size_t made_from);

#endif
