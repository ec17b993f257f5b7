/* SPDX-License-Identifier: MIT */
#include "keeper/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/packet.h"
#include "base/sig.h"
#include "keeper/egress.h"
#include "keeper/home.h"
#include "keeper/privileges.h"
#include "keeper/sandboxes.h"
#include "keeper/slot.h"
#include "keeper/volume.h"

#define TELL_MS 2000
#define EXIT_REFUSED 70

void
monitor_tell_exit(int shim, int value, const char *detail)
{
    struct wire_event e = {.version = WIRE_VERSION, .op = WIRE_EXIT, .value = value};

    (void)snprintf(e.detail, sizeof(e.detail), "%.190s", detail);
    if (shim >= 0)
        (void)packet_send(shim, &e, sizeof(e), NULL, 0, deadline_in(TELL_MS));
}

static int
attach_network(void *ctx, pid_t init)
{
    struct monitor *m = ctx;
    struct err err = ERR_INIT;

    if (egress_attach(m->o, m->slot, init, &err) == 0)
        return 0;
    log_error("kernel %s: no network: %s", m->kernel, err.msg);
    return -1;
}

/* All that a sandbox takes, in the order in which it must be there. */
static int
take_place(struct monitor *m, struct err *err)
{
    if (volume_leave(m->o, err) < 0)
        return -1;
    m->control = sandbox_listen(m->o, m->kernel, err);
    if (m->control < 0)
        return -1;
    m->slot_lock = slot_take(m->o, &m->slot, err);
    if (m->slot_lock < 0)
        return -1;
    m->uid = m->o->tier == TIER_ROOTLESS ? geteuid() : (uid_t)(KERNEL_UID_BASE + m->slot);
    /* Without namespaces a monitor that was killed leaves what its session had running. */
    if (m->o->tier == TIER_CONTAINER)
        box_end_uid(m->uid);
    if (home_make(m->o, m->kernel, m->uid, m->home, err) < 0)
        return -1;
    return cgroup_make(&m->cgroup, m->o, m->kernel, err);
}

static int
start_box(struct monitor *m, const struct wire_start *start, const int fds[WIRE_START_FDS],
          struct err *err)
{
    struct box_spec s = {.o = m->o,
                         .uid = m->uid,
                         .slot = m->slot,
                         .slot_lock = m->slot_lock,
                         .connection = start->connection,
                         .connection_len = start->connection_len,
                         .home = m->home};
    struct ucred gateway;

    if (packet_peer(m->shim, &gateway) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "whose kernel it is");
    _cleanup_close_ int out = relay_open(&m->out, fds[0], &gateway, err);
    _cleanup_close_ int errors = out < 0 ? -1 : relay_open(&m->err, fds[1], &gateway, err);

    if (out < 0 || errors < 0)
        return -1;
    s.out = out;
    s.err = errors;
    memcpy(s.listeners, fds + 2, sizeof(s.listeners));
    int rc = box_start(&s, &m->cgroup, attach_network, m, &m->box, err);
    for (int i = 2; i < WIRE_START_FDS; i++)
        (void)close(fds[i]);
    return rc;
}

/* Where notifications hold the egress policy, a child of ours answers them. */
static int
supervise(struct monitor *m, struct err *err)
{
    if (m->box.notify_fd < 0)
        return 0;
    pid_t pid = egress_supervise(m->o, m->uid, m->home, m->box.notify_fd, err);
    (void)close(m->box.notify_fd);
    m->box.notify_fd = -1;
    return pid < 0 ? -1 : 0;
}

static void
take_event(struct monitor *m)
{
    static const int relayed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
    struct wire_event e;
    struct err err = ERR_INIT;
    int n_fds = 0;

    /* Its end, or anything that is not a signal, ends the sandbox. */
    if (packet_receive(m->shim, &e, sizeof(e), NULL, 0, &n_fds, deadline_in(0), &err) != 1 ||
        e.version != WIRE_VERSION || e.op != WIRE_SIGNAL) {
        (void)close(m->shim);
        m->shim = -1;
        m->killed = true;
        return;
    }
    for (size_t i = 0; i < sizeof(relayed) / sizeof(relayed[0]); i++)
        if (e.value == relayed[i])
            (void)box_signal(&m->box, e.value);
}

static void
accept_control(struct monitor *m)
{
    int fd = accept4(m->control, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0)
        monitor_answer(m, fd);
}

