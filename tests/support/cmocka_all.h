/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SUPPORT_CMOCKA_ALL_H
#define HUSK_SUPPORT_CMOCKA_ALL_H

/* cmocka.h with what it wants to be included before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
