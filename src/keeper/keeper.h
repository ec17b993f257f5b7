/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_KEEPER_H
#define HUSK_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What all parts of husk-keeper know: its options, worked out once at start and never changed.
 */
enum tier { TIER_NONE, TIER_CONTAINER, TIER_ROOTLESS, TIER_HOST };
enum egress { EGRESS_NONE, EGRESS_PUBLIC, EGRESS_OPEN };

#define KEEPER_PATH_MAX 256
#define KEEPER_PATHS_MAX 1024

struct keeper_limits {
    int64_t memory_bytes, cpu_milli, pids, disk_bytes;
};

/* The first uid of kernels (plus the slot) and of workspaces on disk (plus a number of their own).
 */
#define KERNEL_UID_BASE 200000
#define WORKSPACE_UID_BASE 300000
#define SLOTS_MAX 60000

struct keeper_options {
    enum tier tier; /* in force: probed, at least the minimum */
    bool cgroup_v2; /* which of the two interfaces; only where limits are by cgroup */
    bool cgroups;   /* limits are by cgroup, else by RLIMITs */
    /* our own group, below which each sandbox has one: v2 [0] alone, v1 memory, pids, cpu; "" where
       there is none. Set by cgroup_prepare() */
    char cgroup_dir[3][KEEPER_PATH_MAX];
    enum egress egress;
    char egress_proxy[208]; /* for the sessions' environment, or "" */
    char egress_dns[64];    /* "address" or "": the resolver named in the sandbox */
    struct keeper_limits limits;
    char state_dir[KEEPER_PATH_MAX]; /* images or folders of workspaces, uid locks; 0700 ours */
    char run_dir[KEEPER_PATH_MAX];   /* sockets, monitors' sockets */
    char python[KEEPER_PATH_MAX];    /* the kernels' interpreter */
    char library[KEEPER_PATH_MAX];   /* where husk_kernel.py is */
    char paths[KEEPER_PATHS_MAX];    /* what else a sandbox shows, read-only: "/a:/b" or "" */
    int first_slot;                  /* below SLOTS_MAX: where the search for a free uid begins */
    bool sparse;                     /* images are not allocated whole */
    bool images;                     /* a workspace is a bounded image. Set by volume_prepare() */
    char disk_detail[200];           /* why not, for a person; "" if they are. Set there too */
    uid_t gateway_uid, worker_uid;
    gid_t worker_gid;
};

#endif
