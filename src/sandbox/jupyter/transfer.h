/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_JUPYTER_TRANSFER_H
#define HUSK_SANDBOX_JUPYTER_TRANSFER_H

#include "sandbox/sandbox.h"

/*
 * Files through the kernel, for a gateway without a shared file system: the file operations of
 * struct sandbox_ops.  Everything that moves is checked by length and SHA-256 at its other end, so
 * that a cut or changed transfer is noticed.
 */
int transfer_put(struct sandbox *sb, const struct runtime_ref *rt, const struct file_put *p,
                 bool *ret_created, struct file_info *ret, struct deadline d, struct err *err);
int transfer_get(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                 int64_t max_bytes, int fd, struct file_info *ret, struct deadline d,
                 struct err *err);
int transfer_stat(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                  struct file_info *ret, struct deadline d, struct err *err);
int transfer_list(struct sandbox *sb, const struct runtime_ref *rt, const struct file_query *q,
                  struct file_list *ret, struct deadline d, struct err *err);
int transfer_remove(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
                    bool recursive, struct deadline d, struct err *err);

#endif
