/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_MANAGER_FIXTURE_H
#define HUSK_TESTS_SUPPORT_MANAGER_FIXTURE_H

#include "manager/manager.h"
#include "support/fake_sandbox.h"
#include "support/tmpdir.h"

#include <sys/types.h>

/*
 * A manager over a fresh database and a fake backend, and further processes of the same service:
 * manager_child, a program of its own, since neither locks nor a database connection may be carried
 * over a fork.
 */
struct fixture {
    char dir[PATH_MAX], db[PATH_MAX], workspaces[PATH_MAX], spool[PATH_MAX], locks[PATH_MAX],
        kernels[PATH_MAX], artifacts[PATH_MAX], traces[PATH_MAX];
    struct manager_options o;
    struct manager *m;
    struct fake_world *world;
    struct caller ann;
};

/* A test program's one fixture, and the teardown of its tests. */
#define FIXTURE_DOWN(name)                                                                         \
    static struct fixture name;                                                                    \
                                                                                                   \
    static int teardown(void **state)                                                              \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_done(&name);                                                                       \
        return 0;                                                                                  \
    }

/* The same with the setup. */
#define FIXTURE(name)                                                                              \
    FIXTURE_DOWN(name)                                                                             \
                                                                                                   \
    static int setup(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_init(&name);                                                                       \
        return 0;                                                                                  \
    }

/* The same, where ann's session "s" is open. options: as fixture_restart_with, "" none. */
#define FIXTURE_SESSION(name, options)                                                             \
    FIXTURE_DOWN(name)                                                                             \
                                                                                                   \
    static int setup(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        fixture_init(&name);                                                                       \
        if ((options)[0] != '\0')                                                                  \
            fixture_restart_with(&name, options);                                                  \
        return fixture_open(&name, name.m, "s", NULL, NULL) ? -1 : 0;                              \
    }

/* sweep(): one pass of the reaper over it, which must succeed. */
#define FIXTURE_SWEEP(name)                                                                        \
    static struct sweep_report sweep(void)                                                         \
    {                                                                                              \
        struct sweep_report r;                                                                     \
        struct err err = ERR_INIT;                                                                 \
                                                                                                   \
        assert_int_equal(manager_sweep(name.m, deadline_in(10000), &r, &err), 0);                  \
        return r;                                                                                  \
    }

/* Options for a folder; from the environment variable HUSK_TEST_OPTIONS what a test wants
 * otherwise, so that children agree. */
void fixture_options(struct fixture *f, const char *dir);
void fixture_init(struct fixture *f);
void fixture_done(struct fixture *f);
/* The manager anew; with other options, also for children from then on ("sessions=2 ttl=1000"). */
void fixture_restart(struct fixture *f);
void fixture_restart_with(struct fixture *f, const char *options);
/* Another manager over the same files: another process as far as locks go. */
struct manager *fixture_other(struct fixture *f);

/* Opens the owner's session of that id; the error's slug, or NULL when it went well. */
const char *fixture_open(struct fixture *f, struct manager *m, const char *id, struct session *ret,
                         bool *ret_created);
/* Runs code; the slug, or NULL. A request id is made unless q has one. */
const char *fixture_exec(struct fixture *f, struct manager *m, const char *id, const char *code,
                         struct exec_outcome *ret);
/* The same, and all files of the session are kept. */
const char *fixture_keep(struct fixture *f, struct manager *m, const char *id, const char *code,
                         struct exec_outcome *ret);
const char *fixture_close(struct fixture *f, struct manager *m, const char *id, bool *ret_deferred);
struct caller fixture_caller(const char *owner);

/* manager_child DIR VERB ARG…; its standard output is read by fixture_wait. */
struct child {
    pid_t pid;
    int out;
};
struct child fixture_spawn(struct fixture *f, const char *verb, const char *a, const char *b);
/* Waits for its end: the exit status, or 1000 + the signal; what it wrote in out (cut to size). */
int fixture_wait(struct child *c, char *out, size_t size);
/* Waits until cond() holds, five seconds at most. */
bool fixture_until(bool (*cond)(struct fixture *f), struct fixture *f);
/* For fixture_until: code runs in one of the sessions. */
bool fixture_one_runs(struct fixture *f);
/* The number an SQL query gives (SELECT count(*) …), through a connection of its own. */
int64_t fixture_sql(struct fixture *f, const char *sql);

#endif
