/* SPDX-License-Identifier: MIT */
/* A path is accepted exactly if each of its components is a plain name. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "workspace/workspace.h"

static bool
plain(const char *name, size_t n)
{
    if (n == 0 || n > 255 || (n == 1 && name[0] == '.') ||
        (n == 2 && name[0] == '.' && name[1] == '.') || (n >= 6 && memcmp(name, ".husk-", 6) == 0))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return false;
    return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = (const char *)data;
    struct err err = ERR_INIT;
    bool good = size > 0 && size <= 1024;
    size_t from = 0;

    for (size_t i = 0; i <= size; i++) {
        if (i < size && path[i] != '/')
            continue;
        good = good && plain(path + from, i - from);
        from = i + 1;
    }
    if ((workspace_path_check(path, size, &err) == 0) != good)
        abort();
    if (!good && (err.code != ERR_INVALID || !err.slug))
        abort();
    return 0;
}
