/* SPDX-License-Identifier: MIT */

/*
 * husk-worker: serves one FastCGI request at a time.
 *
 * The master makes the listening socket of a lane and starts the lane's workers with it as fd 0
 * (fork and exec, so that nothing of the master or of another worker is shared: no database
 * connection, no lock, no channel).  A worker reads the same settings as everybody else, opens the
 * database, says that it is ready, and then sleeps on the socket together with its signals and the
 * channels to kernels that it keeps.  A request goes fcgi -> api -> manager and back; nothing of it
 * outlives it but those channels.  What must survive a worker is in the database and in the
 * execution's spool: a worker may be killed at any point.
 *
 * SIGTERM and SIGINT: the request in hand is finished, then the worker ends with 0; an idle one
 * ends at once.  If the master dies the same happens: it has asked the kernel to send SIGTERM then.
 * The master in turn watches the deadline that a worker has published on the scoreboard, and kills
 * the worker five seconds later.
 *
 * Started by hand (socket on stdin, none of the HUSK_* variables) it works without a scoreboard.
 */

#include "worker/serve.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sig.h"
#include "conf/program.h"
#include "conf/settings.h"
#include "manager/manager_settings.h"
#include "super/affinity.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PROGRAM_NAME "husk-worker"
#define HEAP_STEP                                                                                  \
    (128 * 1024) /* bytes: larger blocks are mapped, so much free heap is given back */

/* What the master says in the environment (super/scoreboard.h). */
struct contract {
    int slot, ready_fd; /* -1: none */
    enum lane lane;
};

struct worker {
    struct settings settings;
    struct contract contract;
    struct scoreboard *board;
    struct score_slot *slot;
    struct hand hand; /* lane exec only */
    struct warm warm; /* the same, and only with a pool */
    struct manager *manager;
    struct fcgi *fcgi;
    struct api *api;
    int signal_fd;
    struct manager_paths paths;
};

static int
env_int(const char *name, int *ret, struct err *err)
{
    const char *s = getenv(name);
    int64_t v;

    *ret = -1;
    if (!s)
        return 0;
    if (!num_i64(s, strlen(s), 0, INT32_MAX, &v))
        return err_set(err, ERR_INVALID, "environment: %s is not a number", name);
    *ret = (int)v;
    return 0;
}

static int
read_contract(struct contract *c, struct err *err)
{
    const char *lane = getenv("HUSK_LANE");

    if (env_int("HUSK_SLOT", &c->slot, err) < 0 || env_int("HUSK_READY_FD", &c->ready_fd, err) < 0)
        return -1;
    c->lane = LANE_API;
    if (lane && !lane_parse(lane, &c->lane))
        return err_set(err, ERR_INVALID, "environment: HUSK_LANE names no lane");
    if (c->ready_fd >= 0)
        (void)fd_set_cloexec(c->ready_fd, true);
    return 0;
}

static int
free_exec_workers(void *ctx)
{
    const struct worker *w = ctx;

    return scoreboard_count(w->board, LANE_EXEC, SLOT_IDLE);
}

static void
publish_deadline(void *ctx, struct deadline d)
{
    const struct worker *w = ctx;

    serve_publish(w->slot, d);
}

/* Whoever keeps the channel to a kernel of the pool keeps it for that session from now on. */
static void
pooled_given(void *ctx, const char *handle, const char *session_name)
{
    const struct worker *w = ctx;

    if (w->board)
        affinity_rename(w->board, affinity_tag(handle, strlen(handle)),
                        affinity_tag(session_name, strlen(session_name)));
}

static int
attach_scoreboard(struct worker *w, struct err *err)
{
    char path[SETTINGS_PATH_MAX];

    if (w->contract.slot < 0)
        return 0;
    if (scoreboard_attach(settings_path(&w->settings, "scoreboard", path), true, &w->board, err) <
        0)
        return -1;
    w->slot = scoreboard_slot(w->board, w->contract.slot);
    if (!w->slot)
        return err_set(err, ERR_INVALID, "environment: HUSK_SLOT %d is not on the scoreboard",
                       w->contract.slot);
    /* Executions alone keep channels, so only they are worth handing to who keeps one. */
    if (w->contract.lane != LANE_EXEC)
        return 0;
    return hand_open(&w->hand, w->board, w->contract.slot, LANE_EXEC, w->settings.runtime_dir, err);
}

static int
make_manager(struct worker *w, struct err *err)
{
    struct manager_options o;

    manager_options_of(&w->settings, &w->paths, &o);
    o.sandbox.keep_channels = w->contract.lane == LANE_EXEC ? SCORE_KEPT : 0;
    o.free_exec_workers = w->board ? free_exec_workers : NULL;
    o.publish_deadline = publish_deadline;
    o.pooled_given = pooled_given;
    o.ctx = w;
    return manager_new(&o, &w->manager, err);
}

