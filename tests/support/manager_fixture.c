/* SPDX-License-Identifier: MIT */
#include "support/manager_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/log.h"
#include "manager/internal.h"
#include "store/db.h"
#include "store/migrate.h"

static void
option(struct manager_options *o, const char *name, int64_t v)
{
    const struct {
        const char *name;
        int64_t *at;
    } table[] = {{"ttl", &o->default_ttl_ms},
                 {"sessions", &o->max_sessions},
                 {"per_owner", &o->max_sessions_per_owner},
                 {"waiters", &o->turn_waiters},
                 {"turn_wait", &o->turn_wait_ms},
                 {"pool", &o->pool_size},
                 {"pool_age", &o->pool_max_age_ms},
                 {"start", &o->start_timeout_ms}};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            *table[i].at = v;
}

static void
options_from_environment(struct manager_options *o)
{
    const char *env = getenv("HUSK_TEST_OPTIONS");
    _cleanup_free_ char *all = xstrdup(env ? env : "");
    char *rest = NULL;

    for (char *p = strtok_r(all, " ", &rest); p; p = strtok_r(NULL, " ", &rest)) {
        char *eq = strchr(p, '=');

        if (!eq)
            abort();
        *eq = '\0';
        option(o, p, strtoll(eq + 1, NULL, 10));
    }
}

void
fixture_options(struct fixture *f, const char *dir)
{
    memset(f, 0, sizeof *f);
    (void)snprintf(f->dir, sizeof f->dir, "%s", dir);
    f->o =
        (struct manager_options){.db_path = tmpdir_path(f->db, dir, "husk.db"),
                                 .workspaces_dir = tmpdir_path(f->workspaces, dir, "workspaces"),
                                 .spool_dir = tmpdir_path(f->spool, dir, "spool"),
                                 .traces_dir = tmpdir_path(f->traces, dir, "traces"),
                                 .artifacts_dir = tmpdir_path(f->artifacts, dir, "artifacts"),
                                 .artifact_max_bytes = 1 << 20,
                                 .artifact_max_count = 100,
                                 .artifact_max_total_bytes = 1 << 24,
                                 .lock_path = tmpdir_path(f->locks, dir, "locks"),
                                 .backend = "fake",
                                 .sandbox = {.http_timeout_ms = 1000, .max_output_bytes = 1 << 16},
                                 .default_ttl_ms = 60000,
                                 .max_ttl_ms = 600000,
                                 .max_sessions = 32,
                                 .max_sessions_per_owner = 32,
                                 .pool_max_age_ms = 3600000,
                                 .turn_waiters = 2,
                                 .turn_wait_ms = 10000,
                                 .workspace_retention_ms = 3600000,
                                 .workspaces_max_bytes = 1 << 30,
                                 .history_retention_ms = 3600000,
                                 .exec_timeout_ms = 10000,
                                 .max_exec_timeout_ms = 60000,
                                 .spool_bytes = 1 << 20,
                                 .events_retention_ms = 3600000,
                                 .idempotency_retention_ms = 3600000,
                                 .start_timeout_ms = 10000};
    (void)tmpdir_path(f->kernels, dir, "kernels");
    options_from_environment(&f->o);
    f->ann = fixture_caller("ann");
}

struct caller
fixture_caller(const char *owner)
{
    struct caller c = {.admin = false};

    (void)snprintf(c.owner, sizeof c.owner, "%s", owner);
    return c;
}

static void
fail(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "%s: %s\n", what, err->msg);
    abort();
}

struct manager *
fixture_other(struct fixture *f)
{
    struct manager *m = NULL;
    struct err err = ERR_INIT;

    if (manager_new_with(&f->o, fake_sandbox_new(f->kernels), &m, &err) < 0)
        fail("manager_new_with", &err);
    return m;
}

void
fixture_init(struct fixture *f)
{
    char dir[PATH_MAX];
    struct db *db = NULL;
    struct err err = ERR_INIT;

    log_init("test", LOG_LEVEL_ERROR, false);
    tmpdir_make(dir);
    fixture_options(f, dir);
    if (mkdir(f->workspaces, 0700) < 0 || mkdir(f->spool, 0700) < 0 || mkdir(f->kernels, 0700) < 0)
        abort();
    if (db_open(f->db, DB_CREATE, &db, &err) < 0 || migrate_apply(db, NULL, &err) < 0)
        fail("the database", &err);
    db_close(db);
    f->world = fake_world(f->kernels);
    f->m = fixture_other(f);
}

void
fixture_done(struct fixture *f)
{
    manager_free(f->m);
    fake_world_unmap(f->world);
    tmpdir_remove(f->dir);
    (void)unsetenv("HUSK_TEST_OPTIONS");
}

void
fixture_restart(struct fixture *f)
{
    manager_free(f->m);
    f->m = fixture_other(f);
}

void
fixture_restart_with(struct fixture *f, const char *options)
{
    char dir[PATH_MAX];
    struct fake_world *world = f->world;

    (void)setenv("HUSK_TEST_OPTIONS", options, 1);
    manager_free(f->m);
    memcpy(dir, f->dir, sizeof dir);
    fixture_options(f, dir);
    f->world = world;
    f->m = fixture_other(f);
}

