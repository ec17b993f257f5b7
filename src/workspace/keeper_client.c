/* SPDX-License-Identifier: MIT */
#include "workspace/keeper_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/packet.h"

static int
away(struct err *err, int sys_errno, const char *what)
{
    (void)err_slug(err, ERR_UNAVAILABLE, "keeper_unavailable", "husk-keeper: %s: %s", what,
                   strerror(sys_errno));
    if (err)
        err->sys_errno = sys_errno;
    return -1;
}

static int
dial(const char *dir, struct deadline d, struct err *err)
{
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path];
    struct err why = ERR_INIT;
    int fd, n = snprintf(path, sizeof path, "%s/" WIRE_FILES_SOCKET, dir);

    if (n < 0 || (size_t)n >= sizeof path)
        return away(err, ENAMETOOLONG, "the path of its socket");
    fd = packet_connect(path, d, &why);
    return fd >= 0 ? fd : away(err, why.sys_errno ? why.sys_errno : ETIMEDOUT, path);
}

/* Asks; the answer's n bytes begin as struct wire_reply does: version, op, error. *ret_fd: the
 * descriptor that came with it, or -1. */
static int
ask(const char *dir, const struct wire_request *q, void *p, size_t n, int *ret_fd, int64_t ms,
    struct err *err)
{
    struct deadline d = deadline_in(ms);
    const struct wire_reply *head = p;
    struct err why = ERR_INIT;
    _cleanup_close_ int fd = dial(dir, d, err);
    int n_fds = 0, r;

    *ret_fd = -1;
    if (fd < 0)
        return -1;
    if (packet_send(fd, q, sizeof *q, NULL, 0, d) < 0)
        return away(err, errno, "it takes no question");
    r = packet_receive(fd, p, n, ret_fd, 1, &n_fds, d, &why);
    if (n_fds == 0)
        *ret_fd = -1;
    if (r < 0)
        return away(err, why.code == ERR_TIMEOUT ? ETIMEDOUT : EPROTO, "it does not answer");
    if (r == 0)
        return away(err, ECONNRESET, "it ended before it answered");
    if (head->version == WIRE_VERSION && head->op == q->op)
        return 0;
    cleanup_close(ret_fd);
    *ret_fd = -1;
    return away(err, EPROTO, "its answer is of another version");
}

/* The keeper's own words, which name the errno already; where it has none the errno's. */
static int
refused(int error, const char *detail, struct err *err)
{
    if (detail[0] == '\0')
        return err_sys(err, ERR_INTERNAL, error, "husk-keeper");
    (void)err_set(err, ERR_INTERNAL, "husk-keeper: %s", detail);
    err->sys_errno = error;
    return -1;
}

/* The usual kind. On failure ret->error is the keeper's errno, 0 if it gave no answer. */
static int
call(const char *dir, const struct wire_request *q, struct wire_reply *ret, int *ret_fd, int64_t ms,
     struct err *err)
{
    int fd = -1;

    if (ask(dir, q, ret, sizeof *ret, &fd, ms, err) < 0) {
        ret->error = 0;
        return -1;
    }
    if (ret->error == 0 && ret_fd) {
        *ret_fd = fd;
        return 0;
    }
    if (fd >= 0)
        (void)close(fd);
    if (ret->error == 0)
        return 0;
    ret->detail[sizeof ret->detail - 1] = '\0';
    if (ret->error == ENOSPC || ret->error == EDQUOT)
        return err_slug(err, ERR_LIMIT, "disk_full", "%s",
                        ret->detail[0] ? ret->detail : "the disk of the workspaces is full");
    return refused(ret->error, ret->detail, err);
}

static struct wire_request
request(enum wire_op op, int64_t workspace_id)
{
    return (struct wire_request){
        .version = WIRE_VERSION, .op = op, .workspace = (uint64_t)workspace_id};
}

/* False for what the keeper could not know: no kernel of its has such an id. */
static bool
name_kernel(struct wire_request *q, const char *kernel)
{
    size_t n = strlen(kernel);

    if (n >= sizeof q->kernel)
        return false;
    memcpy(q->kernel, kernel, n);
    return true;
}

static int
gone(struct err *err)
{
    return err_slug(err, ERR_NOT_FOUND, "workspace_gone", "the session's files are gone");
}

static int
no_kernel(struct err *err)
{
    return err_slug(err, ERR_CONFLICT, "runtime_gone", "the keeper knows no such kernel");
}

