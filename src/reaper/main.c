/* SPDX-License-Identifier: MIT */
/* husk-reaper: sweeps once or at an interval. Two at a time do no harm: a lock lets one work. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sig.h"
#include "conf/settings.h"
#include "manager/manager.h"
#include "manager/manager_settings.h"

#define DEFAULT_CONFIG "/etc/husk/husk.conf"
#define SWEEP_MS (60 * 1000) /* a pass that takes longer goes on with the next */

enum { EXIT_USAGE = 2 };

static const char help[] =
    "usage: husk-reaper [--config FILE] [--once | --interval SECONDS]\n"
    "Ends idle sessions and removes what nobody needs any more.\n"
    "  --config FILE       settings (default: the file named by HUSK_CONFIG, else\n"
    "                      " DEFAULT_CONFIG ")\n"
    "  --once              one pass, for cron or a systemd timer; fails when it failed\n"
    "  --interval SECONDS  between passes (default: SANDBOX_REAP_INTERVAL)\n"
    "  --help, --version";

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
        {"quarantine_tried", r->quarantine_tried},
        {"quarantine_ended", r->quarantine_ended},
        {"opening_undone", r->opening_undone},
        {"workspaces_removed", r->workspaces_removed},
        {"spools_removed", r->spools_removed},
        {"history_removed", r->history_removed},
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

/* Until SIGTERM or SIGINT; one that comes during a pass ends it after that pass. */
static void
sweep_for_ever(struct manager *m, int64_t interval_ms, int signals)
{
    for (;;) {
        (void)sweep(m);
        struct deadline next = deadline_in(interval_ms);
        while (!deadline_passed(next)) {
            struct pollfd fd = {.fd = signals, .events = POLLIN};
            if (poll(&fd, 1, deadline_poll_ms(next, 60000)) < 0 && errno != EINTR)
                return;
            if (sig_next(signals))
                return;
        }
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
    int signals = sig_pipe(ending), rc = EXIT_FAILURE;
    sig_ignore_pipe();
    log_init("husk-reaper", LOG_LEVEL_INFO, false);
    if (signals < 0 || settings_load(config, &s, &err) < 0) {
        log_error("%s", signals < 0 ? strerror(errno) : err.msg);
        return EXIT_FAILURE;
    }
    log_init("husk-reaper", s.log_level, s.log_json);
    manager_options_of(&s, &paths, &o);
    if (manager_new(&o, &m, &err) < 0) {
        log_error("%s", err.msg);
    } else if (once) {
        rc = sweep(m) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    } else {
        sweep_for_ever(m, interval_ms > 0 ? interval_ms : s.reap_interval_ms, signals);
        rc = EXIT_SUCCESS;
    }
    manager_free(m);
    settings_done(&s);
    return rc;
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},   {"once", no_argument, NULL, 'o'},
        {"interval", required_argument, NULL, 'i'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},        {NULL, 0, NULL, 0},
    };
    const char *config = getenv("HUSK_CONFIG");
    bool once = false;
    int64_t interval_ms = 0;
    for (int opt; (opt = getopt_long(argc, argv, "c:h", options, NULL)) != -1;) {
        if (opt == 'h')
            return puts(help) < 0;
        if (opt == 'V')
            return puts("husk-reaper " PACKAGE_VERSION) < 0;
        if (opt == 'c')
            config = optarg;
        else if (opt == 'o')
            once = true;
        else if (opt != 'i')
            return EXIT_USAGE;
        else if (num_duration_ms(optarg, strlen(optarg), &interval_ms) != 1 || interval_ms < 100)
            return fprintf(stderr, "husk-reaper: --interval is at least 100ms\n"), EXIT_USAGE;
    }
    if (optind < argc)
        return fprintf(stderr, "husk-reaper: unexpected \"%s\"\n", argv[optind]), EXIT_USAGE;
    return run(config && *config ? config : DEFAULT_CONFIG, once, interval_ms);
}
