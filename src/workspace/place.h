/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_PLACE_H
#define HUSK_WORKSPACE_PLACE_H

#include "base/err.h"
#include "workspace/workspace.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Where workspaces are: a plain folder that workers and kernels share (no isolation), or with the
 * keeper, which gives a root descriptor for each use.  Whoever works with workspaces asks here and
 * need not know which.  Strings are borrowed.
 */
struct workspace_place {
    const char *dir;    /* the folder of workspaces */
    const char *keeper; /* the folder of the keeper's sockets; NULL: there is no keeper */
};

/* Errors of the keeper's side: those of workspace/keeper_client.h. */
int place_create(const struct workspace_place *p, int64_t workspace_id, bool *ret_existed,
                 struct err *err);
/* ERR_NOT_FOUND, slug "workspace_gone". workspace_close() ends it: soon, for the keeper's file
 * system stays mounted until then. */
int place_open(const struct workspace_place *p, int64_t workspace_id, struct workspace *ret,
               struct err *err);
/* Gone already is fine. */
int place_remove(const struct workspace_place *p, int64_t workspace_id, struct err *err);
/* Bytes it takes on the disk; of a plain folder as far as max_entries go. */
int place_usage(const struct workspace_place *p, int64_t workspace_id, int64_t max_entries,
                int64_t *ret_bytes, struct err *err);

#endif
