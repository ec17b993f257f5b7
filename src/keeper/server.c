/* SPDX-License-Identifier: MIT */
#include "keeper/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/num.h"
#include "base/packet.h"
#include "base/sig.h"
#include "keeper/egress.h"
#include "keeper/hoard.h"
#include "keeper/monitor.h"
#include "keeper/sandboxes.h"
#include "keeper/sweep.h"
#include "keeper/volume.h"

#define FIRST_PASSED_FD 3 /* SD_LISTEN_FDS_START */
#define EXIT_REFUSED 70
#define WARN_INTERVAL_MS 1000
#define OWN_FDS 4 /* polled besides those of adopted monitors */

enum child_kind { CHILD_MONITOR, CHILD_REQUEST, CHILD_SWEEP, CHILD_HOARD };

struct child {
    pid_t pid;
    enum child_kind kind;
};

struct loop {
    struct keeper *k;
    struct child *children;
    int n_children, max_children;
    int requests, monitors; /* how many of them are of that kind */
    int *adopted;           /* pidfds of monitors that an earlier keeper has forked */
    int n_adopted;
    struct pollfd *polled;
    int egress_fd; /* of egress_watch(), or -1 */
    bool sweeping, sweep_wanted;
    struct deadline next_sweep;
    struct hoard_watch hoard;
    bool searching; /* whose it is */
    struct deadline next_look;
    int64_t warned_ms;
};

/* The socket that a manager of services has opened for us under this name, or -1. */
static int
passed_socket(const char *name)
{
    const char *count = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
    uint64_t n = 0, for_pid = 0;

    if (!count || !pid || num_u64(count, strlen(count), 16, &n) != 1 ||
        num_u64(pid, strlen(pid), INT32_MAX, &for_pid) != 1 || (pid_t)for_pid != getpid())
        return -1;
    for (int fd = FIRST_PASSED_FD; fd < FIRST_PASSED_FD + (int)n; fd++) {
        struct sockaddr_un at = {0};
        socklen_t len = sizeof(at);
        int type = 0;
        socklen_t type_len = sizeof(type);

        if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 || at.sun_family != AF_UNIX ||
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) < 0 || type != SOCK_SEQPACKET)
            continue;
        const char *base = strrchr(at.sun_path, '/');
        if (base && strcmp(base + 1, name) == 0) {
            (void)fd_set_cloexec(fd, true);
            (void)fd_set_nonblock(fd, true);
            return fd;
        }
    }
    return -1;
}

static int
open_socket(const struct keeper *k, const char *name, uid_t uid, struct err *err)
{
    char path[KEEPER_PATH_MAX + 20];
    int fd = passed_socket(name);

    if (fd >= 0)
        return fd;
    (void)snprintf(path, sizeof(path), "%s/%s", k->o.run_dir, name);
    (void)unlink(path); /* a predecessor's: no second keeper runs, that was made sure of */
    return packet_listen(path, uid, (gid_t)-1, 0600, err);
}

int
server_listen(struct keeper *k, struct err *err)
{
    k->launch_fd = open_socket(k, WIRE_LAUNCH_SOCKET, k->o.gateway_uid, err);
    k->files_fd = k->launch_fd < 0 ? -1 : open_socket(k, WIRE_FILES_SOCKET, k->o.worker_uid, err);
    return k->files_fd < 0 ? -1 : 0;
}

/* A forked child keeps standard descriptors and the connection, which becomes descriptor 3; the
 * keeper's own, the lock above all, must not live on in it. */
static int
become_child(int fd)
{
    sig_reset_all();
    sig_ignore_pipe();
    if (fd >= 0 && fd != FIRST_PASSED_FD && dup3(fd, FIRST_PASSED_FD, O_CLOEXEC) < 0)
        _exit(EXIT_FAILURE);
    (void)syscall(SYS_close_range, FIRST_PASSED_FD + (fd >= 0), ~0U, 0);
    return FIRST_PASSED_FD;
}

static void
run_child(const struct keeper *k, enum child_kind kind, int fd)
{
    int connection = become_child(fd);

    if (kind == CHILD_MONITOR) {
        launch_serve(k, connection);
        return;
    }
    (void)alarm(REQUEST_ALARM_S);
    if (kind == CHILD_REQUEST) {
        files_serve(k, connection);
        return;
    }
    if (kind == CHILD_HOARD) {
        hoard_end(&k->o, k->max_sandboxes);
        return;
    }
    sweep_run(&k->o);
    if (k->ready)
        volume_sweep(&k->o);
}

