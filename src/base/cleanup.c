/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"

#include "base/log.h"

#include <string.h>

static void *
need(void *p)
{
    if (!p) {
        log_error("out of memory");
        abort();
    }
    return p;
}

void *
xcalloc(size_t n, size_t size)
{
    return need(calloc(n ? n : 1, size ? size : 1));
}

char *
xstrdup(const char *s)
{
    return need(strdup(s));
}

char *
xstrndup(const char *s, size_t n)
{
    return need(strndup(s, n));
}
