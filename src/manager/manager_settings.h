/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_MANAGER_SETTINGS_H
#define HUSK_MANAGER_MANAGER_SETTINGS_H

#include "conf/settings.h"
#include "manager/manager.h"

#define POOL_KIND_SIZE 128

/* What a manager's options point to and the settings do not hold. */
struct manager_paths {
    char db[SETTINGS_PATH_MAX];
    char workspaces[SETTINGS_PATH_MAX];
    char spool[SETTINGS_PATH_MAX];
    char traces[SETTINGS_PATH_MAX];
    char locks[SETTINGS_PATH_MAX];
    char alarms[SETTINGS_PATH_MAX];
    char artifacts[SETTINGS_PATH_MAX];
    char pool_kind[POOL_KIND_SIZE];
};

/* The options that settings give, one place for all programs. Borrows from both, which must outlive
 * the manager. keep_channels is 0, the callbacks are NULL: the caller sets what it has. */
void manager_options_of(const struct settings *s, struct manager_paths *paths,
                        struct manager_options *ret);

#endif
