/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <string.h>

#include "workspace/beneath.h"

static int
component_check(const char *p, size_t n, struct err *err)
{
    if (n == 0)
        return err_slug(err, ERR_INVALID, "bad_path",
                        "a path has no empty components and neither begins nor ends with '/'");
    if (n > WORKSPACE_NAME_MAX)
        return err_slug(err, ERR_INVALID, "bad_path", "a component of a path has at most %d bytes",
                        WORKSPACE_NAME_MAX);
    if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
        return err_slug(err, ERR_INVALID, "bad_path", "\".\" and \"..\" are not allowed in a path");
    if (beneath_own_name(p, n))
        return err_slug(err, ERR_INVALID, "bad_path", "names beginning \"%s\" are reserved",
                        WORKSPACE_OWN_PREFIX);
    return 0;
}

int
workspace_path_check(const char *path, size_t n, struct err *err)
{
    size_t from = 0;

    if (n == 0)
        return err_slug(err, ERR_INVALID, "bad_path", "the path is empty");
    if (n > WORKSPACE_PATH_MAX)
        return err_slug(err, ERR_INVALID, "bad_path", "a path has at most %d bytes",
                        WORKSPACE_PATH_MAX);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)path[i];

        if (c < 0x20 || c == 0x7f)
            return err_slug(err, ERR_INVALID, "bad_path",
                            "control characters are not allowed in a path");
        if (c != '/')
            continue;
        if (component_check(path + from, i - from, err) < 0)
            return -1;
        from = i + 1;
    }
    return component_check(path + from, n - from, err);
}
