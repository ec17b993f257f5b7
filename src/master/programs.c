/* SPDX-License-Identifier: MIT */
#include "master/master.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directory of our own executable, so that a build tree or a copied set of programs works. */
static int
own_directory(char out[PATH_MAX], struct err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    char *slash;

    if (n < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot read /proc/self/exe");
    out[n] = '\0';
    slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return 0;
}

/*
 * The program named by its own variable (tests), else in $HUSK_LIBEXEC, else beside ours, else
 * where `make install` puts it.
 */
static int
find(const char *variable, const char *name, char out[PATH_MAX], struct err *err)
{
    const char *exact = getenv(variable), *libexec = getenv("HUSK_LIBEXEC");
    char own[PATH_MAX];
    const char *const dirs[] = {libexec, own, HUSK_SBINDIR};

    if (exact) {
        (void)snprintf(out, PATH_MAX, "%s", exact);
        if (access(out, X_OK) == 0)
            return 0;
        return err_sys(err, ERR_NOT_FOUND, errno, "%s: %s", variable, exact);
    }
    if (own_directory(own, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        if (!dirs[i] || snprintf(out, PATH_MAX, "%s/%s", dirs[i], name) >= PATH_MAX)
            continue;
        if (access(out, X_OK) == 0)
            return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "%s is neither in %s nor in %s", name, own, HUSK_SBINDIR);
}

int
programs_find(struct master *m, struct err *err)
{
    if (find("HUSK_WORKER_PROGRAM", "husk-worker", m->worker, err) < 0)
        return -1;
    return find("HUSK_REAPER_PROGRAM", "husk-reaper", m->reaper, err);
}
