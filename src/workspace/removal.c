/* SPDX-License-Identifier: MIT */
#include "workspace/removal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/removal.h"
#include "workspace/beneath.h"
#include "workspace/workspace.h"

int
workspace_removal(int top_fd, int parent_fd, const char *name, const char *shown, struct err *err)
{
    char prefix[WORKSPACE_OWN_NAME_SIZE];

    beneath_make_own_name(prefix);
    if (removal_run(top_fd, parent_fd, name, prefix) == 0)
        return 0;
    if (errno == E2BIG)
        return err_slug(err, ERR_LIMIT, "limit_exceeded",
                        "%.200s: more than %d entries at once; run it again", shown,
                        REMOVAL_MAX_ENTRIES);
    return beneath_err(err, errno, shown);
}

int
workspace_unlink(const struct workspace *w, const char *path, size_t n, bool recursive,
                 struct err *err)
{
    struct beneath_path p;

    if (beneath_split(path, n, &p, err) < 0)
        return -1;
    _cleanup_close_ int fd = beneath_folder(w->root_fd, p.folder, err);
    if (fd < 0)
        return -1;
    if (unlinkat(fd, p.name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return beneath_err(err, errno, p.whole);
    if (unlinkat(fd, p.name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == ENOTEMPTY && recursive)
        return workspace_removal(w->root_fd, fd, p.name, p.whole, err);
    if (errno == ENOTEMPTY)
        return err_slug(err, ERR_CONFLICT, "folder_not_empty",
                        "%.200s: it is a folder with something in it; ask for recursive removal",
                        p.whole);
    return beneath_err(err, errno, p.whole);
}
