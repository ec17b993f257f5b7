/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_UNIT_WORKSPACE_FIXTURE_H
#define HUSK_TESTS_UNIT_WORKSPACE_FIXTURE_H

#include <limits.h>

#include "workspace/workspace.h"

/* A workspace of its own for each test, with a folder beside it that nothing may reach. */
struct fixture {
    char base[PATH_MAX];
    char dir[PATH_MAX];     /* the workspace, as the kernel sees it */
    char outside[PATH_MAX]; /* holds a file "secret" */
    struct workspace w;
};

#define FIXTURE_ID 0x1234abcd

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A path in the workspace, as the kernel would say it; valid until the next but three calls. */
const char *fixture_path(const struct fixture *f, const char *name);
/* What the kernel's own code does. */
void fixture_write(const struct fixture *f, const char *name, const char *text);
/* The content of a file of the workspace, "(none)" if there is none; valid until the next call. */
const char *fixture_read(const struct fixture *f, const char *name);
/* A whole upload. */
int fixture_put(const struct fixture *f, const char *name, const char *text, struct err *err);
/* How many entries a folder has, counting hidden ones. */
int fixture_count(const char *path);

#endif
