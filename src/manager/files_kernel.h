/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_FILES_KERNEL_H
#define HUSK_MANAGER_FILES_KERNEL_H

#include "manager/internal.h"

/*
 * The file calls where the session's runtime holds its files (not FILES_IN_WORKSPACE).  The caller
 * has a hold; each call takes the session's turn for its own length (session_busy when it does not
 * come), and makes a runtime where there is none or it was lost.
 */

/* An unnamed file that a whole file is staged in, so that ranges and retries need no kernel. */
int kernel_stage(struct manager *m, int *ret_fd, struct err *err);
int kernel_stage_write(int fd, const void *p, size_t n, struct err *err);

/* The file as it is now, staged: *ret_fd is the caller's. */
int kernel_file_open(struct manager *m, int64_t sid, const char *path, size_t n, int *ret_fd,
                     struct file_info *ret, struct err *err);
int kernel_file_stat(struct manager *m, int64_t sid, const char *path, size_t n,
                     struct file_info *ret, struct err *err);
int kernel_file_list(struct manager *m, int64_t sid, const struct file_query *q,
                     struct file_list *ret, struct err *err);
/* The same for who has the turn already, within ms; *s is the session as it is then. */
int kernel_file_list_held(struct manager *m, struct session *s, const struct file_query *q,
                          int64_t ms, struct file_list *ret, struct err *err);
int kernel_file_remove(struct manager *m, int64_t sid, const char *path, size_t n, bool recursive,
                       struct err *err);
int kernel_file_put(struct manager *m, int64_t sid, const struct file_put *p, bool *ret_created,
                    struct file_info *ret, struct err *err);
int kernel_file_put_held(struct manager *m, struct session *s, const struct file_put *p,
                         bool *ret_created, struct file_info *ret, struct err *err);

#endif
