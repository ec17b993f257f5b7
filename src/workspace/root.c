/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/acl.h"
#include "base/cleanup.h"
#include "base/priv.h"
#include "workspace/beneath.h"
#include "workspace/removal.h"

#define FILES_GROUP "husk-files" /* which worker and kernel share */
#define TRASH ".trash"
#define ID_NAME_SIZE 17

static void
id_name(int64_t workspace_id, char out[ID_NAME_SIZE])
{
    (void)snprintf(out, ID_NAME_SIZE, "%016" PRIx64, (uint64_t)workspace_id);
}

static int
open_base(const char *base_dir, struct err *err)
{
    int fd = open(base_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the folder of workspaces %s", base_dir);
    return fd;
}

/* Where the group is there but not ours to give (a developer's own run on a machine that has Husk
 * installed), worker and kernel are one user, and 0770 does. */
static int
share_with_group(int fd, struct err *err)
{
    gid_t gid;

    if (priv_lookup_group(FILES_GROUP, &gid, NULL) <= 0 || fchown(fd, (uid_t)-1, gid) < 0) {
        if (fchmod(fd, 0770) < 0)
            return err_sys(err, ERR_INTERNAL, errno, "the mode of a workspace");
        return 0;
    }
    if (fchmod(fd, 02770) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the mode of a workspace");
    return acl_set_default_group(fd, err);
}

int
workspace_create(const char *base_dir, int64_t workspace_id, bool *ret_existed, struct err *err)
{
    char name[ID_NAME_SIZE];
    bool existed = false;
    _cleanup_close_ int base = open_base(base_dir, err);

    if (base < 0)
        return -1;
    id_name(workspace_id, name);
    if (mkdirat(base, name, 0700) < 0) {
        if (errno != EEXIST)
            return errno == ENOSPC || errno == EDQUOT
                       ? beneath_err(err, errno, "a new workspace")
                       : err_sys(err, ERR_INTERNAL, errno, "making the workspace %s", name);
        existed = true;
    }
    _cleanup_close_ int fd =
        beneath_open(base, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK, LINKS_NONE);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "opening the workspace %s", name);
    if (!existed && share_with_group(fd, err) < 0) {
        (void)unlinkat(base, name, AT_REMOVEDIR);
        return -1;
    }
    if (ret_existed)
        *ret_existed = existed;
    return 0;
}

int
workspace_open(const char *base_dir, int64_t workspace_id, struct workspace *ret, struct err *err)
{
    char path[4096];
    int fd;

    if (workspace_dir(base_dir, workspace_id, path, sizeof(path)) < 0)
        return err_set(err, ERR_INTERNAL, "the path of the workspaces is too long");
    /* The base is ours; of the last component a link is refused. It may be a mount. */
    fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return err_slug(err, ERR_NOT_FOUND, "workspace_gone", "the session's files are gone");
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "opening the workspace");
    ret->root_fd = fd;
    return 0;
}

void
workspace_close(struct workspace *w)
{
    if (w->root_fd >= 0)
        (void)close(w->root_fd);
    w->root_fd = -1;
}

int
workspace_dir(const char *base_dir, int64_t workspace_id, char *ret, size_t size)
{
    char name[ID_NAME_SIZE];
    int n;

    id_name(workspace_id, name);
    n = snprintf(ret, size, "%s/%s", base_dir, name);
    return n > 0 && (size_t)n < size ? 0 : -1;
}

/* The trash can be passed through but not listed: a kernel's uid gets at what is its own there by
 * the id alone. */
static int
open_trash(int base, struct err *err)
{
    int fd;

    if (mkdirat(base, TRASH, 0711) < 0 && errno != EEXIST)
        return err_sys(err, ERR_INTERNAL, errno, "making the trash of the workspaces");
    fd = beneath_open(base, TRASH, O_RDONLY | O_DIRECTORY, LINKS_NONE);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "opening the trash of the workspaces");
    (void)fchmod(fd, 0711);
    return fd;
}

int
workspace_remove(const char *base_dir, int64_t workspace_id, struct err *err)
{
    char name[ID_NAME_SIZE];
    _cleanup_close_ int base = open_base(base_dir, err);

    if (base < 0)
        return -1;
    _cleanup_close_ int trash = open_trash(base, err);
    if (trash < 0)
        return -1;
    id_name(workspace_id, name);
    if (renameat(base, name, trash, name) < 0 && errno != ENOENT) {
        /* An earlier removal of the same id left something behind: empty that in place. */
        if (errno == ENOTEMPTY || errno == EEXIST)
            return workspace_removal(trash, base, name, name, err);
        return err_sys(err, ERR_INTERNAL, errno, "removing the workspace %s", name);
    }
    /* What does not go now is out of everybody's sight, and is tried again by the next removal. */
    (void)workspace_removal(trash, trash, name, name, NULL);
    return 0;
}
