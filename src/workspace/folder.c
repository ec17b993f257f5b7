/* SPDX-License-Identifier: MIT */
#include "workspace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "workspace/beneath.h"

#define FOLDER_MODE 02770

static int
folder_err(struct err *err, int sys_errno, const char *folder)
{
    if (sys_errno == ENOTDIR)
        return err_slug(err, ERR_CONFLICT, "not_a_folder", "%.200s: a part of it is not a folder",
                        folder);
    return beneath_err(err, sys_errno, folder);
}

/* The group shall get in whatever our umask is; where a default ACL did it already, or the folder
 * turned out to be somebody else's, nothing needs to happen. */
static void
open_to_group(int parent_fd, const char *name)
{
    _cleanup_close_ int fd =
        beneath_open(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK, LINKS_NONE);

    if (fd >= 0)
        (void)fchmod(fd, FOLDER_MODE);
}

/* Opens one component, made if it is missing. The descriptor or -1 with errno. */
static int
step(int parent_fd, const char *name, bool *ret_made)
{
    int fd = beneath_open(parent_fd, name, O_PATH | O_DIRECTORY, LINKS_NONE);

    *ret_made = false;
    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdirat(parent_fd, name, FOLDER_MODE & 0777) == 0) {
        *ret_made = true;
        open_to_group(parent_fd, name);
    } else if (errno != EEXIST) {
        return -1;
    }
    return beneath_open(parent_fd, name, O_PATH | O_DIRECTORY, LINKS_NONE);
}

int
folder_open_making(int root_fd, const char *folder, size_t *ret_made_from, struct err *err)
{
    size_t n = strlen(folder);
    size_t made_from = n + 1;
    char name[WORKSPACE_NAME_MAX + 1];
    _cleanup_close_ int fd = beneath_open(root_fd, "", O_PATH | O_DIRECTORY, LINKS_NONE);

    if (fd < 0)
        return beneath_err(err, errno, "the workspace");
    for (size_t from = 0; from < n;) {
        const char *slash = strchr(folder + from, '/');
        size_t end = slash ? (size_t)(slash - folder) : n;
        bool made;
        int next;

        memcpy(name, folder + from, end - from);
        name[end - from] = '\0';
        next = step(fd, name, &made);
        if (!made)
            made_from = n + 1;
        else if (made_from > n)
            made_from = end;
        if (next < 0) {
            int saved = errno;

            folder_unmake(root_fd, folder, made_from);
            return folder_err(err, saved, folder);
        }
        (void)close(fd);
        fd = next;
        from = end + 1;
    }
    *ret_made_from = made_from;
    return steal_fd(&fd);
}

void
folder_unmake(int root_fd, const char *folder, size_t made_from)
{
    char path[WORKSPACE_PATH_MAX + 1];
    size_t n = strlen(folder);

    if (made_from > n)
        return;
    memcpy(path, folder, n + 1);
    while (n >= made_from) {
        char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;

        if (slash)
            *slash = '\0';
        _cleanup_close_ int fd =
            beneath_open(root_fd, slash ? path : "", O_PATH | O_DIRECTORY, LINKS_NONE);
        if (fd >= 0)
            (void)unlinkat(fd, name, AT_REMOVEDIR);
        n = slash ? (size_t)(slash - path) : 0;
        if (!slash)
            break;
    }
}
