/* SPDX-License-Identifier: MIT */
#include "keeper/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What for: KILL signals and ends the session's processes. SYS_ADMIN, SYS_CHROOT and SYS_PTRACE
 * enter its mount namespace to mount the workspace (the namespace of a process that is not dumpable
 * is asked for by PTRACE). CHOWN, FOWNER, DAC_OVERRIDE and DAC_READ_SEARCH give folders back.
 * NET_ADMIN takes the network link away. SETUID and SETGID map ids for a mount. */
static const int kept[] = {
    CAP_KILL,  CAP_SYS_ADMIN, CAP_SYS_CHROOT,   CAP_SYS_PTRACE,      CAP_SETUID,    CAP_SETGID,
    CAP_CHOWN, CAP_FOWNER,    CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_NET_ADMIN,
};

int
privileges_reduce(const struct keeper_options *o, struct err *err)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct now[2], keep[2] = {{0}, {0}};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capget, &head, now) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot look at the monitor's capabilities");
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        if (kept[i] == CAP_NET_ADMIN && o->egress != EGRESS_PUBLIC)
            continue;
        keep[kept[i] / 32].permitted |= 1u << (kept[i] % 32);
    }
    for (int i = 0; i < 2; i++) {
        keep[i].permitted &= now[i].permitted;
        keep[i].effective = keep[i].permitted;
    }
    /* The bounding set can only be made smaller as long as SETPCAP is there. */
    for (int c = 0; c <= CAP_LAST_CAP; c++)
        if (!(keep[c / 32].permitted & (1u << (c % 32))))
            (void)prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
    if (syscall(SYS_capset, &head, keep) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot give the monitor's capabilities up");
    return 0;
}
