/* SPDX-License-Identifier: MIT */
#ifndef HUSK_WORKSPACE_KEEPER_CLIENT_H
#define HUSK_WORKSPACE_KEEPER_CLIENT_H

#include "base/err.h"
#include "keeper/wire.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Asking husk-keeper, from a process of the workers' user: a connection, a packet there and one
 * back for each question (keeper/wire.h).  `dir` is the folder of the keeper's sockets.  Common
 * errors: ERR_UNAVAILABLE "keeper_unavailable" when it does not answer in time or not in our
 * version, ERR_INTERNAL for what went wrong inside it.  One question takes at most
 * KEEPER_ANSWER_MS.
 */
#define KEEPER_ANSWER_MS 10000
/* Questions that touch no disk are answered at once or not at all. */
#define KEEPER_QUICK_MS 2000

/* What is in force there. */
int keeper_info(const char *dir, struct wire_info *ret, struct err *err);
/* Makes a workspace; one that is there already is fine, *ret_existed (or NULL) says so. ERR_LIMIT
 * "disk_full". */
int keeper_make(const char *dir, int64_t workspace_id, bool *ret_existed, struct err *err);
/* An O_PATH descriptor of the workspace's root, mapped to our uid; the caller closes it soon, for
 * it keeps the file system mounted. ERR_NOT_FOUND "workspace_gone". */
int keeper_root(const char *dir, int64_t workspace_id, int *ret_fd, struct err *err);
/* The workspace becomes the kernel's, for its whole life. ERR_CONFLICT "runtime_gone": there is no
 * such kernel, or it has another workspace. */
int keeper_bind(const char *dir, const char *kernel, int64_t workspace_id, struct err *err);
/* What a kernel's sandbox has used so far, or had when it ended (*ret_ended). ERR_CONFLICT
 * "runtime_gone": none of that id is known (any more). */
int keeper_status(const char *dir, const char *kernel, struct wire_counters *ret, bool *ret_ended,
                  struct err *err);
/* Gone for good; there was none is fine. ERR_CONFLICT "file_busy": a kernel has it still. */
int keeper_remove(const char *dir, int64_t workspace_id, struct err *err);
/* Bytes it takes on the host's disk. ERR_NOT_FOUND "workspace_gone". */
int keeper_usage(const char *dir, int64_t workspace_id, int64_t *ret_bytes, struct err *err);

/* The sandbox whose kernel id comes next after `after` ("" begins), with its workspace, uid,
 * monitor and counters: 1, 0 that was the last one, -1. */
int keeper_next(const char *dir, const char *after, struct wire_reply *ret, struct err *err);
/* Ends a kernel's sandbox and returns when it is gone. ERR_CONFLICT "runtime_gone": there is none
 * of that id. */
int keeper_kill(const char *dir, const char *kernel, struct err *err);

#endif
