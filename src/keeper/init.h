/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_INIT_H
#define HUSK_KEEPER_INIT_H

#include "keeper/box.h"

#include <stdint.h>

/*
 * The first process of a sandbox: makes it, confines itself, starts the interpreter, and from then
 * on passes signals to it, reaps what is orphaned, and ends as the interpreter ends.
 */

/* What init says to the monitor, once; with the listener of notifications as a descriptor where
 * there is one. */
struct init_report {
    int32_t error, code; /* an errno and an enum err_code, both 0 when the interpreter runs */
    char what[400];
};

/* Its exit codes, where it has not become the interpreter's. */
#define INIT_EXIT_FAILED 71 /* told in the report */
#define INIT_EXIT_ORPHAN 72 /* the monitor is gone */

/* Waits for one byte on `monitor` (a packet socket) before it does anything. Never returns. */
_Noreturn void init_run(const struct box_spec *s, int monitor);

#endif
