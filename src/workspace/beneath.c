/* SPDX-License-Identifier: MIT */
#include "workspace/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"

static const struct {
    int sys_errno;
    enum err_code code;
    const char *slug;
    const char *text;
} errnos[] = {
    {ENOENT, ERR_NOT_FOUND, "file_not_found", "there is no such file"},
    {ENOTDIR, ERR_NOT_FOUND, "file_not_found", "a part of the path is not a folder"},
    {EXDEV, ERR_INVALID, "outside_workspace", "a link on the way leads out of the workspace"},
    {ELOOP, ERR_INVALID, "outside_workspace", "a link on the way may not be followed"},
    {EISDIR, ERR_INVALID, "not_a_file", "it is a folder"},
    {ENXIO, ERR_INVALID, "not_a_file", "it is not a regular file"},
    {ENODEV, ERR_INVALID, "not_a_file", "it is not a regular file"},
    {ENAMETOOLONG, ERR_INVALID, "bad_path", "the path is too long"},
    {EACCES, ERR_DENIED, "file_unreadable", "its permissions forbid it"},
    {EPERM, ERR_DENIED, "file_unreadable", "its permissions forbid it"},
    {EOVERFLOW, ERR_DENIED, "file_unreadable", "its owner is not known here"},
    {EAGAIN, ERR_CONFLICT, "file_busy", "a program holds a lease on it"},
    {ETXTBSY, ERR_CONFLICT, "file_busy", "it is being run"},
    {EBUSY, ERR_CONFLICT, "file_busy", "it is in use"},
    {EEXIST, ERR_CONFLICT, "precondition_failed", "it exists already"},
    {ENOTEMPTY, ERR_CONFLICT, "folder_not_empty", "the folder is not empty"},
    {ENOSPC, ERR_LIMIT, "disk_full", "the disk is full"},
    {EDQUOT, ERR_LIMIT, "disk_full", "the workspace's share of the disk is used up"},
    {EFBIG, ERR_LIMIT, "file_too_large", "the file is too large for its disk"},
};

int
beneath_err(struct err *err, int sys_errno, const char *path)
{
    for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
        if (errnos[i].sys_errno == sys_errno) {
            (void)err_slug(err, errnos[i].code, errnos[i].slug, "%.200s: %s", path, errnos[i].text);
            if (err)
                err->sys_errno = sys_errno;
            return -1;
        }
    }
    return err_sys(err, ERR_INTERNAL, sys_errno, "%.200s", path);
}

bool
beneath_own_name(const char *name, size_t n)
{
    size_t k = strlen(WORKSPACE_OWN_PREFIX);

    return n >= k && memcmp(name, WORKSPACE_OWN_PREFIX, k) == 0;
}

void
beneath_make_own_name(char out[WORKSPACE_OWN_NAME_SIZE])
{
    char hex[17];

    id_random_hex(hex, 8);
    (void)snprintf(out, WORKSPACE_OWN_NAME_SIZE, WORKSPACE_OWN_PREFIX "%s", hex);
}

int
beneath_split(const char *path, size_t n, struct beneath_path *ret, struct err *err)
{
    const char *slash;
    size_t k = 0;

    if (workspace_path_check(path, n, err) < 0)
        return -1;
    memcpy(ret->whole, path, n);
    ret->whole[n] = '\0';
    slash = strrchr(ret->whole, '/');
    if (slash)
        k = (size_t)(slash - ret->whole);
    memcpy(ret->folder, ret->whole, k);
    ret->folder[k] = '\0';
    ret->name = slash ? slash + 1 : ret->whole;
    return 0;
}

int
beneath_folder(int root_fd, const char *folder, struct err *err)
{
    int fd = beneath_open(root_fd, folder, O_PATH | O_DIRECTORY, LINKS_NONE);

    if (fd < 0)
        return beneath_err(err, errno, *folder ? folder : "the workspace");
    return fd;
}

int
workspace_walk(int root_fd, const char *folder, int64_t max_entries, struct deadline d, walk_fn fn,
               void *ctx, struct err *err)
{
    struct err why = ERR_INIT;
    int r = walk(root_fd, folder, max_entries, d, fn, ctx, &why);

    if (r >= 0)
        return r;
    if (why.sys_errno == ENOTDIR)
        return err_slug(err, ERR_CONFLICT, "not_a_folder", "%.200s: it is not a folder", folder);
    if (why.sys_errno)
        return beneath_err(err, why.sys_errno, *folder ? folder : "the workspace");
    if (err)
        *err = why;
    return -1;
}

void
beneath_info(const struct stat *st, struct file_info *ret)
{
    ret->type = S_ISREG(st->st_mode)   ? FILE_REGULAR
                : S_ISDIR(st->st_mode) ? FILE_DIRECTORY
                : S_ISLNK(st->st_mode) ? FILE_SYMLINK
                                       : FILE_OTHER;
    ret->size = st->st_size;
    ret->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    ret->ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
    ret->inode = st->st_ino;
}
