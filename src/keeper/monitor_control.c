/* SPDX-License-Identifier: MIT */
/* What the keeper asks a monitor. */
#include "keeper/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/packet.h"
#include "keeper/errnos.h"
#include "keeper/home.h"
#include "keeper/volume.h"

#define ASK_MS 2000 /* the keeper sends at once what it has to say */

void
monitor_counters(const struct monitor *m, struct wire_counters *ret)
{
    struct statfs fs;

    *ret = (struct wire_counters){-1, -1, -1, -1, -1, -1};
    cgroup_counters(&m->cgroup, ret);
    if (m->hoarded && ret->oom_kills >= 0)
        ret->oom_kills++;
    if (m->o->images && m->tree >= 0 && fstatfs(m->tree, &fs) == 0) {
        ret->disk_free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_bsize;
        ret->disk_free_inodes = (int64_t)fs.f_ffree;
    }
}

/* Takes the tree where it succeeds. The hold comes before the mount: from then on nobody removes
 * it. */
static int
attach(struct monitor *m, uint64_t workspace, int *tree, struct err *err)
{
    bool container = m->o->tier == TIER_CONTAINER;
    int rc;

    if (m->workspace == workspace)
        return 0;
    if (m->workspace)
        return err_sys(err, ERR_CONFLICT, EBUSY, "the kernel has another workspace");
    if (!workspace || (*tree < 0) != container)
        return err_sys(err, ERR_INVALID, EPROTO, "not a workspace of this tier");
    _cleanup_close_ int hold = volume_hold(m->o, workspace, err);
    if (hold < 0)
        return -1;
    rc = container ? home_lend(m->o, m->kernel, workspace, m->uid, err)
                   : box_attach(&m->box, *tree, err);
    if (rc < 0)
        return -1;
    m->workspace = workspace;
    m->hold = steal_fd(&hold);
    m->tree = steal_fd(tree);
    return 0;
}

static void
fill_reply(struct monitor *m, const struct wire_request *q, struct wire_reply *a)
{
    *a = (struct wire_reply){.version = WIRE_VERSION,
                             .op = q->op,
                             .workspace = m->workspace,
                             .uid = (uint32_t)m->uid,
                             .pid = (uint32_t)getpid()};
    (void)snprintf(a->kernel, sizeof(a->kernel), "%s", m->kernel);
}

void
monitor_answer(struct monitor *m, int fd)
{
    _cleanup_close_ int connection = fd;
    struct deadline d = deadline_in(ASK_MS);
    struct wire_request q;
    struct wire_reply a;
    struct err err = ERR_INIT;
    int tree = -1, n_fds = 0, rc = 0;

    if (packet_receive(connection, &q, sizeof(q), &tree, 1, &n_fds, d, &err) != 1)
        return;
    _cleanup_close_ int owned = n_fds ? tree : -1;
    if (q.version != WIRE_VERSION)
        rc = err_sys(&err, ERR_INVALID, EPROTO, "the monitor is of another version");
    else if (q.op == WIRE_ATTACH)
        rc = attach(m, q.workspace, &owned, &err);
    else if (q.op == WIRE_END || q.op == WIRE_HOARD)
        m->killed = true;
    else if (q.op != WIRE_HELLO)
        rc = err_sys(&err, ERR_INVALID, EPROTO, "the monitor does not know this question");
    m->hoarded = m->hoarded || q.op == WIRE_HOARD;
    fill_reply(m, &q, &a);
    if (q.op == WIRE_HELLO) {
        monitor_counters(m, &a.counters);
        a.value = m->box.pid;
    }
    if (rc < 0) {
        a.error = errno_of(&err);
        (void)snprintf(a.detail, sizeof(a.detail), "%.190s", err.msg);
    }
    (void)packet_send(connection, &a, sizeof(a), NULL, 0, d);
}