/* What to wait for; returns the longest wait. */
static int
watch(const struct monitor *m, struct pollfd p[5])
{
    int out = relay_wait_ms(&m->out), errors = relay_wait_ms(&m->err), ms = -1;

    p[0] = (struct pollfd){.fd = m->box.pidfd, .events = POLLIN};
    p[1] = (struct pollfd){.fd = m->shim, .events = POLLIN};
    p[2] = (struct pollfd){.fd = m->control, .events = POLLIN};
    p[3] = (struct pollfd){.fd = out ? -1 : m->out.from, .events = POLLIN};
    p[4] = (struct pollfd){.fd = errors ? -1 : m->err.from, .events = POLLIN};
    if (out > 0)
        ms = out;
    if (errors > 0 && (ms < 0 || errors < ms))
        ms = errors;
    return ms;
}

/* Until init has ended; returns the kernel's exit code or, negative, its signal. */
static int
serve(struct monitor *m)
{
    for (;;) {
        struct pollfd p[5];
        int ms = watch(m, p), value = 0;

        if (poll(p, 5, ms) < 0 && errno != EINTR)
            return EXIT_REFUSED;
        if (p[1].revents)
            take_event(m);
        if (p[2].revents)
            accept_control(m);
        if (p[3].revents)
            relay_move(&m->out);
        if (p[4].revents)
            relay_move(&m->err);
        if (m->killed)
            return -SIGKILL;
        if (box_ended(&m->box, &value) != 0)
            return value;
    }
}

/* Gives everything back. The mark of the end comes before the socket goes, and husk-launch is told
 * last: when the gateway sees the kernel's end, nothing of it is left. */
static void
leave_place(struct monitor *m, bool started)
{
    struct wire_counters c;

    if (started) {
        monitor_counters(m, &c);
        box_kill(&m->box, &m->cgroup);
    } else if (m->cgroup.made) {
        cgroup_remove(&m->cgroup);
    }
    relay_close(&m->out);
    relay_close(&m->err);
    if (m->slot_lock >= 0) {
        egress_detach(m->o, m->slot);
        home_remove(m->o, m->kernel);
    }
    cleanup_close(&m->tree);
    cleanup_close(&m->hold);
    cleanup_close(&m->slot_lock);
    if (m->control >= 0) {
        if (started && ended_write(m->o, m->kernel, &c) < 0)
            log_warning("cannot note the end of kernel %s: %s", m->kernel, strerror(errno));
        sandbox_forget(m->o, m->kernel);
        cleanup_close(&m->control);
    }
}

/* The machine's memory runs out: what a session did is not to be paid by its monitor. */
static void
protect_from_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, "-900", 4) < 0)
        log_debug("cannot lower the monitor's oom_score_adj: %s", strerror(errno));
    cleanup_close(&fd);
}

static void
become_monitor(void)
{
    (void)setsid();
    /* The folders of the sandbox's root are made by what is forked here: others must enter them. */
    (void)umask(022);
    (void)prctl(PR_SET_NAME, "husk-monitor");
    sig_ignore_pipe();
    log_rename("husk-monitor");
    protect_from_oom();
}

void
monitor_run(const struct keeper_options *o, int shim, const struct wire_start *start,
            const int fds[WIRE_START_FDS])
{
    struct monitor m = {.o = o,
                        .kernel = start->kernel,
                        .shim = shim,
                        .control = -1,
                        .slot_lock = -1,
                        .hold = -1,
                        .tree = -1,
                        .cgroup = {.v2_fd = -1},
                        .box = {.pidfd = -1, .notify_fd = -1},
                        .out = {.from = -1, .to = -1},
                        .err = {.from = -1, .to = -1}};
    struct err err = ERR_INIT;
    int64_t at_ms = clock_mono_ms();
    bool started = false;
    int value = EXIT_REFUSED;

    become_monitor();
    if (take_place(&m, &err) == 0 && start_box(&m, start, fds, &err) == 0) {
        started = true;
        if (supervise(&m, &err) == 0 && privileges_reduce(o, &err) == 0) {
            struct wire_event e = {
                .version = WIRE_VERSION, .op = WIRE_STARTED, .value = (int32_t)m.uid};
            (void)packet_send(m.shim, &e, sizeof(e), NULL, 0, deadline_in(TELL_MS));
            log_info("kernel %s began as uid %u after %lld ms", m.kernel, (unsigned)m.uid,
                     (long long)(clock_mono_ms() - at_ms));
            value = serve(&m);
        }
    }
    leave_place(&m, started);
    if (err.code != ERR_NONE)
        log_error("kernel %s was not started: %s", m.kernel, err.msg);
    else
        log_info("kernel %s ended with %d", m.kernel, value);
    monitor_tell_exit(m.shim, value, err.msg);
}
