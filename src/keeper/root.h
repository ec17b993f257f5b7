/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_ROOT_H
#define HUSK_KEEPER_ROOT_H

#include "base/err.h"
#include "keeper/box.h"

/*
 * The root of a sandbox: a tmpfs with an allow-list in it, made anew for every kernel, never a view
 * of the host's root.  Called by init in its own mount namespace, with the rights to mount.
 */

/* Makes it on o->run_dir/root (an empty folder, made if missing), enters it and lets go of the old
 * one. The caller's umask must be 022. */
int root_make(const struct box_spec *s, struct err *err);

/* The folders and files of /etc that a sandbox shows, relative to /etc; NULL at the end. */
extern const char *const root_etc[];

#endif
