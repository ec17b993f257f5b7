/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_INTERPRETER_H
#define HUSK_KEEPER_INTERPRETER_H

#include "base/err.h"
#include "keeper/box.h"

/* stdin (/dev/null), stdout, stderr and the five listeners cross the exec, nothing else. */
#define INTERPRETER_FDS 8

/* In the interpreter's own process, already of the session's uid: its descriptors, its home, its
 * confinement, its environment (built from nothing), its exec. Returns only when something failed;
 * *notify_fd is set once the filter has a listener. */
int interpreter_exec(const struct box_spec *s, int *notify_fd, struct err *err);

#endif
