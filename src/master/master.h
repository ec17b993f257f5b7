/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MASTER_MASTER_H
#define HUSK_MASTER_MASTER_H

#include "base/clock.h"
#include "base/err.h"
#include "base/priv.h"
#include "conf/settings.h"
#include "super/scoreboard.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

/* Private to husk-master: its one object and what its files offer each other. */

/* A kind of child: the lanes of workers, then the reaper. */
enum { KIND_REAPER = LANE_COUNT, KIND_COUNT };

/* Two reapers can be there for a moment: an old one that ends and its successor. */
#define REAPER_ROOM 4

struct child {
    pid_t pid; /* 0: free */
    int kind;
    int64_t generation;
    int64_t started_ms;
    int ready_fd; /* the pipe it says "ready" on; -1 when that is settled */
    bool ready;
    bool ending; /* it was told to end */
    bool killed;
    struct deadline ready_by;
    struct deadline kill_at; /* when ending */
};

/* How long a kind that dies at once waits for its next start. */
struct throttle {
    int64_t delay_ms;
    struct deadline not_before; /* past: now */
};

struct master {
    const char *config; /* the settings file, borrowed; NULL: none */
    struct settings settings;
    struct priv_ids ids;
    bool drop; /* children run as ids */
    gid_t socket_gid;
    pid_t pid;
    int pid_fd;
    int signal_fd;
    int listeners[LANE_COUNT];
    struct scoreboard *board;
    struct child *children; /* child i has slot i; behind the slots come the reapers */
    struct pollfd *polled;  /* room for one a child, and the signals */
    int n_children;
    struct throttle throttles[KIND_COUNT];
    char worker[PATH_MAX], reaper[PATH_MAX];
    int64_t generation;
    int64_t serving[KIND_COUNT]; /* the last of which all were ready; at first 1 */
    int64_t announced;           /* the last generation that was ready as a whole */
    bool stopping;
};

/* programs.c: where the children's programs are. */
int programs_find(struct master *m, struct err *err);

/* listen.c */

/* Opens the sockets of all lanes at fresh inodes, renamed over what is there. */
int listen_open_all(struct master *m, struct err *err);
void listen_close_all(struct master *m); /* and unlinks them */

/* children.c: one child's life. */
const char *child_kind_name(int kind);
/* Starts one; ERR_LIMIT when no slot is free. */
int child_spawn(struct master *m, int kind, struct err *err);
/* SIGTERM; SIGKILL at kill_at. Not twice. */
void child_end(struct child *c, struct deadline kill_at);
void child_kill(struct child *c, const char *why);
/* Reads the readiness byte of a child whose pipe is readable. */
void child_hear(struct master *m, struct child *c);
/* Collects everybody who died, without waiting. */
void children_reap(struct master *m);
/* Kills who is overdue; the time of the next look. */
struct deadline children_watch(struct master *m);
bool children_any(const struct master *m);

/* supervise.c: what should run. */

/* Starts what is missing, ends what is of an older generation and replaced; when to come again. */
struct deadline supervise(struct master *m);
/* SIGHUP */
void supervise_reload(struct master *m);
/* SIGTERM, SIGINT; the second time kills. */
void supervise_stop(struct master *m);
/* Slots that two generations of such settings take. */
int supervise_slots(const struct settings *s);

#endif
