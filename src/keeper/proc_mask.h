/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_PROC_MASK_H
#define HUSK_KEEPER_PROC_MASK_H

#include "base/err.h"

/* Hides, or makes read-only, what a fresh /proc shows of the whole machine. proc is its mount
 * point, relative to the working directory; the host's /dev/null is still in sight. */
int proc_mask(const char *proc, struct err *err);

#endif
