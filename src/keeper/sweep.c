/* SPDX-License-Identifier: MIT */
#include "keeper/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "keeper/cgroup.h"
#include "keeper/egress.h"
#include "keeper/home.h"
#include "keeper/sandboxes.h"
#include "keeper/slot.h"

static bool
lives(void *ctx, const char *kernel)
{
    return sandbox_lives(ctx, kernel);
}

static bool
taken(void *ctx, int slot)
{
    return slot_taken(ctx, slot);
}

/* A socket without a monitor: the monitor was killed, its kernel with it. */
static void
sweep_sockets(const struct keeper_options *o)
{
    const struct wire_counters unknown = {-1, -1, -1, -1, -1, -1};
    char kernel[WIRE_KERNEL_MAX] = "";
    struct wire_counters c;

    while (sandboxes_next(o, kernel, kernel, NULL) == 1) {
        struct err err = ERR_INIT;
        bool dead = false;
        int fd = sandbox_connect(o, kernel, deadline_in(0), &dead, &err);

        cleanup_close(&fd);
        if (!dead)
            continue;
        if (ended_read(o, kernel, &c) != 1 && ended_write(o, kernel, &unknown) < 0)
            continue; /* without the mark its id could be used again */
        sandbox_forget(o, kernel);
        log_warning("the monitor of kernel %s was killed; its sandbox is gone", kernel);
    }
}

/* Files of this folder that are older than ENDED_KEPT_S; of names with a dot only, if so asked. */
static void
sweep_old(const struct keeper_options *o, const char *folder, bool unfinished_only)
{
    char path[KEEPER_PATH_MAX + 16];
    time_t now = time(NULL);
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", o->run_dir, folder);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (unfinished_only && e->d_name[0] != '.'))
            continue;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            now - st.st_mtime > ENDED_KEPT_S)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir)
        (void)closedir(dir);
}

void
sweep_run(const struct keeper_options *o)
{
    void *ctx = (void *)o; /* the callbacks only read it */

    egress_restore(o); /* first: what it holds back is not held back meanwhile */
    sweep_sockets(o);
    cgroup_sweep(o, lives, ctx);
    egress_sweep(o, taken, ctx);
    home_sweep(o, lives, ctx);
    sweep_old(o, "ended", false);
    sweep_old(o, "m", true);
}
