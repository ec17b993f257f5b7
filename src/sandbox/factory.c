/* SPDX-License-Identifier: MIT */
#include "sandbox/sandbox.h"

#include <string.h>

#include "sandbox/daytona/daytona.h"
#include "sandbox/jupyter/jupyter.h"

static const struct {
    const char *name;
    int (*make)(const struct sandbox_options *o, struct sandbox **ret, struct err *err);
} BACKENDS[] = {{"jupyter", jupyter_new}, {"daytona", daytona_new}};

int
sandbox_new(const char *backend, const struct sandbox_options *o, struct sandbox **ret,
            struct err *err)
{
    for (size_t i = 0; i < sizeof BACKENDS / sizeof *BACKENDS; i++)
        if (strcmp(BACKENDS[i].name, backend) == 0)
            return BACKENDS[i].make(o, ret, err);
    return err_set(err, ERR_INVALID, "no backend is called %s", backend);
}

enum sandbox_files
sandbox_files_of(const char *backend, const struct sandbox_options *o)
{
    if (strcmp(backend, "daytona") == 0)
        return FILES_KEYED;
    return o->transfer_kernel ? FILES_IN_RUNTIME : FILES_IN_WORKSPACE;
}
