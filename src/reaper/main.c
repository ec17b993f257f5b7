/* SPDX-License-Identifier: MIT */
/* husk-reaper: sweeps once or at an interval. Two at a time do no harm: a lock lets one work. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/priv.h"
#include "base/sig.h"
#include "conf/program.h"
#include "conf/settings.h"
#include "manager/manager.h"
#include "manager/manager_settings.h"

#define SWEEP_MS (60 * 1000) /* a pass that takes longer goes on with the next */

#define PROGRAM_NAME "husk-reaper"
#define INTERVAL_MIN_MS 100

static const char usage[] =
    "Usage: husk-reaper [--config FILE] [--once | --interval SECONDS]\n"
    "Ends idle sessions, removes what nobody needs any more and fills the pool of kernels.\n"
    "\n"
    "      --config FILE       settings (default: the file named by HUSK_CONFIG, else\n"
    "                          " PROGRAM_CONFIG "); the environment overrides them\n"
    "      --once              one pass, for cron or a systemd timer; fails when it failed\n"
    "      --interval SECONDS  between passes (default: SANDBOX_REAP_INTERVAL)\n"
    "      --help              this text\n"
    "      --version           the version\n";

static void
log_report(const struct sweep_report *r)
{
    const struct {
        const char *what;
        int n;
    } rows[] = {
        {"expired", r->expired},
        {"closed", r->closed},
        {"aborted", r->aborted},
        {"orphans", r->orphans},
        {"lost", r->lost},
        {"starts_undone", r->starts_undone},
        {"quarantine_tried", r->quarantine_tried},
        {"quarantine_ended", r->quarantine_ended},
        {"opening_undone", r->opening_undone},
        {"workspaces_dropped", r->workspaces_dropped},
        {"workspaces_removed", r->workspaces_removed},
        {"spools_removed", r->spools_removed},
        {"history_removed", r->history_removed},
        {"pool_ended", r->pool_ended},
        {"blobs_removed", r->blobs_removed},
        {"traces_followed", r->traces_followed},
    };
    struct buf line = BUF_INIT(1024);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].n)
            (void)buf_printf(&line, " %s=%d", rows[i].what, rows[i].n);
    if (line.len)
        log_info("swept:%s", buf_str(&line));
    buf_done(&line);
}

static int
sweep(struct manager *m)
{
    struct err err = ERR_INIT;
    struct sweep_report r = {0};
    if (manager_sweep(m, deadline_in(SWEEP_MS), &r, &err) < 0) {
        log_error("the sweep failed: %s", err.msg);
        return -1;
    }
    log_report(&r);
    return 0;
}

/* Starts at most one kernel for the pool; when to call again, < 0: with the next pass. */
static int64_t
refill(struct manager *m, bool gently)
{
    struct err err = ERR_INIT;
    int64_t again_ms;
    if (manager_refill(m, deadline_in(SWEEP_MS), gently, &again_ms, &err) < 0)
        log_warning("no kernel for the pool: %s", err.msg);
    return again_ms;
}

static int
sweep_once(struct manager *m)
{
    struct deadline d = deadline_in(SWEEP_MS);
    if (sweep(m) < 0)
        return EXIT_FAILURE;
    while (refill(m, false) == 0 && !deadline_passed(d))
        continue;
    return EXIT_SUCCESS;
}

/* Whether SIGTERM or SIGINT has come: a pass looks between its steps. */
struct ending {
    int signals;
    bool asked;
};

static bool
asked_to_end(void *ctx)
{
    struct ending *e = ctx;

    if (!e->asked)
        e->asked = sig_next(e->signals) != 0;
    return e->asked;
}

static void
sweep_for_ever(struct manager *m, int64_t interval_ms, struct ending *ending)
{
    for (;;) {
        (void)sweep(m);
        struct deadline next = deadline_in(interval_ms), refill_at = deadline_in(0);
        bool filling = true; /* the pool, as far as the time until the next pass goes */
        do {
            struct pollfd fd = {.fd = ending->signals, .events = POLLIN};
            if (asked_to_end(ending))
                return;
            if (filling && deadline_passed(refill_at)) {
                int64_t again_ms = refill(m, true);
                filling = again_ms >= 0;
                refill_at = deadline_in(again_ms);
            }
            if (poll(&fd, 1,
                     deadline_poll_ms(filling ? deadline_min(refill_at, next) : next, 60000)) < 0 &&
                errno != EINTR)
                return;
        } while (!deadline_passed(next));
    }
}

static int
run(const char *config, bool once, int64_t interval_ms)
{
    static const int ending[] = {SIGTERM, SIGINT, 0};
    struct settings s;
    struct manager_paths paths;
    struct manager_options o;
    struct manager *m = NULL;
    struct err err = ERR_INIT;
    struct ending e = {.signals = sig_pipe(ending)};
    int rc = EXIT_FAILURE;
    if (e.signals < 0)
        err_sys(&err, ERR_INTERNAL, errno, "cannot handle signals");
    sig_ignore_pipe();
    if (e.signals < 0 || program_load(PROGRAM_NAME, config, &s, &err) < 0) {
        log_error("%s", err.msg);
        return EXIT_FAILURE;
    }
    manager_options_of(&s, &paths, &o);
    o.stopping = asked_to_end;
    o.ctx = &e;
    /* what a sweep makes has to be the service's, also where cron starts it as root */
    if (priv_become_owner(s.state_dir, &err) < 0 || manager_new(&o, &m, &err) < 0) {
        log_error("%s", err.msg);
    } else if (once) {
        rc = sweep_once(m);
    } else {
        if (interval_ms <= 0)
            interval_ms = s.reap_interval_ms;
        log_info("sweeping every %.1f s", (double)interval_ms / 1000);
        sweep_for_ever(m, interval_ms, &e);
        rc = EXIT_SUCCESS;
    }
    manager_free(m);
    settings_done(&s);
    return rc;
}

int
main(int argc, char **argv)
{
    const char *config = NULL, *once = NULL, *interval = NULL;
    const struct program_option options[] = {
        {"once", false, &once}, {"interval", true, &interval}, {NULL, false, NULL}};
    const struct program program = {PROGRAM_NAME, usage, options};
    int64_t interval_ms = 0;
    int rc = program_options(&program, argc, argv, &config);
    if (rc >= 0)
        return rc;
    if (interval && (num_duration_ms(interval, strlen(interval), &interval_ms) != 1 ||
                     interval_ms < INTERVAL_MIN_MS)) {
        fprintf(stderr, PROGRAM_NAME ": --interval is at least %dms\n", INTERVAL_MIN_MS);
        return EXIT_USAGE;
    }
    return run(config, once != NULL, interval_ms);
}
