/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_VOLUME_PRIVATE_H
#define HUSK_KEEPER_VOLUME_PRIVATE_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What the files about volumes share.  Below state_dir: images/, folders/, mnt/ (where images are
 * mounted), volumes.lock, next-uid.
 */
#define VOLUME_NAME_SIZE 17 /* 16 hex digits of the id */
#define VOLUME_PATH_SIZE (KEEPER_PATH_MAX + 64)
#define VOLUME_IMAGES "images"
#define VOLUME_FOLDERS "folders"
#define VOLUME_MOUNTS "mnt"
/* Names in images/ and folders/ that are of no account when no keeper is at work on them. */
#define VOLUME_HALF_MADE '.'

void volume_name(uint64_t id, char ret[VOLUME_NAME_SIZE]);
/* The id of a name that is 16 hex digits and then `suffix`. */
bool volume_id(const char *name, const char *suffix, uint64_t *ret);
/* state_dir/sub, made 0700 where it is missing, as an open folder. */
int volume_dir(const struct keeper_options *o, const char *sub, struct err *err);
/* Calls fn with each name in state_dir/sub. */
void volume_names(const struct keeper_options *o, const char *sub,
                  void (*fn)(void *ctx, int dir_fd, const char *name), void *ctx);
/* Somebody has it bound. True also where that cannot be found out. */
bool volume_held(const struct keeper_options *o, uint64_t id);

#endif
