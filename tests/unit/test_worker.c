/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/post.h"
#include "base/sig.h"
#include "store/db.h"
#include "store/migrate.h"
#include "super/affinity.h"
#include "super/scoreboard.h"
#include "support/fcgi_client.h"
#include "support/tmpdir.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* The real husk-worker on a socket of ours, with a fresh database and a gateway that is not there.
 */

#define EXIT_MS 5000
#define IDLE_MAX_KIB 4096
#define IDLE_END_MS 4000 /* an idle worker ends in milliseconds; the machine may be loaded */

static struct {
    char dir[PATH_MAX], sock[PATH_MAX], db[PATH_MAX], conf[PATH_MAX], board[PATH_MAX];
    char program[PATH_MAX];
    const char *lane;
    int listen_fd, ready_fd;
    pid_t pid;
} w;

static void
migrate(void)
{
    struct err err = ERR_INIT;
    struct db *db = NULL;

    if (db_open(w.db, DB_CREATE, &db, &err) < 0 || migrate_apply(db, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    db_close(db);
}

/* The settings file, with `extra` lines at its end. */
static void
configure(const char *extra)
{
    FILE *f = fopen(w.conf, "we");

    assert_non_null(f);
    (void)fprintf(f,
                  "SANDBOX_STATE_DIR=%s/state\nSANDBOX_RUNTIME_DIR=%s/run\n"
                  "SANDBOX_ISOLATION=none\nSANDBOX_ISOLATION_MIN=none\nSANDBOX_EGRESS=open\n"
                  "SANDBOX_GATEWAY_URL=http://127.0.0.1:1\nSANDBOX_GATEWAY_AUTH_TOKEN=t\n%s",
                  w.dir, w.dir, extra);
    assert_int_equal(fclose(f), 0);
}

static int
set_up(void **state)
{
    static const char *const folders[] = {"state", "run", "state/workspaces", "state/spool"};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[PATH_MAX];

    (void)state;
    tmpdir_make(w.dir);
    (void)tmpdir_path(w.sock, w.dir, "s");
    (void)tmpdir_path(w.db, w.dir, "state/husk.db");
    (void)tmpdir_path(w.conf, w.dir, "conf");
    (void)tmpdir_path(w.board, w.dir, "run/scoreboard");
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        assert_int_equal(mkdir(tmpdir_path(path, w.dir, folders[i]), 0770), 0);
    w.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(strlen(w.sock) < sizeof(a.sun_path));
    memcpy(a.sun_path, w.sock, strlen(w.sock) + 1);
    assert_int_equal(bind(w.listen_fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(w.listen_fd, 16), 0);
    w.pid = -1;
    w.ready_fd = -1;
    w.lane = "ctl";
    migrate();
    configure("");
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    if (w.pid > 0) {
        (void)kill(w.pid, SIGKILL);
        (void)waitpid(w.pid, NULL, 0);
    }
    if (w.ready_fd >= 0)
        (void)close(w.ready_fd);
    (void)close(w.listen_fd);
    tmpdir_remove(w.dir);
    return 0;
}

/* Starts the program with arguments; the socket is its stdin, the ready pipe its fd 3. */
static void
start(const char *slot, const char *const *args)
{
    const char *argv[6] = {w.program};
    int ready[2];

    for (int i = 0; args[i]; i++)
        argv[i + 1] = args[i];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    (void)fflush(NULL);
    w.pid = fork();
    assert_true(w.pid >= 0);
    if (w.pid == 0) {
        sig_reset_all();
        if (dup2(w.listen_fd, 0) < 0 || dup2(ready[1], 3) < 0 || fd_set_cloexec(3, false) < 0)
            _exit(99);
        (void)setenv("HUSK_READY_FD", "3", 1);
        (void)setenv("HUSK_LANE", w.lane, 1);
        if (slot)
            (void)setenv("HUSK_SLOT", slot, 1);
        (void)execv(w.program, (char *const *)argv);
        _exit(98);
    }
    (void)close(ready[1]);
    w.ready_fd = ready[0];
}

/* 1 the worker is ready, 0 it ended before it was. */
static int
wait_ready(void)
{
    char byte;

    assert_int_equal(fd_wait(w.ready_fd, POLLIN, deadline_in(20000)), 1);
    return (int)read(w.ready_fd, &byte, 1);
}

static void
start_worker(const char *slot)
{
    const char *const args[] = {"--config", w.conf, NULL};

    start(slot, args);
    assert_int_equal(wait_ready(), 1);
}

/* The exit code; -1 when it does not end in time or is killed. */
static int
wait_exit(void)
{
    struct deadline d = deadline_in(EXIT_MS);
    int status;

    while (waitpid(w.pid, &status, WNOHANG) == 0) {
        if (deadline_passed(d))
            return -1;
        (void)poll(NULL, 0, 10);
    }
    w.pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
get(const char *uri, char *out, size_t size)
{
    char param[200];
    const char *const params[] = {"REQUEST_METHOD=GET", param, NULL};

    (void)snprintf(param, sizeof(param), "REQUEST_URI=%s", uri);
    return fcgi_client_call(w.sock, params, "", out, size);
}

static void
t_answers(void **state)
{
    char out[4000];

    (void)state;
    start_worker(NULL);
    assert_int_equal(get("/healthz", out, sizeof(out)), 200);
    assert_int_equal(get("/readyz", out, sizeof(out)), 503);
    assert_non_null(strstr(out, "gateway"));
    assert_int_equal(get("/v1/sessions", out, sizeof(out)), 401);
    assert_int_equal(get("/v1/%zz", out, sizeof(out)), 400);
    assert_non_null(strstr(out, "bad_request_target"));
    assert_int_equal(get("/nowhere", out, sizeof(out)), 404);
    assert_int_equal(kill(w.pid, SIGTERM), 0);
    assert_int_equal(wait_exit(), 0);
}

static void
t_ends_at_once_when_idle(void **state)
{
    (void)state;
    start_worker(NULL);
    int64_t before = clock_mono_ms();
    assert_int_equal(kill(w.pid, SIGTERM), 0);
    assert_int_equal(wait_exit(), 0);
    assert_true(clock_mono_ms() - before < IDLE_END_MS);
}

static void
wait_state(struct score_slot *s, int state)
{
    struct deadline d = deadline_in(10000);

    while (atomic_load(&s->state) != state && !deadline_passed(d))
        (void)poll(NULL, 0, 5);
    assert_int_equal(s->state, state);
}

/* A connection wakes one worker only.  If that one is handed another at the same moment, what woke
 * it goes to an idle worker (here: to us): it must not wait for the other's end. */
static void
t_passes_on_what_woke_it(void **state)
{
    struct scoreboard *b = NULL;
    struct err err = ERR_INIT;
    struct fcgi_client busy, next;
    char ours[PATH_MAX], its[PATH_MAX];
    uint64_t offer;
    int silent[2];

    (void)state;
    assert_int_equal(scoreboard_create(w.board, 2, &b, &err), 0);
    for (int i = 0; i < 2; i++)
        scoreboard_slot(b, i)->lane = LANE_EXEC;
    w.lane = "exec";
    start_worker("1");
    int post = post_open(tmpdir_path(ours, w.dir, "run/post-0"), &err);
    assert_true(post >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, silent), 0);
    wait_state(scoreboard_slot(b, 1), SLOT_IDLE);
    /* While it is busy with a connection that says nothing, both come. */
    assert_int_equal(fcgi_client_connect(&busy, w.sock), 0);
    wait_state(scoreboard_slot(b, 1), SLOT_WORKING);
    assert_int_equal(
        post_send(post, tmpdir_path(its, w.dir, "run/post-1"), silent[1], affinity_offer(b, 0)), 0);
    assert_int_equal(fcgi_client_connect(&next, w.sock), 0);
    score_set(scoreboard_slot(b, 0), SLOT_IDLE, DEADLINE_NEVER);
    fcgi_client_close(&busy);
    assert_int_equal(fd_wait(post, POLLIN, deadline_in(10000)), 1);
    int conn = post_receive(post, &offer);
    assert_true(conn >= 0);
    (void)close(conn);
    (void)close(silent[0]);
    (void)close(silent[1]);
    (void)close(post);
    fcgi_client_close(&next);
    scoreboard_free(b);
}

static void
t_finishes_its_request(void **state)
{
    const char *const params[] = {"REQUEST_METHOD=POST", "REQUEST_URI=/v1/sessions",
                                  "CONTENT_LENGTH=2", "CONTENT_TYPE=application/json", NULL};
    struct scoreboard *b = NULL;
    struct err err = ERR_INIT;
    struct fcgi_client c;

    (void)state;
    configure("SANDBOX_AUTH=none\n");
    assert_int_equal(scoreboard_create(w.board, 1, &b, &err), 0);
    start_worker("0");
    assert_int_equal(fcgi_client_connect(&c, w.sock), 0);
    assert_int_equal(fcgi_client_begin(&c, params), 0);
    assert_int_equal(fcgi_client_body(&c, "{", 1, 0), 0);
    wait_state(scoreboard_slot(b, 0), SLOT_WORKING);
    assert_int_equal(kill(w.pid, SIGTERM), 0);
    (void)poll(NULL, 0, 100);
    assert_int_equal(fcgi_client_body(&c, "}", 1, 0), 0);
    assert_int_equal(fcgi_client_end_body(&c), 0);
    assert_int_equal(fcgi_client_read_all(&c, NULL, NULL), 0);
    assert_true(c.ended);
    assert_int_equal(fcgi_client_status(&c), 503);
    fcgi_client_close(&c);
    assert_int_equal(wait_exit(), 0);
    scoreboard_free(b);
}

static void
t_ends_after_its_requests(void **state)
{
    char out[1000];

    (void)state;
    configure("SANDBOX_WORKER_REQUESTS=2\n");
    start_worker(NULL);
    assert_int_equal(get("/healthz", out, sizeof(out)), 200);
    assert_int_equal(get("/healthz", out, sizeof(out)), 200);
    assert_int_equal(wait_exit(), 0);
}

static void
t_scoreboard(void **state)
{
    struct scoreboard *b = NULL;
    struct err err = ERR_INIT;
    char out[1000];

    (void)state;
    assert_int_equal(scoreboard_create(w.board, 2, &b, &err), 0);
    struct score_slot *s = scoreboard_slot(b, 1);
    s->lane = LANE_CTL; /* as the master does before it starts a worker */
    start_worker("1");
    assert_int_equal(get("/healthz", out, sizeof(out)), 200);
    wait_state(s, SLOT_IDLE);
    assert_int_equal(s->deadline_ms, 0);
    assert_int_equal(s->requests, 1);
    assert_int_equal(kill(w.pid, SIGTERM), 0);
    assert_int_equal(wait_exit(), 0);
    assert_int_equal(s->state, SLOT_DRAINING);
    scoreboard_free(b);
    /* a slot that is not there */
    const char *const args[] = {"--config", w.conf, NULL};
    (void)close(w.ready_fd);
    start("7", args);
    assert_int_equal(wait_ready(), 0);
    assert_int_equal(wait_exit(), 2);
}

static void
t_does_not_start(void **state)
{
    const char *const args[] = {"--config", w.conf, NULL};

    (void)state;
    /* a database that was never made */
    assert_int_equal(unlink(w.db), 0);
    start(NULL, args);
    assert_int_equal(wait_ready(), 0);
    assert_true(wait_exit() > 0);
    (void)close(w.ready_fd);
    configure("SANDBOX_NONSENSE=1\n");
    start(NULL, args);
    assert_int_equal(wait_ready(), 0);
    assert_int_equal(wait_exit(), 2);
}

static void
t_options(void **state)
{
    static const struct {
        const char *option;
        int code;
    } rows[] = {{"--version", 0}, {"--help", 0}, {"--nonsense", 2}, {"extra", 2}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const args[] = {rows[i].option, NULL};
        start(NULL, args);
        assert_int_equal(wait_exit(), rows[i].code);
        (void)close(w.ready_fd);
        w.ready_fd = -1;
    }
}

/* Memory of its own: the libraries' pages are shared by all workers of a service. */
static long
own_kib(pid_t pid)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
    struct err err = ERR_INIT;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    assert_int_equal(fd_read_file(path, &b, &err), 0);
    const char *at = strstr(buf_str(&b), "\nPss_Anon:");
    assert_non_null(at);
    return strtol(at + 10, NULL, 10);
}

/* What an idle worker costs; a sanitizer's shadow would be counted too. */
static void
t_small_when_idle(void **state)
{
    char out[1000];

    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    start_worker(NULL);
    assert_int_equal(get("/healthz", out, sizeof(out)), 200);
    assert_int_equal(get("/openapi.json", out, sizeof(out)), 200);
    (void)poll(NULL, 0, 100);
    assert_in_range(own_kib(w.pid), 1, IDLE_MAX_KIB);
}

/* The program lies beside this test. */
static void
find_program(void)
{
    ssize_t n = readlink("/proc/self/exe", w.program, sizeof(w.program) - sizeof("husk-worker"));
    char *slash;

    w.program[n > 0 ? n : 0] = '\0';
    slash = strrchr(w.program, '/');
    if (slash)
        memcpy(slash + 1, "husk-worker", sizeof("husk-worker"));
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(t_answers),
        T(t_ends_at_once_when_idle),
        T(t_passes_on_what_woke_it),
        T(t_finishes_its_request),
        T(t_ends_after_its_requests),
        T(t_scoreboard),
        T(t_does_not_start),
        T(t_options),
        T(t_small_when_idle),
    };
    find_program();
    sig_ignore_pipe();
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
