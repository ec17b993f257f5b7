/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_REMOVAL_H
#define HUSK_BASE_REMOVAL_H

/* Looks at this many entries at most. */
#define REMOVAL_MAX_ENTRIES 5000000

/*
 * Removes `name` in parent_fd with all below it, no links followed, no other mount entered.  What
 * lies too deep is moved up into top_fd first, under names that begin with `prefix` (at most 40
 * bytes, of this removal alone), so that depth costs neither descriptors nor stack.  Goes on past
 * what cannot be removed.  0, or -1 with the first reason in errno (E2BIG: more than
 * REMOVAL_MAX_ENTRIES; run it again).
 */
int removal_run(int top_fd, int parent_fd, const char *name, const char *prefix);

#endif
