/* SPDX-License-Identifier: MIT */
#include "keeper/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/removal.h"
#include "keeper/box.h"
#include "keeper/sandboxes.h"
#include "keeper/slot.h"
#include "keeper/volume.h"

/* Beside the folder of a kernel: which workspace it was lent, for whoever cleans up after it. */
#define LENT ".lent"

static void
homes_path(const struct keeper_options *o, char out[KEEPER_PATH_MAX])
{
    (void)snprintf(out, KEEPER_PATH_MAX, "%.*s/homes", KEEPER_PATH_MAX - 8, o->state_dir);
}

static int
open_homes(const struct keeper_options *o)
{
    char path[KEEPER_PATH_MAX];

    homes_path(o, path);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int
home_prepare(const struct keeper_options *o, struct err *err)
{
    char path[KEEPER_PATH_MAX];

    if (o->tier != TIER_CONTAINER)
        return 0;
    homes_path(o, path);
    /* Passed through on the way to a kernel's own folder; what is in it cannot be listed. */
    if (fd_mkdirs(path, 0711, err) < 0)
        return -1;
    if (chmod(path, 0711) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "%s must be ours", path);
    return 0;
}

int
home_make(const struct keeper_options *o, const char *kernel, uid_t uid, char *ret, struct err *err)
{
    char homes[KEEPER_PATH_MAX];

    ret[0] = '\0';
    if (o->tier != TIER_CONTAINER)
        return 0;
    homes_path(o, homes);
    int n = snprintf(ret, KEEPER_PATH_MAX, "%s/%s", homes, kernel);
    if (n < 0 || n >= KEEPER_PATH_MAX)
        return err_set(err, ERR_LIMIT, "the path of the kernels' folders is too long");
    _cleanup_close_ int dir = open_homes(o);
    if (dir < 0 || mkdirat(dir, kernel, 0700) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make %s", ret);
    _cleanup_close_ int home = openat(dir, kernel, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (home < 0 || mkdirat(home, "workspace", 0700) < 0 ||
        fchownat(home, "workspace", uid, uid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchown(home, uid, uid) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make %s", ret);
    return 0;
}

static void
lent_name(const char *kernel, char out[WIRE_KERNEL_MAX + sizeof(LENT)])
{
    (void)snprintf(out, WIRE_KERNEL_MAX + sizeof(LENT), "%s" LENT, kernel);
}

int
home_lend(const struct keeper_options *o, const char *kernel, uint64_t workspace, uid_t uid,
          struct err *err)
{
    char homes[KEEPER_PATH_MAX], home[2 * KEEPER_PATH_MAX], name[WIRE_KERNEL_MAX + sizeof(LENT)];

    lent_name(kernel, name);
    _cleanup_close_ int dir = open_homes(o);
    _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    /* The note comes first: a workspace that is lent is never without one. */
    if (dir < 0 || fd < 0 || fd_write_all(fd, &workspace, sizeof(workspace)) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot note the workspace of %s", kernel);
    homes_path(o, homes);
    (void)snprintf(home, sizeof(home), "%s/%s", homes, kernel);
    if (volume_lend(o, workspace, home, uid, err) == 0)
        return 0;
    (void)unlinkat(dir, name, 0);
    return -1;
}

void
home_remove(const struct keeper_options *o, const char *kernel)
{
    char homes[KEEPER_PATH_MAX], home[2 * KEEPER_PATH_MAX], name[WIRE_KERNEL_MAX + sizeof(LENT)];
    uint64_t workspace = 0;

    if (o->tier != TIER_CONTAINER)
        return;
    lent_name(kernel, name);
    homes_path(o, homes);
    (void)snprintf(home, sizeof(home), "%s/%s", homes, kernel);
    _cleanup_close_ int dir = open_homes(o);
    if (dir < 0)
        return;
    _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fd_read_all(fd, &workspace, sizeof(workspace)) == 0 && workspace)
        volume_return(o, workspace);
    if (removal_run(dir, dir, kernel, ".gone") < 0 && errno != ENOENT)
        log_warning("cannot remove %s: %s", home, strerror(errno));
    (void)unlinkat(dir, name, 0);
}

/* What the session of a killed monitor has left running. Where another has its uid by now, that
 * one's monitor has ended it. */
static void
end_session(const struct keeper_options *o, int homes, const char *kernel)
{
    struct stat st;
    _cleanup_close_ int slot = -1;

    if (fstatat(homes, kernel, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid <= KERNEL_UID_BASE ||
        st.st_uid > KERNEL_UID_BASE + SLOTS_MAX)
        return;
    slot = slot_try(o, (int)(st.st_uid - KERNEL_UID_BASE));
    if (slot >= 0)
        box_end_uid(st.st_uid);
}

void
home_sweep(const struct keeper_options *o, bool (*known)(void *ctx, const char *kernel), void *ctx)
{
    char path[KEEPER_PATH_MAX];

    if (o->tier != TIER_CONTAINER)
        return;
    homes_path(o, path);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char kernel[WIRE_KERNEL_MAX] = "";
        size_t n = strlen(e->d_name);

        if (n >= sizeof(kernel))
            continue;
        memcpy(kernel, e->d_name, n);
        if (!kernel_id_valid(kernel) || known(ctx, kernel))
            continue;
        end_session(o, dirfd(dir), kernel);
        home_remove(o, kernel);
    }
    if (dir)
        (void)closedir(dir);
}
