/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_UNIT_BOX_FIXTURE_H
#define HUSK_TESTS_UNIT_BOX_FIXTURE_H

#include "support/cmocka_all.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "keeper/box.h"

/*
 * Sandboxes of each tier, made by a process that stands for the monitor, with Python scripts
 * instead of a kernel.  All of it runs in namespaces of its own: what a hole would let through is
 * not the machine's.
 */
#define PYTHON "/usr/bin/python3"
#define BOX_KERNEL "0123abcd-0000-4000-8000-00000000beef"
#define OUTPUT_MAX 32768
#define ORDINARY_UID 54321
#define ORDINARY_GID 54322
#define TIMEOUT_MS 20000
#define MIB (1024LL * 1024)

/* What one sandbox did, in memory shared with the process that ran it. */
struct outcome {
    bool started;
    int value;
    struct wire_counters counters;
    struct err err;
    size_t len;
    char out[OUTPUT_MAX];
    char note[256];
};

/* Called in the monitor's stead once the script has printed a first line. */
typedef void act_fn(struct box *b, struct outcome *o);

struct trial {
    struct keeper_options o;
    const char *script; /* its descriptor 5, a listener's, is its stdout once more */
    const char *argument;
    act_fn *act;
    bool cgroups;           /* cgroup_prepare() first */
    bool cgroup_is_made;    /* o.cgroup_dir is there already */
    bool monitor_is_killed; /* by the act, with SIGKILL */
    bool no_clone3;         /* it is answered with ENOSYS, as in Docker */
};

extern struct outcome *outcome;
extern char folder[PATH_MAX]; /* state and run directory of the test that runs */

/* snprintf that must fit. */
void text(char *ret, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
struct trial trial_of(enum tier tier, const char *script);
/* Runs the trial in a process of its own, with the rights its tier has; fails the test where no
 * sandbox starts. */
void run_trial(struct trial *t);
/* The outcome's output has this line; all of a list ended by NULL. */
void has(const char *line);
void has_all(const char *const *lines);
void become_container_root(void); /* without CAP_SYS_ADMIN */
void become_ordinary(void);       /* ORDINARY_UID */
int make_folder(void **state);
int remove_folder(void **state);
void renew_folder(void); /* between trials of different tiers */
/* First thing in main(): the rest runs as pid 1 of a pid namespace, without network, with a /tmp
 * that ends with it. Exits with 77 where that is not to be had. */
void enter_namespaces(void);

#define BOX_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

#endif
