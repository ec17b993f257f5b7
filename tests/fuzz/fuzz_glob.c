/* SPDX-License-Identifier: MIT */
/* A pattern and a path, a NUL between them. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "workspace/workspace.h"

/* Every byte taken as it is: matches the path and nothing but it. */
static void
check_escaped(const char *path, size_t n)
{
    char pattern[GLOB_MAX] = "";

    if (n > GLOB_MAX / 2)
        return;
    for (size_t i = 0; i < n; i++) {
        pattern[2 * i] = '\\';
        pattern[2 * i + 1] = path[i];
    }
    if (!glob_match(pattern, 2 * n, path, n) || (n > 0 && glob_match(pattern, 2 * n, path, n - 1)))
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *pattern = (const char *)data;
    const char *nul = memchr(pattern, '\0', size);
    size_t pn = nul ? (size_t)(nul - pattern) : size;
    const char *path = nul ? nul + 1 : "";
    size_t n = nul ? size - pn - 1 : 0;
    bool matches = glob_match(pattern, pn, path, n);

    if (pn == 0 && matches != (n == 0))
        abort();
    if (memchr(pattern, '*', pn) == NULL && matches && n > pn)
        abort();
    if (!glob_match("**", 2, path, n))
        abort();
    if (glob_match("*", 1, path, n) != (memchr(path, '/', n) == NULL))
        abort();
    check_escaped(path, n);
    return 0;
}