static int
make_api(struct worker *w, struct err *err)
{
    const struct settings *s = &w->settings;
    struct api_options o = {
        .manager = w->manager,
        .max_code_bytes = s->max_code_bytes,
        .max_file_bytes = s->max_file_bytes,
        .max_input_bytes = s->max_input_bytes,
        .max_output_bytes = s->max_output_bytes,
        .exec_timeout_ms = s->exec_timeout_ms,
        .max_exec_timeout_ms = s->max_exec_timeout_ms,
        .turn_wait_ms = s->turn_wait_ms,
        .start_timeout_ms = s->start_timeout_ms,
        .http_timeout_ms = s->http_timeout_ms,
        .spool_dir = w->paths.spool,
        .proxy_user_header = s->proxy_user_header,
        .cors_origins = s->cors_origins,
        .kernel_name = s->kernel_name,
        .version = PACKAGE_VERSION,
        .scoreboard = w->board,
        .slot = w->slot,
        .lane = w->contract.lane,
        .publish_deadline = publish_deadline,
        .ctx = w,
    };

    if (!api_auth_parse(s->auth, &o.auth))
        return err_set(err, ERR_INVALID, "SANDBOX_AUTH: \"%s\" is not keys, proxy or none",
                       s->auth);
    return api_new(&o, &w->api, err);
}

/*
 * In this order: our signal handlers before libfcgi's, which takes what nobody handles, and SIGPIPE
 * last, since libfcgi and libwebsockets each set it their way.
 */
static int
set_up(struct worker *w, const char *config, struct err *err)
{
    static const int ending[] = {SIGTERM, SIGINT, 0};

    if (program_load(PROGRAM_NAME, config, &w->settings, err) < 0 ||
        read_contract(&w->contract, err) < 0)
        return -1;
    w->signal_fd = sig_pipe(ending);
    if (w->signal_fd < 0)
        return err_set(err, ERR_INTERNAL, "cannot handle signals");
    (void)signal(SIGHUP, SIG_IGN); /* the master's: it replaces its workers by itself */
    if (attach_scoreboard(w, err) < 0 || fcgi_new(STDIN_FILENO, &w->fcgi, err) < 0 ||
        make_manager(w, err) < 0 || make_api(w, err) < 0)
        return -1;
    sig_ignore_pipe();
    return 0;
}

static void
tear_down(struct worker *w)
{
    api_free(w->api);
    manager_free(w->manager);
    fcgi_free(w->fcgi);
    if (w->hand.board)
        hand_close(&w->hand);
    scoreboard_free(w->board);
    if (w->signal_fd >= 0)
        (void)close(w->signal_fd);
    settings_done(&w->settings);
}

/* One byte tells the master that requests can come. */
static void
say_ready(struct contract *c)
{
    if (c->ready_fd < 0)
        return;
    if (write(c->ready_fd, "r", 1) != 1)
        log_warning("cannot tell the master that this worker is ready");
    (void)close(c->ready_fd);
    c->ready_fd = -1;
}

static int
run(struct worker *w, const char *config)
{
    struct err err = ERR_INIT;

    if (set_up(w, config, &err) < 0) {
        log_error("cannot start: %s", err.msg);
        return err.code == ERR_INVALID ? EXIT_USAGE : EXIT_FAILURE;
    }
    say_ready(&w->contract);
    w->warm = (struct warm){.manager = w->manager, .board = w->board, .slot = w->slot};
    struct serve s = {
        .fcgi = w->fcgi,
        .api = w->api,
        .manager = w->manager,
        .slot = w->slot,
        .hand = w->hand.board ? &w->hand : NULL,
        .warm = w->hand.board && w->settings.pool_size > 0 ? &w->warm : NULL,
        .listen_fd = STDIN_FILENO,
        .signal_fd = w->signal_fd,
        .max_requests = w->settings.worker_requests,
    };
    if (serve_loop(&s, &err) < 0) {
        log_error("%s", err.msg);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static const char usage[] =
    "Usage: husk-worker [--config FILE] <LISTENING-SOCKET\n"
    "Serves Husk's API by FastCGI on the listening socket that is its standard input.\n"
    "Started by husk-master; see husk-master(8).\n"
    "\n"
    "      --config FILE  settings (default: the file named by HUSK_CONFIG, else\n"
    "                     " PROGRAM_CONFIG "); the environment overrides them\n"
    "      --help         this text\n"
    "      --version      the version\n";

int
main(int argc, char **argv)
{
    const struct program program = {PROGRAM_NAME, usage, NULL};
    struct worker w = {.signal_fd = -1};
    const char *config = NULL;
    int rc = program_options(&program, argc, argv, &config);

    if (rc >= 0)
        return rc;
    /* Fixed thresholds: with the sliding ones a single large buffer raises them, and the heap of an
     * idle worker stays large from then on. */
    (void)mallopt(M_MMAP_THRESHOLD, HEAP_STEP);
    (void)mallopt(M_TRIM_THRESHOLD, HEAP_STEP);
    rc = run(&w, config);
    tear_down(&w);
    return rc;
}
