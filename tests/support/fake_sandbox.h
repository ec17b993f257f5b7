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
struct fake_world {
    /* counted */
    atomic_int opens, binds, execs, closes, interrupts;
    atomic_int living, most_living; /* runtimes at the backend now, and at most ever */
    atomic_int running, most_running;
    /* what goes wrong: that many times; -1 always */
    atomic_int fail_opens, uncertain_opens, fail_binds, fail_closes, gone_execs, fail_execs;
    atomic_int open_ms, bind_ms, alive_ms; /* how long a start takes, a bind, and a look */
    atomic_int order_n;                    /* "print N" as they came */
    atomic_int order[64];
};

/* Maps the world of a folder, making it when it is not there. Never NULL. */
struct fake_world *fake_world(const char *dir);
void fake_world_unmap(struct fake_world *w);
struct sandbox *fake_sandbox_new(const char *dir);
/* Ends a runtime behind everybody's back (a dead kernel). */
void fake_kill(const char *dir, const char *handle);
/* Makes one that no row knows. */
void fake_stray(const char *dir, const char *handle);
int fake_count(const char *dir); /* runtimes that live */

#endif
