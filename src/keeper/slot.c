/* SPDX-License-Identifier: MIT */
#include "keeper/slot.h"

#include "base/cleanup.h"
#include "base/lock.h"

#include <errno.h>
#include <stdio.h>

#define SLOTS_FILE "/slots"

static int
open_slots(const struct keeper_options *o, struct err *err)
{
    char path[KEEPER_PATH_MAX + sizeof SLOTS_FILE];

    (void)snprintf(path, sizeof path, "%s" SLOTS_FILE, o->state_dir);
    return lock_open(path, err);
}

int
slot_take(const struct keeper_options *o, int *ret_slot, struct err *err)
{
    _cleanup_close_ int fd = open_slots(o, err);

    if (fd < 0)
        return -1;
    for (int i = 0; i < SLOTS_MAX; i++) {
        int slot = (o->first_slot + i) % SLOTS_MAX + 1, r = lock_try_exclusive(fd, slot);

        if (r < 0)
            return err_sys(err, ERR_UNAVAILABLE, errno, "cannot lock a uid's slot");
        if (r > 0) {
            *ret_slot = slot;
            return steal_fd(&fd);
        }
    }
    return err_set(err, ERR_LIMIT, "all %d uids of kernels are in use", SLOTS_MAX);
}

int
slot_try(const struct keeper_options *o, int slot)
{
    _cleanup_close_ int fd = open_slots(o, NULL);

    return fd >= 0 && lock_try_exclusive(fd, slot) > 0 ? steal_fd(&fd) : -1;
}

bool
slot_taken(const struct keeper_options *o, int slot)
{
    struct err err = ERR_INIT;
    _cleanup_close_ int fd = open_slots(o, &err);

    return fd < 0 || lock_is_held(fd, slot) != 0;
}
