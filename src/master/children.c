/* SPDX-License-Identifier: MIT */
#include "master/master.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define READY_TIMEOUT_MS 30000
#define OVERDUE_GRACE_MS 5000 /* past the deadline a worker published (super/scoreboard.h) */
#define SCOREBOARD_LOOK_MS 1000
#define CLAIMED_MAX_MS 5000 /* a worker leaves that state by itself in half a second */
#define CRASH_WINDOW_MS 1000
#define THROTTLE_FIRST_MS 100
#define THROTTLE_MAX_MS 10000

/* What a child has open: its socket or /dev/null, stdout, stderr, and this. */
#define CHILD_READY_FD 3
#define EXIT_NO_EXEC 127

const char *
child_kind_name(int kind)
{
    return kind == KIND_REAPER ? "reaper" : lane_name((enum lane)kind);
}

static int
child_index(const struct master *m, const struct child *c)
{
    return (int)(c - m->children);
}

/* NULL for the reaper. */
static struct score_slot *
child_slot(struct master *m, const struct child *c)
{
    return c->kind == KIND_REAPER ? NULL : scoreboard_slot(m->board, child_index(m, c));
}

static struct child *
find_free(struct master *m, int kind)
{
    int slots = scoreboard_slots(m->board);
    int from = kind == KIND_REAPER ? slots : 0, to = kind == KIND_REAPER ? m->n_children : slots;

    for (int i = from; i < to; i++)
        if (m->children[i].pid == 0)
            return &m->children[i];
    return NULL;
}

static void
set_number(const char *name, int64_t v)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%lld", (long long)v);
    (void)setenv(name, text, 1);
}

/* The contract of super/scoreboard.h. */
static void
set_environment(const struct master *m, const struct child *c)
{
    (void)unsetenv("NOTIFY_SOCKET");
    set_number("HUSK_GENERATION", m->generation);
    if (c->kind == KIND_REAPER)
        return;
    set_number("HUSK_SLOT", child_index(m, c));
    set_number("HUSK_READY_FD", CHILD_READY_FD);
    (void)setenv("HUSK_LANE", lane_name((enum lane)c->kind), 1);
}

