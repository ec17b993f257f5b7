/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_NOTIFY_CALL_H
#define HUSK_KEEPER_NOTIFY_CALL_H

#include "keeper/keeper.h"
#include "keeper/netlink.h"

#include <netinet/in.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Bytes of one send that are copied; a longer one on a stream is a short write. */
#define NOTIFY_DATA_MAX ((size_t)1 << 20)
/* How long a helper waits for one call. Longer than TCP tries to connect. */
#define NOTIFY_WAIT_MS 150000

/* What one supervisor knows. */
struct supervisor {
    const struct keeper_options *o;
    int notify_fd;
    uid_t uid;        /* of the session */
    const char *home; /* its folder in the container tier, else "" */
    bool has_resolver;
    struct sockaddr_storage resolver; /* port 53, allowed ahead of the table */
    struct netlink routes;            /* to ask which addresses are the host's */
    char *data;                       /* NOTIFY_DATA_MAX bytes */
};

/* The process that made a call, seen from outside. */
struct caller {
    pid_t tid;
    int pidfd; /* of its process */
    uint64_t id;
    struct supervisor *s;
};

/* Opens the process; 0 or a negative errno. Close pidfd afterwards. */
int caller_open(struct caller *c, struct supervisor *s, const struct seccomp_notif *n);
/* n bytes of its memory; 0 or -EFAULT, which for writing is also that it does not wait any more. */
int caller_read(const struct caller *c, uint64_t from, void *to, size_t n);
int caller_write(const struct caller *c, uint64_t to, const void *from, size_t n);
/* A duplicate of one of its descriptors, or a negative errno. */
int caller_fd(const struct caller *c, int fd);
/* Does it still wait for this answer? What was read before a true is its own. */
bool caller_waits(const struct caller *c);
/* For good: its root, working directory and ids, no capabilities, and its fence around files, from
 * inside of which the caller cannot be looked at any more. For helpers only. 0 or a negative errno.
 */
int caller_become(const struct caller *c);

/* How a call has to be made. */
enum how {
    NOTIFY_DONE,  /* *ret_value is the answer (negative: an errno) */
    NOTIFY_BLOCK, /* it may take long: again, in a helper */
    NOTIFY_BECOME /* it names a file: again, in a helper, which becomes the caller for it */
};

/* Makes one call. `helper`: this process is there for it alone, may wait and become the caller. */
enum how notify_perform(const struct caller *c, const struct seccomp_data *d, bool helper,
                        long *ret_value);

#endif
