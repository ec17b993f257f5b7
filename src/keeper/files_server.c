/* SPDX-License-Identifier: MIT */
/* What workers, the reaper and huskctl ask, each answered in a child of the keeper's. */
#include "keeper/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/packet.h"
#include "keeper/errnos.h"
#include "keeper/options.h"
#include "keeper/sandboxes.h"
#include "keeper/tier.h"
#include "keeper/volume.h"

#define ASK_MS 2000
#define MONITOR_MS 10000
#define KILL_MS 10000
#define KILL_LOOK_MS 10

/* A question being answered: the reply, and a descriptor that may ride with it. */
struct question {
    const struct keeper *k;
    const struct wire_request *q;
    struct wire_reply reply;
    int fd;
};

static int
answer_make(struct question *x, struct err *err)
{
    bool existed = false;

    if (volume_make(&x->k->o, x->q->workspace, &existed, err) < 0)
        return -1;
    x->reply.flag = existed;
    return 0;
}

static int
answer_root(struct question *x, struct err *err)
{
    x->fd = volume_root(&x->k->o, x->q->workspace, err);
    return x->fd < 0 ? -1 : 0;
}

/* One question to the kernel's monitor, whose answer is in x->reply.  */
static int
ask_monitor(struct question *x, enum wire_op op, uint64_t workspace, int tree, struct err *err)
{
    struct deadline d = deadline_in(MONITOR_MS);
    _cleanup_close_ int fd = sandbox_connect(&x->k->o, x->q->kernel, d, NULL, err);

    if (fd < 0 || sandbox_ask(fd, op, workspace, tree, &x->reply, d, err) < 0)
        return -1;
    if (x->reply.error)
        return err_sys(err,
                       x->reply.error == EBUSY    ? ERR_CONFLICT
                       : x->reply.error == ENOENT ? ERR_NOT_FOUND
                                                  : ERR_INTERNAL,
                       x->reply.error, "%.150s", x->reply.detail);
    return 0;
}

static int
answer_bind(struct question *x, struct err *err)
{
    const struct keeper_options *o = &x->k->o;
    uint64_t workspace = x->q->workspace;
    _cleanup_close_ int tree = -1;

    if (ask_monitor(x, WIRE_HELLO, 0, -1, err) < 0)
        return -1;
    if (x->reply.workspace == workspace)
        return 0;
    if (x->reply.workspace)
        return err_sys(err, ERR_CONFLICT, EBUSY, "the kernel has another workspace");
    if (o->tier != TIER_CONTAINER) {
        tree = volume_tree(o, workspace, (uid_t)x->reply.uid, err);
        if (tree < 0)
            return -1;
    }
    return ask_monitor(x, WIRE_ATTACH, workspace, tree, err);
}

static int
answer_status(struct question *x, struct err *err)
{
    const struct keeper_options *o = &x->k->o;
    struct err gone = ERR_INIT;
    bool dead = false;

    if (ask_monitor(x, WIRE_HELLO, 0, -1, err) == 0)
        return 0;
    if (err->code != ERR_NOT_FOUND)
        return -1;
    /* A killed monitor leaves its socket, until the sweep has written the mark: looked at first, as
     * the mark is there before the socket goes. */
    int fd = sandbox_connect(o, x->q->kernel, deadline_in(0), &dead, &gone);

    if (fd >= 0)
        (void)close(fd);
    if (ended_read(o, x->q->kernel, &x->reply.counters) != 1) {
        if (!dead)
            return -1;
        x->reply.counters = (struct wire_counters){-1, -1, -1, -1, -1, -1};
    }
    x->reply.flag = 1;
    return 0;
}

static int
answer_remove(struct question *x, struct err *err)
{
    return volume_remove(&x->k->o, x->q->workspace, err);
}

static int
answer_usage(struct question *x, struct err *err)
{
    x->reply.value = volume_usage(&x->k->o, x->q->workspace, err);
    return x->reply.value < 0 ? -1 : 0;
}

/* Answers when it is gone, with all that was its. */
static int
answer_kill(struct question *x, struct err *err)
{
    const struct timespec look = {0, KILL_LOOK_MS * 1000000L};
    struct deadline d = deadline_in(KILL_MS);

    if (ask_monitor(x, WIRE_END, 0, -1, err) < 0)
        return -1;
    while (sandbox_lives(&x->k->o, x->q->kernel)) {
        if (deadline_passed(d))
            return err_set(err, ERR_TIMEOUT, "the sandbox has not ended within %d s",
                           KILL_MS / 1000);
        (void)nanosleep(&look, NULL);
    }
    return 0;
}

