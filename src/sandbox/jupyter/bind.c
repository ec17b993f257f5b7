/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/silent.h"

#include <string.h>

#include "base/cleanup.h"
#include "sandbox/jupyter/agent.h"

/*
 * The working directory of a kernel, set by a silent execution: one expression that binds no name
 * and enters no history.  The path travels as a bytes literal, so that any path arrives as it is.
 */

#define DIR_MAX 4096

int
jupyter_directory_code(const char *dir, struct buf *ret, struct err *err)
{
    buf_init(ret, 4 * DIR_MAX + 64);
    (void)buf_puts(ret, "__import__('os').chdir(");
    agent_bytes(ret, dir, strlen(dir));
    (void)buf_puts(ret, ")");
    return buf_check(ret, "the path of a working directory", err);
}

static int
change_directory(struct jupyter *j, struct channel *c, const char *dir, struct deadline d,
                 struct err *err)
{
    _cleanup_buf_ struct buf code = BUF_INIT(0);

    if (jupyter_directory_code(dir, &code, err) < 0)
        return -1;
    return jupyter_silent(j, c, buf_str(&code), d, err);
}

int
jupyter_bind(struct sandbox *sb, const struct runtime_ref *rt, const char *dir, struct deadline d,
             struct err *err)
{
    struct jupyter *j = (struct jupyter *)sb;
    struct channel *c;
    int rc;

    if (jupyter_attach(j, rt, NULL, d, &c, err) < 0)
        return -1;
    rc = dir != NULL ? change_directory(j, c, dir, d, err) : agent_bind(j, c, d, err);
    if (rc < 0) {
        channel_free(c);
        return err_wrap(err, "its directory was not set");
    }
    kept_put(&j->kept, c);
    return 0;
}
