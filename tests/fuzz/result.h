/* SPDX-License-Identifier: MIT */
#ifndef HUSK_FUZZ_RESULT_H
#define HUSK_FUZZ_RESULT_H

#include "model/execution.h"

#include <stdbool.h>
#include <stddef.h>

/* What every execution's events and result promise, whichever backend they come from. */

void must(bool ok); /* aborts */
void must_be_json(const char *p, size_t n);
/* max: the maximum of the output. */
void result_check(const struct execution_result *r, size_t max);

#endif
