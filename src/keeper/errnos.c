/* SPDX-License-Identifier: MIT */
#include "keeper/errnos.h"

#include <errno.h>

int
errno_of(const struct err *err)
{
    static const int of_code[] = {
        [ERR_INVALID] = EINVAL,    [ERR_DENIED] = EACCES,      [ERR_NOT_FOUND] = ENOENT,
        [ERR_CONFLICT] = EBUSY,    [ERR_LIMIT] = ENOSPC,       [ERR_TIMEOUT] = ETIMEDOUT,
        [ERR_ABORTED] = ECANCELED, [ERR_UNAVAILABLE] = EAGAIN, [ERR_UNCERTAIN] = EIO,
        [ERR_NOMEM] = ENOMEM,      [ERR_INTERNAL] = EIO,       [ERR_NONE] = EIO,
    };

    /* These two are what the protocol promises, whatever the cause looked like. */
    if (err->code == ERR_NOT_FOUND || err->code == ERR_CONFLICT)
        return of_code[err->code];
    return err->sys_errno ? err->sys_errno : of_code[err->code];
}