const char *
fixture_open(struct fixture *f, struct manager *m, const char *id, struct session *ret,
             bool *ret_created)
{
    const struct open_request r = {.binding = BIND_SESSION, .value = id, .value_len = strlen(id)};
    struct session s = {0};
    bool created = false;
    struct err err = ERR_INIT;

    if (manager_open(m, &f->ann, &r, NULL, deadline_in(20000), &s, &created, &err) < 0)
        return err.slug ? err.slug : err_name(err.code);
    if (ret_created)
        *ret_created = created;
    if (ret)
        *ret = s;
    else
        session_done(&s);
    return NULL;
}

static int
render(void *ctx, const struct exec_outcome *o, bool full, struct buf *out)
{
    struct fixture *f = ctx;

    if (f->world && full && atomic_load(&f->world->hold_render) == 1) {
        struct deadline d = deadline_in(20000);

        atomic_store(&f->world->hold_render, 2);
        while (atomic_load(&f->world->hold_render) == 2 && !deadline_passed(d))
            (void)poll(NULL, 0, 2);
    }
    return buf_printf(out, "{\"eid\":\"%s\",\"full\":%d}", o->row.eid, full);
}

static const char *
run(struct fixture *f, struct manager *m, const char *id, const char *code,
    const struct capture_request *capture, struct exec_outcome *ret)
{
    const struct exec_callbacks cb = {.ctx = f, .render = render};
    char request_id[ID_UUID_SIZE];
    struct execution_request q = {.code = code,
                                  .code_len = strlen(code),
                                  .timeout_ms = f->o.exec_timeout_ms,
                                  .capture = capture,
                                  .request_id = request_id};
    struct exec_outcome o;
    struct err err = ERR_INIT;

    id_uuid4(request_id);
    if (manager_exec(m, &f->ann, id, &q, &cb, &o, &err) < 0)
        return err.slug ? err.slug : err_name(err.code);
    if (ret)
        *ret = o;
    else
        exec_outcome_done(&o);
    return NULL;
}

const char *
fixture_exec(struct fixture *f, struct manager *m, const char *id, const char *code,
             struct exec_outcome *ret)
{
    return run(f, m, id, code, NULL, ret);
}

const char *
fixture_keep(struct fixture *f, struct manager *m, const char *id, const char *code,
             struct exec_outcome *ret)
{
    const char *all[] = {"**"};
    const struct capture_request c = {.outputs = all, .n_outputs = 1};
    struct err err = ERR_INIT;

    if (manager_artifacts_dir(m, &err) < 0)
        fail("the artifacts' folder", &err);
    return run(f, m, id, code, &c, ret);
}

const char *
fixture_close(struct fixture *f, struct manager *m, const char *id, bool *ret_deferred)
{
    struct err err = ERR_INIT;
    bool deferred = false;

    if (manager_close(m, &f->ann, id, SESSION_END_CLOSED, deadline_in(5000), &deferred, &err) < 0)
        return err.slug ? err.slug : err_name(err.code);
    if (ret_deferred)
        *ret_deferred = deferred;
    return NULL;
}

/* Beside this test program. */
static void
child_program(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 32);
    char *slash;

    if (n < 0)
        abort();
    out[n] = '\0';
    slash = strrchr(out, '/');
    memcpy(slash + 1, "manager_child", sizeof "manager_child");
}

struct child
fixture_spawn(struct fixture *f, const char *verb, const char *a, const char *b)
{
    char program[PATH_MAX];
    struct child c;
    int p[2];

    child_program(program);
    if (pipe2(p, O_CLOEXEC) < 0)
        abort();
    c.pid = fork();
    if (c.pid < 0)
        abort();
    if (c.pid == 0) {
        (void)dup2(p[1], STDOUT_FILENO);
        (void)execl(program, program, f->dir, verb, a, b, (char *)NULL);
        _exit(127);
    }
    (void)close(p[1]);
    c.out = p[0];
    return c;
}

int
fixture_wait(struct child *c, char *out, size_t size)
{
    size_t len = 0;
    char spare[256];
    int status;

    for (;;) {
        bool room = out && len + 1 < size;
        ssize_t n =
            room ? read(c->out, out + len, size - 1 - len) : read(c->out, spare, sizeof spare);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (room)
            len += (size_t)n;
    }
    if (out && size > 0)
        out[len] = '\0';
    (void)close(c->out);
    while (waitpid(c->pid, &status, 0) < 0)
        if (errno != EINTR)
            abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

bool
fixture_until(bool (*cond)(struct fixture *f), struct fixture *f)
{
    struct deadline d = deadline_in(5000);

    while (!cond(f)) {
        if (deadline_passed(d))
            return false;
        (void)poll(NULL, 0, 5);
    }
    return true;
}

bool
fixture_one_runs(struct fixture *f)
{
    return atomic_load(&f->world->running) == 1;
}

int64_t
fixture_sql(struct fixture *f, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    int64_t v = -1;

    if (sqlite3_open_v2(f->db, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
        (void)sqlite3_busy_timeout(db, 5000);
        if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
            (void)fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        else if (sqlite3_step(st) == SQLITE_ROW)
            v = sqlite3_column_int64(st, 0);
        (void)sqlite3_finalize(st);
    }
    (void)sqlite3_close(db);
    return v;
}
