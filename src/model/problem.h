/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MODEL_PROBLEM_H
#define HUSK_MODEL_PROBLEM_H

#include "base/err.h"

#include <stddef.h>

/*
 * The table of stable error codes: what an err's slug may be, the HTTP status it gives, its title
 * and what a client should do.  docs/errors.md is generated from it.
 */
struct problem {
    const char *slug;
    int status;
    const char *title;
    const char *help; /* when it comes and what to do, one or two sentences */
};

/* NULL if there is no such slug. */
const struct problem *problem_find(const char *slug);

/* The entry for an error: by its slug, else the default of its code. Never NULL. */
const struct problem *problem_of(const struct err *err);

/* The whole table, in its order. */
const struct problem *problem_table(size_t *ret_n);

#endif