static int
answer_list(struct question *x, struct err *err)
{
    struct wire_request next = *x->q;
    int64_t count = 0;

    for (;;) {
        if (sandboxes_next(&x->k->o, next.kernel, next.kernel, &count) != 1)
            return err_set(err, ERR_NOT_FOUND, "there is no further sandbox");
        x->q = &next;
        int r = ask_monitor(x, WIRE_HELLO, 0, -1, err);
        if (r == 0 || err->code != ERR_NOT_FOUND) {
            x->q = NULL;
            x->reply.value = count;
            return r;
        }
        /* one that has ended meanwhile is passed over */
    }
}

static const struct {
    enum wire_op op;
    bool kernel, workspace; /* which it names */
    bool ready;             /* takes a keeper that can make sandboxes */
    int (*answer)(struct question *x, struct err *err);
} answers[] = {
    {WIRE_MAKE, false, true, true, answer_make},
    {WIRE_ROOT, false, true, true, answer_root},
    {WIRE_BIND, true, true, true, answer_bind},
    {WIRE_STATUS, true, false, false, answer_status},
    {WIRE_REMOVE, false, true, true, answer_remove},
    {WIRE_USAGE, false, true, true, answer_usage},
    {WIRE_KILL, true, false, false, answer_kill},
    {WIRE_LIST, false, false, false, answer_list},
};

static int
answer(struct question *x, struct err *err)
{
    const struct wire_request *q = x->q;

    if (q->version != WIRE_VERSION)
        return err_sys(err, ERR_INVALID, EPROTO, "husk-keeper speaks version %d", WIRE_VERSION);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        if (answers[i].op != (enum wire_op)q->op)
            continue;
        if ((answers[i].kernel && !kernel_id_valid(q->kernel)) ||
            (answers[i].workspace && q->workspace == 0))
            return err_sys(err, ERR_INVALID, EINVAL, "not the id of a kernel or a workspace");
        if (answers[i].ready && !x->k->ready)
            return err_sys(err, ERR_UNAVAILABLE, EAGAIN, "no sandbox can be made here: %.150s",
                           x->k->detail);
        return answers[i].answer(x, err);
    }
    return err_sys(err, ERR_INVALID, EPROTO, "husk-keeper does not know this question");
}

static void
put(char *to, size_t room, const char *from)
{
    (void)snprintf(to, room, "%s", from);
}

static void
answer_info(const struct keeper *k, int fd, struct deadline d)
{
    const struct keeper_options *o = &k->o;
    struct wire_info i = {.version = WIRE_VERSION, .op = WIRE_INFO, .ready = k->ready};
    char none[WIRE_KERNEL_MAX];

    put(i.tier, sizeof(i.tier), tier_name(o->tier));
    put(i.egress, sizeof(i.egress), egress_name(o->egress));
    put(i.disk, sizeof(i.disk), o->images ? "image" : "none");
    put(i.detail, sizeof(i.detail), k->detail);
    i.memory_bytes = o->limits.memory_bytes;
    i.cpu_milli = o->cgroups ? o->limits.cpu_milli : 0;
    i.pids = o->limits.pids;
    i.disk_bytes = o->images ? o->limits.disk_bytes : 0;
    (void)sandboxes_next(o, "", none, &i.sandboxes);
    (void)packet_send(fd, &i, sizeof(i), NULL, 0, d);
}

void
files_serve(const struct keeper *k, int fd)
{
    struct deadline d = deadline_in(ASK_MS);
    struct wire_request q;
    struct err err = ERR_INIT;
    int n_fds = 0;
    int r = packet_receive(fd, &q, sizeof(q), NULL, 0, &n_fds, d, &err);

    if (r != 1) {
        if (r < 0 && err.code != ERR_TIMEOUT) /* of silence there may be much */
            log_warning("a question was refused: %s", err.msg);
        return;
    }
    if (q.version == WIRE_VERSION && q.op == WIRE_INFO) {
        answer_info(k, fd, d);
        return;
    }
    struct question x = {.k = k, .q = &q, .fd = -1};
    int rc = answer(&x, &err);
    x.reply.version = WIRE_VERSION;
    x.reply.op = q.op;
    x.reply.error = rc < 0 ? errno_of(&err) : 0;
    if (rc < 0)
        (void)snprintf(x.reply.detail, sizeof(x.reply.detail), "%.190s", err.msg);
    if (rc < 0 && err.code == ERR_INTERNAL)
        log_error("question %u: %s", q.op, err.msg);
    (void)packet_send(fd, &x.reply, sizeof(x.reply), &x.fd, x.fd >= 0, deadline_in(ASK_MS));
    cleanup_close(&x.fd);
}
