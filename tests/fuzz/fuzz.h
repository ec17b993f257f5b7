/* SPDX-License-Identifier: MIT */
#ifndef HUSK_FUZZ_H
#define HUSK_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* What libFuzzer and replay_main.c call; a target aborts at a broken promise and returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
