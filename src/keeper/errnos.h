/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_ERRNOS_H
#define HUSK_KEEPER_ERRNOS_H

#include "base/err.h"

/* An error as the wire says it: its own errno, else one for its code. Never 0. */
int errno_of(const struct err *err);

#endif