static int
start_child(struct loop *l, enum child_kind kind, int fd)
{
    sigset_t all, before;

    if (l->n_children == l->max_children)
        return -1;
    /* A signal must not reach the handlers in a child that has not yet put them off. */
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        run_child(l->k, kind, fd);
        _exit(EXIT_SUCCESS);
    }
    int e = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        log_error("cannot fork: %s", strerror(e));
        return -1;
    }
    l->children[l->n_children++] = (struct child){pid, kind};
    l->requests += kind == CHILD_REQUEST;
    l->monitors += kind == CHILD_MONITOR;
    l->sweeping = l->sweeping || kind == CHILD_SWEEP;
    l->searching = l->searching || kind == CHILD_HOARD;
    return 0;
}

static void
forget_child(struct loop *l, pid_t pid, int status)
{
    bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    for (int i = 0; i < l->n_children; i++) {
        enum child_kind kind = l->children[i].kind;

        if (l->children[i].pid != pid)
            continue;
        l->children[i] = l->children[--l->n_children];
        l->requests -= kind == CHILD_REQUEST;
        l->monitors -= kind == CHILD_MONITOR;
        if (kind == CHILD_SWEEP)
            l->sweeping = false;
        if (kind == CHILD_HOARD)
            l->searching = false;
        if (!well)
            log_warning("%s %d ended by %s %d",
                        kind == CHILD_MONITOR   ? "monitor"
                        : kind == CHILD_REQUEST ? "the answer to a question, process"
                        : kind == CHILD_HOARD   ? "the search for memory, process"
                                                : "the sweep, process",
                        (int)pid, WIFSIGNALED(status) ? "signal" : "exit",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        l->sweep_wanted = l->sweep_wanted || (!well && kind == CHILD_MONITOR);
        return;
    }
}

static void
reap(struct loop *l)
{
    int status = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        forget_child(l, pid, status);
}

/* Not for every try of a flood. */
static bool
may_warn(struct loop *l)
{
    int64_t now = clock_mono_ms();

    if (now - l->warned_ms < WARN_INTERVAL_MS)
        return false;
    l->warned_ms = now;
    return true;
}

/* The next connection of this uid's (or root's, where that is allowed), or -1. */
static int
accept_peer(struct loop *l, int listener, uid_t uid, bool root_too)
{
    struct ucred peer;
    _cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return -1;
    if (packet_peer(fd, &peer) == 0 && (peer.uid == uid || (root_too && peer.uid == 0)))
        return steal_fd(&fd);
    if (may_warn(l))
        log_warning("uid %u, process %d, is not served here", (unsigned)peer.uid, (int)peer.pid);
    return -1;
}

static void
accept_launch(struct loop *l)
{
    _cleanup_close_ int fd = accept_peer(l, l->k->launch_fd, l->k->o.gateway_uid, false);

    if (fd < 0)
        return;
    if (l->monitors + l->n_adopted < l->k->max_sandboxes && start_child(l, CHILD_MONITOR, fd) == 0)
        return;
    if (may_warn(l))
        log_warning("a start was refused: there are %d sandboxes", l->monitors + l->n_adopted);
    monitor_tell_exit(fd, EXIT_REFUSED, "there are as many sandboxes as there may be");
}

static void
accept_request(struct loop *l)
{
    _cleanup_close_ int fd = accept_peer(l, l->k->files_fd, l->k->o.worker_uid, true);

    if (fd >= 0)
        (void)start_child(l, CHILD_REQUEST, fd);
}

/* Monitors that a predecessor has forked: their end is seen by their pidfds. */
static void
adopt(struct loop *l)
{
    char kernel[WIRE_KERNEL_MAX] = "";

    while (l->n_adopted < l->k->max_sandboxes &&
           sandboxes_next(&l->k->o, kernel, kernel, NULL) == 1) {
        struct err err = ERR_INIT;
        struct ucred peer;
        int fd = sandbox_connect(&l->k->o, kernel, deadline_in(1000), NULL, &err);
        int pidfd =
            fd >= 0 && packet_peer(fd, &peer) == 0 ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;

        cleanup_close(&fd);
        if (pidfd >= 0)
            l->adopted[l->n_adopted++] = pidfd;
    }
    if (l->n_adopted)
        log_info("%d sandboxes of an earlier keeper are found again", l->n_adopted);
}

static void
sweep_if_due(struct loop *l)
{
    if (l->sweeping || !(l->sweep_wanted || deadline_passed(l->next_sweep)))
        return;
    if (start_child(l, CHILD_SWEEP, -1) < 0)
        return;
    l->sweep_wanted = false;
    l->next_sweep = deadline_in(SWEEP_INTERVAL_MS);
}

/* How long nothing needs to be looked at. */
static int
watch_hoards(struct loop *l)
{
    if (!l->monitors && !l->n_adopted)
        return SWEEP_INTERVAL_MS;
    if (deadline_passed(l->next_look)) {
        l->next_look = deadline_in(HOARD_LOOK_MS);
        if (!l->searching && hoard_suspected(&l->hoard))
            (void)start_child(l, CHILD_HOARD, -1);
    }
    return deadline_poll_ms(l->next_look, HOARD_LOOK_MS);
}

/* Signals that have come; true: it is time to end. */
static bool
take_signals(struct loop *l)
{
    int sig;
    bool end = false;

    while ((sig = sig_next(l->k->signals_fd)))
        end = end || sig != SIGCHLD;
    reap(l);
    return end;
}

static void
forget_adopted(struct loop *l, const struct pollfd *p)
{
    int n = l->n_adopted;

    l->n_adopted = 0;
    for (int i = 0; i < n; i++) {
        if (!p[i].revents) {
            l->adopted[l->n_adopted++] = l->adopted[i];
            continue;
        }
        (void)close(l->adopted[i]);
        l->sweep_wanted = true;
    }
}

static int
serve(struct loop *l, struct err *err)
{
    struct pollfd *p = l->polled;

    for (;;) {
        sweep_if_due(l);
        int look_ms = watch_hoards(l);
        p[0] = (struct pollfd){.fd = l->k->signals_fd, .events = POLLIN};
        p[1] = (struct pollfd){.fd = l->k->launch_fd, .events = POLLIN};
        p[2] = (struct pollfd){.fd = l->requests < REQUESTS_MAX ? l->k->files_fd : -1,
                               .events = POLLIN};
        p[3] = (struct pollfd){.fd = l->egress_fd, .events = POLLIN};
        for (int i = 0; i < l->n_adopted; i++)
            p[OWN_FDS + i] = (struct pollfd){.fd = l->adopted[i], .events = POLLIN};
        int n = poll(p, OWN_FDS + (nfds_t)l->n_adopted, deadline_poll_ms(l->next_sweep, look_ms));
        if (n < 0 && errno != EINTR)
            return err_sys(err, ERR_INTERNAL, errno, "cannot wait");
        if (n <= 0)
            continue;
        if (p[0].revents && take_signals(l))
            return 0;
        if (p[1].revents)
            accept_launch(l);
        if (p[2].revents)
            accept_request(l);
        if (p[3].revents && egress_changed(l->egress_fd))
            l->sweep_wanted = true;
        forget_adopted(l, p + OWN_FDS);
    }
}

int
server_run(struct keeper *k, struct err *err)
{
    struct err unwatched = ERR_INIT;
    struct loop l = {.k = k, .max_children = k->max_sandboxes + REQUESTS_MAX + 2};
    int64_t sandboxes = 0;
    char none[WIRE_KERNEL_MAX];

    l.children = xcalloc((size_t)l.max_children, sizeof(*l.children));
    l.adopted = xcalloc((size_t)k->max_sandboxes, sizeof(*l.adopted));
    l.polled = xcalloc((size_t)k->max_sandboxes + OWN_FDS, sizeof(*l.polled));
    l.sweep_wanted = true;
    l.next_sweep = deadline_in(SWEEP_INTERVAL_MS);
    l.next_look = deadline_in(HOARD_LOOK_MS);
    hoard_open(&l.hoard);
    l.egress_fd = k->ready ? egress_watch(&k->o, &unwatched) : -1;
    if (unwatched.code)
        log_warning("%s: they are looked at every %d s", unwatched.msg, SWEEP_INTERVAL_MS / 1000);
    adopt(&l);
    int rc = serve(&l, err);
    (void)sandboxes_next(&k->o, "", none, &sandboxes);
    if (sandboxes)
        log_info("%lld sandboxes live on without a keeper; huskctl sandbox stop --all ends them "
                 "while one runs",
                 (long long)sandboxes);
    for (int i = 0; i < l.n_adopted; i++)
        (void)close(l.adopted[i]);
    cleanup_close(&l.egress_fd);
    hoard_close(&l.hoard);
    free(l.children);
    free(l.adopted);
    free(l.polled);
    return rc;
}
