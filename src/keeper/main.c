/* SPDX-License-Identifier: MIT */
/*
 * husk-keeper: the one privileged program.  It makes a sandbox for each kernel and hands their
 * files to the workers.
 *
 *   gateway -> husk-launch --START--> keeper --fork--> monitor --clone--> init -> the interpreter
 *   worker --BIND, ROOT, ...--> keeper --fork--> the answer
 *
 * It parses no JSON, takes no caller's path, and runs no program after its start.  The loop
 * (server.c) only accepts, looks at who connects, and forks; a monitor (monitor.c) owns one sandbox
 * and outlives the keeper; a new keeper finds the monitors by their sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/sig.h"
#include "conf/program.h"
#include "keeper/cgroup.h"
#include "keeper/egress.h"
#include "keeper/home.h"
#include "keeper/options.h"
#include "keeper/sandboxes.h"
#include "keeper/server.h"
#include "keeper/tier.h"
#include "keeper/volume.h"

#define PROGRAM_NAME "husk-keeper"

static const char usage[] =
    "usage: husk-keeper [OPTION]...\n"
    "\n"
    "Makes a sandbox for every kernel and hands their files to the workers.\n"
    "\n"
    "  --config FILE   settings (default: the file named by HUSK_CONFIG, else\n"
    "                  " PROGRAM_CONFIG ")\n"
    "  --library DIR   where husk_kernel.py is (default: where it was installed)\n"
    "  --probe         say which tier this machine has, and exit: 0 enough, 1 not\n"
    "  --help          this text\n"
    "  --version       the version\n"
    "\n"
    "SIGTERM ends the keeper and no kernel; a keeper that is started later finds them again.\n";

/* Nothing secret of the settings may live on in the monitors, which are forked from here. */
static void
wipe_environment(void)
{
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "SANDBOX_", 8) == 0)
            explicit_bzero(*e, strlen(*e));
}

static int
load(const char *config, const char *library, struct keeper *k, struct tier_probe *probe,
     struct err *err)
{
    struct settings s;

    if (program_load(PROGRAM_NAME, config, &s, err) < 0)
        return -1;
    int rc = keeper_options_of(&s, library, &k->o, err);
    if (rc == 0)
        rc = tier_probe(s.isolation, s.isolation_min, probe, err);
    k->max_sandboxes = (int)(s.max_sessions + s.pool_size) + SPARE_MONITORS;
    settings_done(&s);
    wipe_environment();
    return rc;
}

