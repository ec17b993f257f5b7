/* SPDX-License-Identifier: MIT */
#include "keeper/notify_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

int
message_read(struct message *m, const struct caller *c, uint64_t at)
{
    struct msghdr h;
    int rc = caller_read(c, at, &h, sizeof h);

    if (rc < 0)
        return rc;
    m->name = (uint64_t)(uintptr_t)h.msg_name;
    m->name_len = h.msg_name ? h.msg_namelen : 0;
    m->vectors = (uint64_t)(uintptr_t)h.msg_iov;
    m->n_vectors = h.msg_iovlen;
    m->control = (uint64_t)(uintptr_t)h.msg_control;
    m->control_len = h.msg_control ? h.msg_controllen : 0;
    return m->n_vectors > MESSAGE_VECTORS_MAX ? -EMSGSIZE : 0;
}

/* The pieces one after another, as far as the buffer goes. */
static int
copy_data(struct message *m, const struct caller *c, int type)
{
    size_t n = (size_t)m->n_vectors, total = 0;
    _cleanup_free_ struct iovec *its = xcalloc(n + 1, sizeof *its);
    struct iovec own = {c->s->data, 0};

    if (n > 0) {
        int rc = caller_read(c, m->vectors, its, n * sizeof *its);

        if (rc < 0)
            return rc;
    } else if (m->one_len > 0) {
        its[n++] = (struct iovec){(void *)(uintptr_t)m->one_base, (size_t)m->one_len};
    }
    for (size_t i = 0; i < n; i++) {
        size_t room = NOTIFY_DATA_MAX - total;

        if (its[i].iov_len > room) {
            if (type != SOCK_STREAM)
                return -EMSGSIZE;
            its[i].iov_len = room;
        }
        total += its[i].iov_len;
    }
    own.iov_len = total;
    if (total > 0 && process_vm_readv(c->tid, &own, 1, its, n, 0) != (ssize_t)total)
        return -EFAULT;
    m->iov = (struct iovec){c->s->data, total};
    m->out.msg_iov = &m->iov;
    m->out.msg_iovlen = 1;
    return 0;
}

/* Duplicates of the descriptors one ancillary message names. */
static int
take_fds(struct message *m, const struct caller *c, const struct cmsghdr *h)
{
    size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
        return -EPERM;
    for (size_t i = 0; i < n; i++) {
        int its;

        if (m->n_fds == MESSAGE_FDS_MAX)
            return -EINVAL;
        memcpy(&its, CMSG_DATA(h) + i * sizeof its, sizeof its);
        int own = caller_fd(c, its);
        if (own < 0)
            return own;
        m->fds[m->n_fds++] = own;
    }
    return 0;
}

/* The caller's ancillary data, of which only descriptors are taken over. */
static int
copy_control(struct message *m, const struct caller *c, int domain)
{
    struct msghdr in = {.msg_control = m->control_bytes, .msg_controllen = m->control_len};

    if (m->control_len == 0)
        return 0;
    if (domain != AF_UNIX)
        return -EPERM;
    if (m->control_len > sizeof m->control_bytes)
        return -EINVAL;
    int rc = caller_read(c, m->control, m->control_bytes, m->control_len);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&in); rc == 0 && h; h = CMSG_NXTHDR(&in, h)) {
        size_t left = m->control_len - (size_t)((char *)h - m->control_bytes);

        rc = h->cmsg_len < CMSG_LEN(0) || h->cmsg_len > left ? -EINVAL : take_fds(m, c, h);
    }
    if (rc < 0 || m->n_fds == 0)
        return rc;
    struct cmsghdr *h = (struct cmsghdr *)m->control_bytes;
    memset(m->control_bytes, 0, sizeof m->control_bytes);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(m->n_fds * sizeof(int));
    memcpy(CMSG_DATA(h), m->fds, m->n_fds * sizeof(int));
    m->out.msg_control = m->control_bytes;
    m->out.msg_controllen = CMSG_SPACE(m->n_fds * sizeof(int));
    return 0;
}

int
message_copy(struct message *m, const struct caller *c, int domain, int type)
{
    int rc = copy_data(m, c, type);

    if (rc == 0)
        rc = copy_control(m, c, domain);
    if (rc < 0)
        message_done(m);
    return rc;
}

void
message_done(struct message *m)
{
    for (size_t i = 0; i < m->n_fds; i++)
        (void)close(m->fds[i]);
    m->n_fds = 0;
}
