/* SPDX-License-Identifier: MIT */
#include "base/priv.h"

#include "base/cleanup.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

/* A passwd entry's strings; longer ones are refused by getpwnam_r with ERANGE. */
#define PRIV_ENTRY_MAX 16384
/* The same of a group, whose members stand in it. */
#define PRIV_GROUP_MAX (1024 * 1024)

int
priv_lookup(const char *user, struct priv_ids *ret, struct err *err)
{
    const int room = (int)(sizeof ret->groups / sizeof *ret->groups);
    _cleanup_free_ char *text = xcalloc(1, PRIV_ENTRY_MAX);
    struct passwd entry, *found = NULL;
    int r, n = room;

    r = getpwnam_r(user, &entry, text, PRIV_ENTRY_MAX, &found);
    if (!found && r != 0 && r != ENOENT && r != ESRCH)
        return err_sys(err, ERR_UNAVAILABLE, r, "cannot look up the user \"%s\"", user);
    if (!found)
        return err_set(err, ERR_NOT_FOUND, "there is no user \"%s\"", user);
    *ret = (struct priv_ids){.uid = entry.pw_uid, .gid = entry.pw_gid};
    if (getgrouplist(user, entry.pw_gid, ret->groups, &n) < 0)
        return err_set(err, ERR_LIMIT, "the user \"%s\" is in more than %d groups", user, room);
    ret->n_groups = n;
    return 0;
}

int
priv_lookup_group(const char *group, gid_t *ret, struct err *err)
{
    _cleanup_free_ char *text = xcalloc(1, PRIV_GROUP_MAX);
    struct group entry, *found = NULL;
    int r = getgrnam_r(group, &entry, text, PRIV_GROUP_MAX, &found);

    if (!found && r != 0 && r != ENOENT && r != ESRCH)
        return err_sys(err, ERR_UNAVAILABLE, r, "cannot look up the group \"%s\"", group);
    if (!found)
        return 0;
    *ret = entry.gr_gid;
    return 1;
}

int
priv_drop(const struct priv_ids *ids, struct err *err)
{
    if (geteuid() == ids->uid && getuid() == ids->uid)
        return 0;
    if (setgroups((size_t)ids->n_groups, ids->groups) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot set the groups of uid %lu",
                       (unsigned long)ids->uid);
    if (setresgid(ids->gid, ids->gid, ids->gid) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot become gid %lu", (unsigned long)ids->gid);
    if (setresuid(ids->uid, ids->uid, ids->uid) < 0)
        return err_sys(err, ERR_DENIED, errno, "cannot become uid %lu", (unsigned long)ids->uid);
    if (ids->uid != 0 && (setuid(0) == 0 || seteuid(0) == 0))
        return err_set(err, ERR_INTERNAL, "root can be had back after becoming uid %lu",
                       (unsigned long)ids->uid);
    return 0;
}

int
priv_become_owner(const char *folder, struct err *err)
{
    _cleanup_free_ char *text = NULL;
    struct passwd entry, *found = NULL;
    struct priv_ids ids;
    struct stat st;

    if (geteuid() != 0 || stat(folder, &st) < 0 || st.st_uid == 0)
        return 0;
    text = xcalloc(1, PRIV_ENTRY_MAX);
    if (getpwuid_r(st.st_uid, &entry, text, PRIV_ENTRY_MAX, &found) != 0 || !found)
        ids = (struct priv_ids){
            .uid = st.st_uid, .gid = st.st_gid, .groups = {st.st_gid}, .n_groups = 1};
    else if (priv_lookup(entry.pw_name, &ids, err) < 0)
        return -1;
    return priv_drop(&ids, err) < 0 ? err_wrap(err, "%s is another user's", folder) : 0;
}
