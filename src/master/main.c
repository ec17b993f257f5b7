/* SPDX-License-Identifier: MIT */

/*
 * husk-master: opens the listening sockets and keeps the workers and the reaper running.
 *
 * It parses settings and nothing else: no request, no SQL, no JSON reaches it, so that it can stay
 * up whatever a client sends.  Each child is forked and executed, with the listening socket of its
 * lane as fd 0, a pipe to say "ready" on and a slot of the scoreboard; it runs as SANDBOX_USER if
 * the master is root, and gets SIGTERM should the master die.
 *
 * One loop: poll the signals' pipe and the readiness pipes until the next timer; reap who died;
 * read the signals; kill who is overdue (children.c); then make what runs equal to what should run
 * (supervise.c).  There is no other state than the children, each with its generation:
 *
 *   SIGHUP   new settings are loaded, or refused with the reason in the log.  If they are good the
 *            generation goes up: a whole new set of workers is started, and a lane's old ones get
 *            SIGTERM when its new ones are ready.  They share the socket, so no connection is lost.
 *   SIGTERM  (SIGINT) the sockets go away, everybody gets SIGTERM, finishes its request and ends;
 *            who has not by SANDBOX_DRAIN_TIMEOUT is killed.  A second one kills at once.
 *   SIGCHLD  a child died: the next one is started, at once if it had lived, else after a delay
 * that doubles from 100 ms to 10 s.
 *
 * A second master of the same runtime directory is refused by a lock on the pid file, which dies
 * with its holder: after a SIGKILL the next master takes the socket paths over at once while the
 * old workers finish.
 */

#include "master/master.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sig.h"
#include "conf/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* SANDBOX_USER and SANDBOX_GROUP, if we may become somebody at all. */
static int
find_user(struct master *m, struct err *err)
{
    const struct settings *s = &m->settings;
    int r;

    if (geteuid() != 0 || !s->user[0])
        return 0;
    if (priv_lookup(s->user, &m->ids, err) < 0)
        return err_wrap(err, "SANDBOX_USER");
    m->drop = true;
    m->socket_gid = m->ids.gid;
    if (!s->group[0])
        return 0;
    r = priv_lookup_group(s->group, &m->socket_gid, err);
    if (r < 0)
        return err_wrap(err, "SANDBOX_GROUP");
    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, "SANDBOX_GROUP: there is no group \"%s\"", s->group);
    return 0;
}

