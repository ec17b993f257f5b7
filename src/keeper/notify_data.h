/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_NOTIFY_DATA_H
#define HUSK_KEEPER_NOTIFY_DATA_H

#include "keeper/notify_call.h"

#define MESSAGE_VECTORS_MAX 1024 /* as the kernel has it (UIO_MAXIOV) */
#define MESSAGE_FDS_MAX 253      /* as the kernel has it (SCM_MAX_FD) */

/* A message a caller wants to send: where its parts are in the caller, and the copy of them. */
struct message {
    uint64_t name;
    socklen_t name_len; /* 0: none */
    uint64_t one_base;  /* data in one piece, or */
    uint64_t one_len;
    uint64_t vectors; /* in n_vectors pieces */
    uint64_t n_vectors;
    uint64_t control, control_len;
    /* the copy; name is left to the owner */
    struct msghdr out;
    struct iovec iov;
    int fds[MESSAGE_FDS_MAX];
    size_t n_fds;
    char control_bytes[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))]
        __attribute__((aligned(_Alignof(struct cmsghdr))));
};

/* Reads a struct msghdr of the caller's. 0 or a negative errno. */
int message_read(struct message *m, const struct caller *c, uint64_t at);
/* Copies data and ancillary data into out: into the supervisor's buffer, so one at a time.
 * Descriptors to be passed on a unix socket are duplicated. 0 or a negative errno; after 0
 * message_done() closes the duplicates. */
int message_copy(struct message *m, const struct caller *c, int domain, int type);
void message_done(struct message *m);

#endif
