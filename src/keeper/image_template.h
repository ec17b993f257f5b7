/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_IMAGE_TEMPLATE_H
#define HUSK_KEEPER_IMAGE_TEMPLATE_H

#include "base/err.h"
#include "keeper/keeper.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The empty file system that every image begins as: made once for a size by mkfs.ext4, its
 * lost+found removed (nothing of root's may be in a workspace: through an id map its user could not
 * remove it), and its zeroes taken out, so that a copy is some 150 KiB however large the image is.
 */
/* What an image's size is: the limit, in whole blocks. */
int64_t image_size(const struct keeper_options *o);
/* Makes it in the folder of images where it is missing, mounting it at `point` for a moment. That
 * also proves that images can be used here at all. */
int image_template(const struct keeper_options *o, int dir_fd, const char *point, struct err *err);
/* Makes an empty file a fresh image: allocated (unless sparse), the template's blocks copied. */
int image_fill(const struct keeper_options *o, int dir_fd, int fd, struct err *err);
/* Nothing was ever written to it: a power cut came between its name and its content. */
bool image_is_blank(int fd);
int image_mount_device(const char *dev, const char *point, struct err *err);

#endif
