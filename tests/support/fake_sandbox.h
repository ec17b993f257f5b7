/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_FAKE_SANDBOX_H
#define HUSK_TESTS_SUPPORT_FAKE_SANDBOX_H

#include "sandbox/sandbox.h"

#include <stdatomic.h>

/*
 * A backend without kernels: a folder that several processes share.  A runtime is a file k-<handle>
 * in it; what was done and what shall go wrong stands in a mapped file.
 *
 * Code is one word and an argument: "print TEXT", "sleep MS" (ends early by a hook), "die" (the
 * runtime goes), "error", "mute" (as sleep, but no interrupt stops it).
 */
enum fake_death { FAKE_DIES_NOWHERE, FAKE_DIES_STARTED, FAKE_DIES_CLOSING, FAKE_DIES_CLOSED };

struct fake_world {
    /* counted */
    atomic_int opens, binds, warms, execs, closes, interrupts;
    atomic_int living, most_living; /* runtimes at the backend now, and at most ever */
    atomic_int running, most_running;
    /* what goes wrong: that many times; -1 always */
    atomic_int fail_opens, uncertain_opens, fail_binds, fail_closes, gone_execs, fail_execs;
    atomic_int silent_execs;     /* the runtime does not take the code before the deadline */
    atomic_int stubborn;         /* interrupts that what runs does not heed */
    atomic_int unanswered_opens; /* a runtime is there and nobody is told which */
    atomic_int fail_lists, cut_lists, fail_alives;
    atomic_int die_at;      /* enum fake_death: the next process that comes there is killed */
    atomic_int hold_render; /* 1: the next run that renders its result stops there; 2: one does */
    /* how long a start takes, a bind, a look, and an end */
    atomic_int open_ms, bind_ms, alive_ms, close_ms;
    atomic_int order_n; /* "print N" as they came */
    atomic_int order[64];
};

/* Maps the world of a folder, making it when it is not there. Never NULL. */
struct fake_world *fake_world(const char *dir);
void fake_world_unmap(struct fake_world *w);
struct sandbox *fake_sandbox_new(const char *dir);
/* Kills the process if it is to die there. */
void fake_death(struct fake_world *w, enum fake_death at);
/* Ends a runtime behind everybody's back (a dead kernel). */
void fake_kill(const char *dir, const char *handle);
/* All of them, as the restart of a gateway does. */
void fake_kill_all(const char *dir);
/* Makes one that no row knows. */
void fake_stray(const char *dir, const char *handle);
int fake_count(const char *dir); /* runtimes that live */

#endif