/* Descriptors 0 to 3 as the contract says; everything else is closed. */
static int
set_descriptors(const struct master *m, const struct child *c, int ready_fd, struct err *err)
{
    unsigned first = CHILD_READY_FD;
    int in =
        c->kind == KIND_REAPER ? open("/dev/null", O_RDONLY | O_CLOEXEC) : m->listeners[c->kind];

    /* Away from 0 to 3 first, where one could overwrite the other. */
    in = fcntl(in, F_DUPFD_CLOEXEC, CHILD_READY_FD + 1);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot give the child its socket");
    if (ready_fd >= 0) {
        ready_fd = fcntl(ready_fd, F_DUPFD_CLOEXEC, CHILD_READY_FD + 1);
        if (ready_fd < 0 || dup2(ready_fd, CHILD_READY_FD) < 0)
            return err_sys(err, ERR_INTERNAL, errno, "cannot give the child its pipe");
        first++;
    }
    if (close_range(first, ~0U, 0) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot close the master's descriptors");
    return 0;
}

/* In the child: never returns. */
static void __attribute__((noreturn))
become(const struct master *m, const struct child *c, int ready_fd)
{
    const char *program = c->kind == KIND_REAPER ? m->reaper : m->worker;
    const char *argv[4] = {program};
    struct err err = ERR_INIT;
    int n = 1;

    sig_reset_all();
    if (m->config) {
        argv[n++] = "--config";
        argv[n++] = m->config;
    }
    argv[n] = NULL;
    set_environment(m, c);
    if (set_descriptors(m, c, ready_fd, &err) < 0 || (m->drop && priv_drop(&m->ids, &err) < 0)) {
        log_error("cannot start %s: %s", program, err.msg);
        _exit(EXIT_NO_EXEC);
    }
    /* Behind the change of user, which clears it; the master may have died before. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != m->pid)
        _exit(EXIT_NO_EXEC);
    (void)execv(program, (char *const *)argv);
    log_error("cannot execute %s: %m", program);
    _exit(EXIT_NO_EXEC);
}

static void
show_start(struct master *m, const struct child *c)
{
    struct score_slot *slot = child_slot(m, c);

    if (!slot)
        return;
    atomic_store(&slot->lane, c->kind);
    atomic_store(&slot->generation, m->generation);
    score_set(slot, SLOT_STARTING, DEADLINE_NEVER);
}

static void
show_end(struct master *m, const struct child *c)
{
    struct score_slot *slot = child_slot(m, c);

    if (!slot)
        return;
    score_set(slot, SLOT_EMPTY, DEADLINE_NEVER);
    atomic_store(&slot->pid, 0);
}

int
child_spawn(struct master *m, int kind, struct err *err)
{
    struct child *c = find_free(m, kind);
    int ready[2] = {-1, -1};
    sigset_t all, old;
    pid_t pid;
    int e;

    if (!c)
        return err_set(err, ERR_LIMIT, "no free slot for another %s", child_kind_name(kind));
    if (kind != KIND_REAPER && pipe2(ready, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make a pipe");
    *c = (struct child){
        .kind = kind,
        .generation = m->generation,
        .started_ms = clock_mono_ms(),
        .ready_fd = ready[0],
        .ready = kind == KIND_REAPER,
        .ready_by = deadline_in(READY_TIMEOUT_MS),
        .kill_at = DEADLINE_NEVER,
    };
    show_start(m, c);
    /* No signal may run the master's handler in the child. */
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    pid = fork();
    e = errno;
    if (pid == 0)
        become(m, c, ready[1]);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    if (ready[1] >= 0)
        (void)close(ready[1]);
    if (pid < 0) {
        cleanup_close(&c->ready_fd);
        show_end(m, c);
        return err_sys(err, ERR_UNAVAILABLE, e, "cannot fork");
    }
    c->pid = pid;
    if (child_slot(m, c))
        atomic_store(&child_slot(m, c)->pid, pid);
    log_debug("started %s %d, slot %d", child_kind_name(kind), (int)pid, child_index(m, c));
    return 0;
}

void
child_end(struct child *c, struct deadline kill_at)
{
    if (c->ending) {
        c->kill_at = deadline_min(c->kill_at, kill_at);
        return;
    }
    c->ending = true;
    c->kill_at = kill_at;
    (void)kill(c->pid, SIGTERM);
}

void
child_kill(struct child *c, const char *why)
{
    if (c->killed)
        return;
    log_warning("killing %s %d: %s", child_kind_name(c->kind), (int)c->pid, why);
    c->killed = true;
    (void)kill(c->pid, SIGKILL);
}

void
child_hear(struct master *m, struct child *c)
{
    char byte;
    ssize_t n = read(c->ready_fd, &byte, 1);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    (void)close(c->ready_fd);
    c->ready_fd = -1;
    c->ready = n == 1;
    if (c->ready)
        log_debug("%s %d, slot %d is ready", child_kind_name(c->kind), (int)c->pid,
                  child_index(m, c));
}

/* A kind whose children die at once is started ever more slowly. */
static void
judge_death(struct master *m, const struct child *c, bool clean)
{
    struct throttle *t = &m->throttles[c->kind];
    bool quick = !c->ready || clock_mono_ms() - c->started_ms < CRASH_WINDOW_MS;

    if (c->ending || c->generation != m->generation)
        return;
    if (!quick || clean) {
        t->delay_ms = 0;
        return;
    }
    /* Those who die while nothing is started share one cause and count once. */
    if (!deadline_passed(t->not_before))
        return;
    t->delay_ms = t->delay_ms == 0 ? THROTTLE_FIRST_MS : t->delay_ms * 2;
    if (t->delay_ms > THROTTLE_MAX_MS)
        t->delay_ms = THROTTLE_MAX_MS;
    t->not_before = deadline_in(t->delay_ms);
    log_warning("%s: the next start waits %lld ms", child_kind_name(c->kind),
                (long long)t->delay_ms);
}

static void
bury(struct master *m, struct child *c, int status)
{
    bool clean = c->ready && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const char *name = child_kind_name(c->kind);

    if (clean || (c->ending && !WIFSIGNALED(status)))
        log_debug("%s %d ended", name, (int)c->pid);
    else if (WIFSIGNALED(status))
        log_warning("%s %d, slot %d died of signal %d (%s)", name, (int)c->pid, child_index(m, c),
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        log_warning("%s %d, slot %d ended with status %d%s", name, (int)c->pid, child_index(m, c),
                    WEXITSTATUS(status), c->ready ? "" : " before it was ready");
    judge_death(m, c, clean);
    cleanup_close(&c->ready_fd);
    show_end(m, c);
    c->pid = 0;
}

void
children_reap(struct master *m)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return;
        for (int i = 0; i < m->n_children; i++)
            if (m->children[i].pid == pid)
                bury(m, &m->children[i], status);
    }
}

/* A claimed worker has published nothing, since it was idle; but one that does not move is stopped,
 * and what it keeps is out of everybody's reach. */
static bool
claimed_too_long(struct score_slot *slot, int64_t now)
{
    int64_t since = atomic_load(&slot->since_ms);

    return atomic_load(&slot->state) == SLOT_CLAIMED && now >= since + CLAIMED_MAX_MS;
}

/* The deadline it published is too long past: it hangs, and its session with it. */
static void
watch_overdue(struct master *m, struct child *c)
{
    struct score_slot *slot = child_slot(m, c);
    int64_t at = slot ? atomic_load(&slot->deadline_ms) : 0, now = clock_mono_ms();
    char why[160];

    if (slot && at == 0 && claimed_too_long(slot, now)) {
        child_kill(c, "it was handed a connection and does not move");
        return;
    }
    if (at == 0 || now < at + OVERDUE_GRACE_MS)
        return;
    (void)snprintf(
        why, sizeof why, "slot %d is %lld ms past its deadline, in its state for %lld ms",
        child_index(m, c), (long long)(now - at), (long long)(now - atomic_load(&slot->since_ms)));
    child_kill(c, why);
}

struct deadline
children_watch(struct master *m)
{
    struct deadline next = deadline_in(SCOREBOARD_LOOK_MS);

    for (int i = 0; i < m->n_children; i++) {
        struct child *c = &m->children[i];

        if (c->pid == 0 || c->killed)
            continue;
        watch_overdue(m, c);
        if (!c->ready && deadline_passed(c->ready_by))
            child_kill(c, "it has not become ready in time");
        if (c->ending && deadline_passed(c->kill_at))
            child_kill(c, "it has not ended in time");
        if (c->killed)
            continue;
        if (!c->ready)
            next = deadline_min(next, c->ready_by);
        if (c->ending)
            next = deadline_min(next, c->kill_at);
    }
    return next;
}

bool
children_any(const struct master *m)
{
    for (int i = 0; i < m->n_children; i++)
        if (m->children[i].pid != 0)
            return true;
    return false;
}
