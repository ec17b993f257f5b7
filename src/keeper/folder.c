/* SPDX-License-Identifier: MIT */
#include "keeper/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/acl.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "base/removal.h"
#include "base/walk.h"
#include "keeper/idmap.h"
#include "keeper/volume_private.h"

#define LENT ".at"
#define LENT_NAME_SIZE (VOLUME_NAME_SIZE + 8)
#define LENT_AS "workspace" /* in the home */
#define ENTRIES_MAX 5000000
#define WALK_MS 20000

/* Where a lent folder is: the target of its link is "INODE:HOME". */
struct lent {
    ino_t ino;
    char home[KEEPER_PATH_MAX];
};

static void
lent_name(uint64_t id, char ret[LENT_NAME_SIZE])
{
    char name[VOLUME_NAME_SIZE];

    volume_name(id, name);
    (void)snprintf(ret, LENT_NAME_SIZE, "%s" LENT, name);
}

static bool
lent_read(int dir_fd, uint64_t id, struct lent *ret)
{
    char name[LENT_NAME_SIZE], target[KEEPER_PATH_MAX + 32];
    const char *colon;
    uint64_t ino;
    ssize_t n;

    lent_name(id, name);
    n = readlinkat(dir_fd, name, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    colon = strchr(target, ':');
    if (!colon || num_u64(target, (size_t)(colon - target), UINT64_MAX, &ino) != 1 ||
        strlen(colon + 1) >= sizeof ret->home)
        return false;
    ret->ino = (ino_t)ino;
    (void)snprintf(ret->home, sizeof ret->home, "%s", colon + 1);
    return true;
}

static int
lent_write(int dir_fd, uint64_t id, ino_t ino, const char *home)
{
    char name[LENT_NAME_SIZE], half[LENT_NAME_SIZE + 1], target[KEEPER_PATH_MAX + 32];
    int n = snprintf(target, sizeof target, "%" PRIu64 ":%s", (uint64_t)ino, home);

    if (n < 0 || (size_t)n >= sizeof target) {
        errno = ENAMETOOLONG;
        return -1;
    }
    lent_name(id, name);
    (void)snprintf(half, sizeof half, "%c%s", VOLUME_HALF_MADE, name);
    (void)unlinkat(dir_fd, half, 0);
    return symlinkat(target, dir_fd, half) == 0 ? renameat(dir_fd, half, dir_fd, name) : -1;
}

/* The session owns its home and may have put something else in the folder's place. */
static int
open_lent(const struct lent *l)
{
    _cleanup_close_ int home = open(l->home, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_close_ int fd = -1;
    struct stat st;

    if (home >= 0)
        fd = openat(home, LENT_AS, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (st.st_ino != l->ino) {
        errno = ENOENT;
        return -1;
    }
    return steal_fd(&fd);
}

static int
not_there(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "there is no such workspace");
}

int
folder_open(const struct keeper_options *o, uint64_t id, struct err *err)
{
    char name[VOLUME_NAME_SIZE];
    struct lent l;
    _cleanup_close_ int dir = volume_dir(o, VOLUME_FOLDERS, err);
    int fd;

    if (dir < 0)
        return -1;
    volume_name(id, name);
    fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && lent_read(dir, id, &l))
        fd = open_lent(&l);
    if (fd < 0)
        return errno == ENOENT ? not_there(err)
                               : err_sys(err, ERR_INTERNAL, errno, "the folder of a workspace");
    return fd;
}

bool
folder_there(const struct keeper_options *o, uint64_t id)
{
    _cleanup_close_ int fd = folder_open(o, id, NULL);

    return fd >= 0;
}

/* Lets the workers into what another uid owns, and into all that is made in it. */
static int
let_workers_in(const struct keeper_options *o, int fd, uid_t uid, bool itself)
{
    uid_t users[2] = {o->worker_uid, uid};
    size_t n = 2;

    if (uid == o->worker_uid)
        n = 1;
    else if (uid < o->worker_uid)
        users[0] = uid, users[1] = o->worker_uid;
    if (itself && acl_set(fd, ACL_OF_ITSELF, users, n, false) < 0)
        return -1;
    return acl_set(fd, ACL_INHERITED, users, n, false);
}

/* A folder's owner and access, by tier. */
static int
furnish(const struct keeper_options *o, int fd, uid_t owner, struct err *err)
{
    int r = 0;

    if (o->tier == TIER_CONTAINER) {
        r = fchown(fd, o->worker_uid, o->worker_gid);
        if (r == 0)
            r = let_workers_in(o, fd, o->worker_uid, true);
    } else if (o->tier == TIER_HOST) {
        r = fchown(fd, owner, owner);
    }
    if (r < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "the owner of a workspace's folder");
    return 0;
}

int
folder_make(const struct keeper_options *o, uint64_t id, uid_t owner, struct err *err)
{
    char name[VOLUME_NAME_SIZE], half[VOLUME_NAME_SIZE + 1];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_FOLDERS, err);
    _cleanup_close_ int fd = -1;

    if (dir < 0)
        return -1;
    volume_name(id, name);
    (void)snprintf(half, sizeof half, "%c%s", VOLUME_HALF_MADE, name);
    if (mkdirat(dir, half, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno == ENOSPC || errno == EDQUOT ? ERR_LIMIT : ERR_INTERNAL, errno,
                       "making a workspace's folder");
    fd = openat(dir, half, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "making a workspace's folder");
    if (furnish(o, fd, owner, err) < 0) {
        (void)unlinkat(dir, half, AT_REMOVEDIR);
        return -1;
    }
    if (renameat(dir, half, dir, name) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "naming a workspace's folder");
    return 0;
}

struct giving {
    const struct keeper_options *o;
    uid_t uid;
    int failed; /* errno */
};

static enum walk_next
give(void *ctx, const struct walk_entry *e)
{
    struct giving *g = ctx;
    int r = fchownat(e->dir_fd, e->name, g->uid, g->uid, AT_SYMLINK_NOFOLLOW);

    if (r == 0 && e->d_type == DT_DIR) {
        _cleanup_close_ int fd =
            openat(e->dir_fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        r = fd < 0 ? -1 : let_workers_in(g->o, fd, g->uid, false);
    }
    if (r < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        g->failed = errno;
        return WALK_STOP;
    }
    return WALK_INTO;
}

/* All of it for this uid: what is made meanwhile inherits the access. */
static int
give_to(const struct keeper_options *o, int dir_fd, const char *name, uid_t uid, ino_t *ret_ino,
        struct err *err)
{
    struct giving g = {.o = o, .uid = uid};
    struct stat st;
    _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? not_there(err)
                               : err_sys(err, ERR_INTERNAL, errno, "the folder of a workspace");
    if (fstat(fd, &st) < 0 || fchown(fd, uid, uid) < 0 || let_workers_in(o, fd, uid, true) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "the access to a workspace's folder");
    *ret_ino = st.st_ino;
    if (walk(fd, "", ENTRIES_MAX, deadline_in(WALK_MS), give, &g, err) < 0)
        return -1;
    if (g.failed)
        return err_sys(err, ERR_UNAVAILABLE, g.failed, "giving a workspace's files to its kernel");
    return 0;
}

int
folder_lend(const struct keeper_options *o, uint64_t id, const char *home, uid_t uid,
            struct err *err)
{
    char name[VOLUME_NAME_SIZE];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_FOLDERS, err);
    _cleanup_close_ int home_fd = -1;
    ino_t ino = 0;

    if (dir < 0)
        return -1;
    folder_return(o, id); /* from one whose monitor was killed */
    volume_name(id, name);
    home_fd = open(home, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (home_fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the home of a sandbox");
    if (give_to(o, dir, name, uid, &ino, err) < 0)
        return -1;
    if (lent_write(dir, id, ino, home) < 0 || renameat(dir, name, home_fd, LENT_AS) < 0) {
        (void)err_sys(err, ERR_INTERNAL, errno, "lending a workspace's folder");
        folder_return(o, id);
        return -1;
    }
    return 0;
}

void
folder_return(const struct keeper_options *o, uint64_t id)
{
    char name[VOLUME_NAME_SIZE], at[LENT_NAME_SIZE];
    struct lent l;
    struct stat st;
    _cleanup_close_ int dir = volume_dir(o, VOLUME_FOLDERS, NULL);

    if (dir < 0 || !lent_read(dir, id, &l))
        return;
    volume_name(id, name);
    lent_name(id, at);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        _cleanup_close_ int home = open(l.home, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_close_ int fd = open_lent(&l);

        /* Nobody of the sandbox lives: what was looked at is what is moved. */
        if (fd < 0 || renameat(home, LENT_AS, dir, name) < 0)
            log_warning("the files of workspace %s are not where its kernel had them", name);
    }
    (void)unlinkat(dir, at, 0);
}

int
folder_remove(const struct keeper_options *o, uint64_t id, struct err *err)
{
    char name[VOLUME_NAME_SIZE], gone[VOLUME_NAME_SIZE + 8], prefix[VOLUME_NAME_SIZE + 8];
    _cleanup_close_ int dir = volume_dir(o, VOLUME_FOLDERS, err);

    if (dir < 0)
        return -1;
    folder_return(o, id);
    volume_name(id, name);
    (void)snprintf(gone, sizeof gone, "%cgone-%s", VOLUME_HALF_MADE, name);
    (void)snprintf(prefix, sizeof prefix, "%cdeep-%s", VOLUME_HALF_MADE, name);
    if (renameat(dir, name, dir, gone) < 0 && errno != ENOENT)
        return err_sys(err, ERR_INTERNAL, errno, "removing the folder %s", name);
    if (removal_run(dir, dir, gone, prefix) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "emptying the folder %s", name);
    return 0;
}

int64_t
folder_usage(const struct keeper_options *o, uint64_t id, struct err *err)
{
    int64_t bytes = 0;
    _cleanup_close_ int fd = folder_open(o, id, err);

    if (fd < 0 || walk(fd, "", ENTRIES_MAX, deadline_in(WALK_MS), walk_add_usage, &bytes, err) < 0)
        return -1;
    return bytes;
}

/* What a predecessor left: half made and half removed folders, and loans whose sandbox is gone. */
static void
tidy(void *ctx, int dir_fd, const char *name)
{
    const struct keeper_options *o = ctx;
    uint64_t id;

    if (name[0] == VOLUME_HALF_MADE)
        (void)removal_run(dir_fd, dir_fd, name, ".deep-swept");
    else if (volume_id(name, LENT, &id) && !volume_held(o, id))
        folder_return(o, id);
}

/* Can folders be what this tier needs them to be? */
static int
probe(const struct keeper_options *o, int dir_fd, struct err *err)
{
    const struct idmap map = {WORKSPACE_UID_BASE, KERNEL_UID_BASE, WORKSPACE_UID_BASE,
                              KERNEL_UID_BASE};
    _cleanup_close_ int fd = -1;
    int r = 0;

    if (o->tier == TIER_HOST) {
        fd = idmap_clone(dir_fd, 0, 0, &map, err);
        r = fd < 0 ? -1 : 0;
    } else if (o->tier == TIER_CONTAINER) {
        if (mkdirat(dir_fd, ".probe", 0700) < 0 && errno != EEXIST)
            return err_sys(err, ERR_UNAVAILABLE, errno, "a folder in %s", o->state_dir);
        fd = openat(dir_fd, ".probe", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? err_sys(err, ERR_UNAVAILABLE, errno, "a folder in %s", o->state_dir)
                   : furnish(o, fd, 0, err);
        (void)unlinkat(dir_fd, ".probe", AT_REMOVEDIR);
    }
    return r < 0 ? err_wrap(err, "workspaces in %s", o->state_dir) : 0;
}

int
folder_prepare(const struct keeper_options *o, struct err *err)
{
    _cleanup_close_ int dir = volume_dir(o, VOLUME_FOLDERS, err);

    if (dir < 0)
        return -1;
    volume_names(o, VOLUME_FOLDERS, tidy, (void *)(uintptr_t)o);
    return probe(o, dir, err);
}
