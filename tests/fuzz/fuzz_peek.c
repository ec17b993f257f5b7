/* SPDX-License-Identifier: MIT */
#include "fuzz/fuzz.h"

#include <stdlib.h>

#include "fcgi/peek.h"

/* Whatever bytes arrive: a value found lies within them. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *value, *p = (const char *)data;
    long n = fcgi_find_param(data, size, "REQUEST_URI", &value);

    if (n >= 0 && (value < p || (size_t)n > size || value > p + (size - (size_t)n)))
        abort();
    return 0;
}
