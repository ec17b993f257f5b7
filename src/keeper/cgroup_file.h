/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_CGROUP_FILE_H
#define HUSK_KEEPER_CGROUP_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The files of a control group's folder, and where our group is. */

#define CGROUP_PATH_MAX 512

/* 0, or -1 with errno. */
int cgroup_file_write(const char *dir, const char *file, const char *value);
int cgroup_file_write_number(const char *dir, const char *file, int64_t value);
bool cgroup_file_exists(const char *dir, const char *file);
/* The whole file as text, cut at n; -1 with errno. */
int cgroup_file_read(const char *dir, const char *file, char *ret, size_t n);
/* Its only number, or with `key` the number behind that word at the begin of a line; -1 if there is
 * none ("max" is one too: there is no number). */
int64_t cgroup_file_number(const char *dir, const char *file, const char *key);
/* Kills and tries again, bounded, until the folder can be removed or is gone. */
void cgroup_file_remove(const char *dir);

enum { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CONTROLLERS };

/* Our own folder in each hierarchy; "" where there is none. */
struct cgroup_place {
    char v2[CGROUP_PATH_MAX];
    bool v2_top; /* that is all of the hierarchy that can be seen, as in a container */
    char v1[CGROUP_CONTROLLERS][CGROUP_PATH_MAX];
};
/* From the texts of /proc/self/mountinfo and /proc/self/cgroup. */
void cgroup_place_parse(const char *mountinfo, const char *cgroup, struct cgroup_place *ret);

#endif