/* The runtime directory is on a tmpfs as a rule: made if it is not there, else left as it is. */
static int
make_runtime_dir(const struct master *m, struct err *err)
{
    const char *dir = m->settings.runtime_dir;
    struct stat st;

    if (stat(dir, &st) == 0)
        return 0;
    if (fd_mkdirs(dir, 0750, err) < 0)
        return -1;
    if (m->drop && chown(dir, m->ids.uid, m->socket_gid) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot give %s its owner", dir);
    return 0;
}

/* Holds the pid file's lock until this process ends. The file is another master's if it fails. */
static int
take_pid_file(struct master *m, struct err *err)
{
    char path[SETTINGS_PATH_MAX], text[24];
    _cleanup_close_ int fd = lock_open(settings_path(&m->settings, "pid", path), err);
    int r, n;

    if (fd < 0)
        return -1;
    r = lock_try_exclusive(fd, 0);
    if (r < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot lock %s", path);
    if (r == 0)
        return err_set(err, ERR_CONFLICT, "another husk-master runs: %s is locked", path);
    n = snprintf(text, sizeof text, "%d\n", (int)m->pid);
    if (ftruncate(fd, 0) < 0 || fd_write_all(fd, text, (size_t)n) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot write %s", path);
    m->pid_fd = steal_fd(&fd);
    return 0;
}

static int
make_scoreboard(struct master *m, struct err *err)
{
    int slots = supervise_slots(&m->settings);
    char path[SETTINGS_PATH_MAX];

    settings_path(&m->settings, "scoreboard", path);
    if (scoreboard_create(path, slots, &m->board, err) < 0)
        return -1;
    if (m->drop && lchown(path, m->ids.uid, m->ids.gid) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot give %s its owner", path);
    m->n_children = slots + REAPER_ROOM;
    m->children = xcalloc((size_t)m->n_children, sizeof *m->children);
    m->polled = xcalloc((size_t)m->n_children + 1, sizeof *m->polled);
    return 0;
}

static int
set_up(struct master *m, struct err *err)
{
    static const int signals[] = {SIGHUP, SIGTERM, SIGINT, SIGCHLD, 0};

    m->pid = getpid();
    m->generation = 1;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        m->serving[kind] = 1; /* there is no other yet */
    if (programs_find(m, err) < 0 || find_user(m, err) < 0 || make_runtime_dir(m, err) < 0 ||
        take_pid_file(m, err) < 0)
        return -1;
    sig_ignore_pipe();
    m->signal_fd = sig_pipe(signals);
    if (m->signal_fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot handle signals");
    if (make_scoreboard(m, err) < 0)
        return -1;
    return listen_open_all(m, err);
}

static void
tear_down(struct master *m)
{
    listen_close_all(m);
    if (m->pid_fd >= 0) {
        (void)!ftruncate(m->pid_fd, 0); /* not unlinked: a successor may have it open */
        (void)close(m->pid_fd);
    }
    if (m->signal_fd >= 0)
        (void)close(m->signal_fd);
    scoreboard_free(m->board);
    free(m->children);
    free(m->polled);
    settings_done(&m->settings);
}

static void
hear_signals(struct master *m)
{
    for (;;) {
        switch (sig_next(m->signal_fd)) {
        case 0:
            return;
        case SIGHUP:
            supervise_reload(m);
            break;
        case SIGTERM:
        case SIGINT:
            supervise_stop(m);
            break;
        default: /* SIGCHLD: the loop reaps anyway */
            break;
        }
    }
}

/* Waits for a signal, a readiness byte or the time. */
static void
wait_for_news(struct master *m, struct deadline next)
{
    nfds_t n = 0;

    m->polled[n++] = (struct pollfd){.fd = m->signal_fd, .events = POLLIN};
    for (int i = 0; i < m->n_children; i++)
        if (m->children[i].pid != 0 && m->children[i].ready_fd >= 0)
            m->polled[n++] = (struct pollfd){.fd = m->children[i].ready_fd, .events = POLLIN};
    if (poll(m->polled, n, deadline_poll_ms(next, 60000)) <= 0)
        return;
    n = 1;
    for (int i = 0; i < m->n_children; i++)
        if (m->children[i].pid != 0 && m->children[i].ready_fd >= 0 && m->polled[n++].revents)
            child_hear(m, &m->children[i]);
}

static void
run(struct master *m)
{
    for (;;) {
        struct deadline next;

        children_reap(m);
        hear_signals(m);
        next = supervise(m);
        next = deadline_min(next, children_watch(m));
        if (m->stopping && !children_any(m))
            return;
        wait_for_news(m, next);
    }
}

static const char usage[] =
    "Usage: husk-master [--config FILE] [--check]\n"
    "Opens Husk's sockets and keeps its workers and its reaper running, in the foreground.\n"
    "\n"
    "      --config FILE  settings (default: the file named by HUSK_CONFIG, else\n"
    "                     " PROGRAM_CONFIG "); the environment overrides them\n"
    "      --check        read the settings and end: 0 good, 2 not\n"
    "      --help         this text\n"
    "      --version      the version\n"
    "\n"
    "SIGHUP loads the settings anew and replaces the workers; SIGTERM drains and ends.\n";

int
main(int argc, char **argv)
{
    const char *check = NULL;
    const struct program_option options[] = {{"check", false, &check}, {NULL, false, NULL}};
    const struct program program = {"husk-master", usage, options};
    struct master m = {.pid_fd = -1, .signal_fd = -1, .listeners = {-1, -1, -1, -1}};
    struct err err = ERR_INIT;
    int rc = program_options(&program, argc, argv, &m.config);

    if (rc >= 0)
        return rc;
    if (program_load(program.name, m.config, &m.settings, &err) < 0) {
        log_error("%s", err.msg);
        return EXIT_USAGE;
    }
    if (check) {
        settings_done(&m.settings);
        return puts("the settings are good") < 0;
    }
    if (set_up(&m, &err) < 0) {
        log_error("cannot start: %s", err.msg);
        rc = EXIT_FAILURE;
    } else {
        run(&m);
        log_info("stopped");
        rc = EXIT_SUCCESS;
    }
    tear_down(&m);
    return rc;
}