/* Everything below our folder is done by name: nobody else may put another in its place. */
static int
check_state(const char *dir, struct err *err)
{
    char above[KEEPER_PATH_MAX];
    struct stat st, up;

    (void)snprintf(above, sizeof(above), "%s", dir);
    *strrchr(above, '/') = '\0';
    if (lstat(dir, &st) < 0 || lstat(above[0] != '\0' ? above : "/", &up) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot look at %s", dir);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return err_set(err, ERR_DENIED, "%s must be a folder of our own", dir);
    if ((up.st_uid != 0 && up.st_uid != geteuid()) ||
        ((up.st_mode & (S_IWGRP | S_IWOTH)) && !(up.st_mode & S_ISVTX)))
        return err_set(err, ERR_DENIED,
                       "%s can be exchanged: the folder %s must belong to root and, where others "
                       "may write, be sticky",
                       dir, above);
    return 0;
}

static int
make_places(struct keeper *k, enum tier tier, struct err *err)
{
    /* Passed through on the way to a kernel's own folder, also by those that live already. */
    const mode_t mode = tier == TIER_CONTAINER ? 0711 : 0700;
    char lock[KEEPER_PATH_MAX + 16];

    /* What others pass through on their way to the sockets must let them. */
    (void)umask(022);
    if (sandboxes_prepare(&k->o, err) < 0)
        return -1;
    (void)snprintf(lock, sizeof(lock), "%s/keeper.lock", k->o.run_dir);
    k->lock_fd = lock_open(lock, err);
    if (k->lock_fd < 0)
        return -1;
    int r = lock_try_exclusive(k->lock_fd, 0);
    if (r < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot lock %s", lock);
    if (r == 0)
        return err_set(err, ERR_CONFLICT, "a keeper runs already on %s", k->o.run_dir);
    /* Not before: it is whoever runs already that says how far it is open. */
    if (fd_mkdirs(k->o.state_dir, mode, err) < 0)
        return -1;
    if (check_state(k->o.state_dir, err) < 0)
        return -1;
    if (chmod(k->o.state_dir, mode) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "%s must be ours", k->o.state_dir);
    return 0;
}

/* Mounts of workspaces are seen by nobody but us and those we fork; what the host unmounts goes
 * here too. */
static int
enter_mount_namespace(struct err *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make a mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot keep mounts to ourselves");
    return 0;
}

/* What is weaker here than the tier could be, for everybody who asks. */
static void __attribute__((format(printf, 2, 3))) add_detail(struct keeper *k, const char *fmt, ...)
{
    size_t n = strlen(k->detail);
    va_list ap;

    if (n > 0 && n + 2 < sizeof(k->detail)) {
        memcpy(k->detail + n, "; ", 3);
        n += 2;
    }
    va_start(ap, fmt);
    (void)vsnprintf(k->detail + n, sizeof(k->detail) - n, fmt, ap);
    va_end(ap);
}

/* All that the tier rests on; *ret_without says why there are no control groups, where there are
 * none. */
static int
prepare(struct keeper_options *o, struct err *ret_without, struct err *err)
{
    if (o->tier == TIER_ROOTLESS && tier_enter_rootless(err) < 0)
        return -1;
    if (o->tier != TIER_CONTAINER && enter_mount_namespace(err) < 0)
        return -1;
    if (home_prepare(o, err) < 0 || egress_prepare(o, err) < 0 || volume_prepare(o, err) < 0)
        return -1;
    (void)cgroup_prepare(o, ret_without);
    return 0;
}

/* Never less than what was asked for: where something is missing nothing starts, and the sentence
 * that says so is told to everybody who asks. */
static void
get_ready(struct keeper *k, const struct tier_probe *probe)
{
    struct err err = ERR_INIT, without = ERR_INIT;

    k->o.tier = probe->tier;
    (void)snprintf(k->detail, sizeof(k->detail), "%.190s", probe->detail);
    k->ready = probe->enough;
    if (k->ready && prepare(&k->o, &without, &err) < 0) {
        k->ready = false;
        (void)snprintf(k->detail, sizeof(k->detail), "%.190s", err.msg);
    }
    if (k->ready && !k->o.cgroups)
        add_detail(k, "memory and processes are bounded by RLIMITs only: %s", without.msg);
    if (k->ready && k->o.tier == TIER_HOST && !k->o.images)
        add_detail(k, "workspaces are not bounded: %s", k->o.disk_detail);
    if (k->ready)
        log_info("isolation: %s, egress %s, workspaces %s%s%s", tier_name(k->o.tier),
                 egress_name(k->o.egress), k->o.images ? "bounded" : "not bounded",
                 k->detail[0] ? "; " : "", k->detail);
    else
        log_error("no kernel will be started: %s", k->detail);
}

static int
run(struct keeper *k, const struct tier_probe *probe, struct err *err)
{
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, 0};

    if (make_places(k, probe->tier, err) < 0)
        return -1;
    get_ready(k, probe);
    k->signals_fd = sig_pipe(signals);
    if (k->signals_fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot handle signals");
    if (server_listen(k, err) < 0)
        return -1;
    notify_state("READY=1");
    int rc = server_run(k, err);
    cgroup_release(&k->o); /* unless sandboxes live on in it */
    return rc;
}

static int
say_probe(const struct tier_probe *p)
{
    printf("tier: %s\n", tier_name(p->tier));
    if (p->detail[0])
        printf("%s: %s\n", p->enough ? "for more" : "missing", p->detail);
    return p->enough ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    const char *config = NULL, *library = HUSK_LIBRARY, *only_probe = NULL;
    const struct program_option options[] = {
        {"library", true, &library}, {"probe", false, &only_probe}, {NULL, false, NULL}};
    const struct program program = {PROGRAM_NAME, usage, options};
    struct keeper k = {.launch_fd = -1, .files_fd = -1, .lock_fd = -1, .signals_fd = -1};
    struct tier_probe probe;
    struct err err = ERR_INIT;
    int rc = program_options(&program, argc, argv, &config);

    if (rc >= 0)
        return rc;
    sig_ignore_pipe();
    fd_raise_limit();
    (void)signal(SIGHUP, SIG_IGN); /* the end of a terminal is not the end of the sandboxes */
    if (load(config, library, &k, &probe, &err) < 0) {
        log_error("%s", err.msg);
        return EXIT_FAILURE;
    }
    if (probe.tier == TIER_NONE && probe.enough) {
        log_error("SANDBOX_ISOLATION=none needs no keeper, and there is nothing that it could do");
        return EXIT_USAGE;
    }
    if (only_probe)
        return say_probe(&probe);
    if (run(&k, &probe, &err) < 0) {
        log_error("%s", err.msg);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