int
keeper_info(const char *dir, struct wire_info *ret, struct err *err)
{
    struct wire_request q = request(WIRE_INFO, 0);
    int fd;

    if (ask(dir, &q, ret, sizeof *ret, &fd, KEEPER_QUICK_MS, err) < 0)
        return -1;
    if (fd >= 0)
        (void)close(fd);
    ret->tier[sizeof ret->tier - 1] = '\0';
    ret->egress[sizeof ret->egress - 1] = '\0';
    ret->disk[sizeof ret->disk - 1] = '\0';
    ret->detail[sizeof ret->detail - 1] = '\0';
    if (ret->error != 0)
        return refused(ret->error, ret->detail, err);
    return 0;
}

int
keeper_make(const char *dir, int64_t workspace_id, bool *ret_existed, struct err *err)
{
    struct wire_request q = request(WIRE_MAKE, workspace_id);
    struct wire_reply a;

    if (call(dir, &q, &a, NULL, KEEPER_ANSWER_MS, err) < 0)
        return -1;
    if (ret_existed)
        *ret_existed = a.flag != 0;
    return 0;
}

int
keeper_root(const char *dir, int64_t workspace_id, int *ret_fd, struct err *err)
{
    struct wire_request q = request(WIRE_ROOT, workspace_id);
    struct wire_reply a;

    /* Code may have put something else where its folder was: that is not followed. */
    if (call(dir, &q, &a, ret_fd, KEEPER_ANSWER_MS, err) < 0)
        return a.error == ENOENT || a.error == ENOTDIR || a.error == ELOOP ? gone(err) : -1;
    if (*ret_fd < 0)
        return away(err, EPROTO, "it gave no descriptor");
    return 0;
}

int
keeper_bind(const char *dir, const char *kernel, int64_t workspace_id, struct err *err)
{
    struct wire_request q = request(WIRE_BIND, workspace_id);
    struct wire_reply a;

    if (!name_kernel(&q, kernel))
        return no_kernel(err);
    if (call(dir, &q, &a, NULL, KEEPER_ANSWER_MS, err) == 0)
        return 0;
    if (a.error == EBUSY)
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "the kernel has another workspace");
    return a.error == ENOENT ? no_kernel(err) : -1;
}

int
keeper_status(const char *dir, const char *kernel, struct wire_counters *ret, bool *ret_ended,
              struct err *err)
{
    struct wire_request q = request(WIRE_STATUS, 0);
    struct wire_reply a;

    if (!name_kernel(&q, kernel))
        return no_kernel(err);
    if (call(dir, &q, &a, NULL, KEEPER_QUICK_MS, err) < 0)
        return a.error == ENOENT ? no_kernel(err) : -1;
    *ret = a.counters;
    *ret_ended = a.flag != 0;
    return 0;
}

int
keeper_remove(const char *dir, int64_t workspace_id, struct err *err)
{
    struct wire_request q = request(WIRE_REMOVE, workspace_id);
    struct wire_reply a;

    if (call(dir, &q, &a, NULL, KEEPER_ANSWER_MS, err) == 0 || a.error == ENOENT)
        return 0;
    if (a.error == EBUSY)
        return err_slug(err, ERR_CONFLICT, "file_busy", "a kernel has the workspace still");
    return -1;
}

int
keeper_usage(const char *dir, int64_t workspace_id, int64_t *ret_bytes, struct err *err)
{
    struct wire_request q = request(WIRE_USAGE, workspace_id);
    struct wire_reply a;

    if (call(dir, &q, &a, NULL, KEEPER_ANSWER_MS, err) < 0)
        return a.error == ENOENT ? gone(err) : -1;
    *ret_bytes = a.value;
    return 0;
}

int
keeper_next(const char *dir, const char *after, struct wire_reply *ret, struct err *err)
{
    struct wire_request q = request(WIRE_LIST, 0);

    if (!name_kernel(&q, after))
        return no_kernel(err);
    if (call(dir, &q, ret, NULL, KEEPER_ANSWER_MS, err) == 0) {
        ret->kernel[sizeof ret->kernel - 1] = '\0';
        return 1;
    }
    return ret->error == ENOENT ? 0 : -1;
}

int
keeper_kill(const char *dir, const char *kernel, struct err *err)
{
    struct wire_request q = request(WIRE_KILL, 0);
    struct wire_reply a;

    if (!name_kernel(&q, kernel))
        return no_kernel(err);
    if (call(dir, &q, &a, NULL, KEEPER_ANSWER_MS, err) == 0)
        return 0;
    return a.error == ENOENT ? no_kernel(err) : -1;
}
