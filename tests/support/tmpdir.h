/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_TMPDIR_H
#define HUSK_TESTS_SUPPORT_TMPDIR_H

#include <limits.h>
#include <stddef.h>

/* A fresh folder below $TMPDIR or /tmp; ends the test program when it cannot be made. */
void tmpdir_make(char out[PATH_MAX]);
/* Removes it with all that is in it, no links followed. */
void tmpdir_remove(const char *path);
/* dir/name as a string in out. */
const char *tmpdir_path(char out[PATH_MAX], const char *dir, const char *name);

#endif
