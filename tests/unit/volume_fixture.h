/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_VOLUME_FIXTURE_H
#define HUSK_TESTS_VOLUME_FIXTURE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "keeper/volume.h"

/* What the tests of workspaces have: a keeper's state folder, and the users on both sides of it. */
#define MIB INT64_C(1048576)
#define WORKER 64990
#define KERNEL (KERNEL_UID_BASE + 7)
#define ID UINT64_C(0x123456789abcdef)

struct volume_fixture {
    char dir[PATH_MAX];
    struct keeper_options o; /* tier host, images of 16 MiB */
};

/* Takes the program into a mount namespace of its own: 0, or the status to exit with, where it
 * cannot run; the reason is said. */
int volume_namespace(void);
/* Those of a keeper whose state is in dir. */
void volume_options(struct keeper_options *o, const char *dir);
int volume_set_up(void **state);
int volume_tear_down(void **state);
#define ONE(t) cmocka_unit_test_setup_teardown(t, volume_set_up, volume_tear_down)

/* A workspace that was not there; its folder as a kernel of that uid, and as a worker, has it.
 * They fail the test. */
void make_volume(struct volume_fixture *f, uint64_t id);
int tree_of(struct volume_fixture *f, uint64_t id, uid_t uid);
int root_of(struct volume_fixture *f, uint64_t id);

/* For volume_names(): counts into *(int *)ctx what is no template. */
void count_name(void *ctx, int dir_fd, const char *name);
/* Loop devices that have a file of ours behind them; and once the last users of the others are
 * gone, for two seconds. */
int loops(const struct volume_fixture *f);
int loops_at_last(const struct volume_fixture *f, int wanted);

/* Runs fn as another user in a folder; true if it said so. */
bool as_user(uid_t uid, int dir_fd, bool (*fn)(int dir_fd));
/* For that: what kernels and workers do, and what they find of each other's. */
bool kernel_works(int dir_fd);
bool worker_works(int dir_fd);
bool kernel_reads_workers(int dir_fd);
bool write_marker(int dir_fd);
bool has_marker(int dir_fd);
bool write_file(int dir_fd, const char *name, const char *text, int flags);
bool read_is(int dir_fd, const char *name, const char *text);

#endif
