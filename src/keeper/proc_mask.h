/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_PROC_MASK_H
#define HUSK_KEEPER_PROC_MASK_H

#include "base/err.h"

/* Hides, or makes read-only, what a fresh /proc shows of the whole machine. proc is its mount
 * point in the new root, which is the working directory and has its dev/null. */
int proc_mask(const char *proc, struct err *err);

#endif
