/* SPDX-License-Identifier: MIT */
#include "support/tmpdir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void
tmpdir_make(char out[PATH_MAX])
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(out, PATH_MAX, "%s/husk-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(out)) {
        perror(out);
        exit(99);
    }
}

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    (void)remove(path);
    return 0;
}

void
tmpdir_remove(const char *path)
{
    (void)nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

const char *
tmpdir_path(char out[PATH_MAX], const char *dir, const char *name)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        abort();
    return out;
}
