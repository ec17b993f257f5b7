/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_WIRE_H
#define HUSK_KEEPER_WIRE_H

#include <stdint.h>

/*
 * What husk-launch (the gateway's user) and the workers, the reaper and huskctl (the workers' user)
 * say to husk-keeper, and what keeper and monitors say to one another.
 *
 * SOCK_SEQPACKET sockets in the keeper's directory: one message is one packet of exactly the size
 * of its struct, descriptors ride with it (SCM_RIGHTS), nothing has a length that could lie.  All
 * multi-byte members are in the machine's order: both ends are on one machine.  A message of
 * another version is refused; a monitor goes on running the code it was started with until its
 * kernel ends, so a change of a struct is a new version, and the keeper speaks the monitors' too.
 */
#define WIRE_VERSION 1

#define WIRE_LAUNCH_SOCKET "launch.sock" /* 0600, the gateway's user */
#define WIRE_FILES_SOCKET "files.sock"   /* 0600, the workers' user */

#define WIRE_KERNEL_MAX 40       /* a kernel id: [0-9a-f-], 8 to 39 bytes, NUL behind */
#define WIRE_CONNECTION_MAX 2048 /* the rewritten connection file, opaque to the keeper */
#define WIRE_DETAIL_MAX 200

enum wire_op {
    WIRE_START = 1, /* shim -> keeper: struct wire_start and WIRE_START_FDS descriptors */
    WIRE_STARTED,   /* monitor -> shim: struct wire_event, value is the uid */
    WIRE_SIGNAL,    /* shim -> monitor: struct wire_event, value is the signal (INT TERM HUP QUIT
                       USR1) */
    WIRE_EXIT,      /* monitor -> shim: struct wire_event, value is the exit code or, negative, the
                       signal; detail says why a start was refused (value 70) */

    WIRE_INFO = 16, /* worker -> keeper: what is in force; answers struct wire_info */
    WIRE_MAKE,      /* worker: make the workspace; flag says whether it was there */
    WIRE_ROOT,   /* worker: a root descriptor of the workspace, mapped to the asker, in the reply;
                    ENOENT: there is none */
    WIRE_BIND,   /* worker: workspace onto the kernel's placeholder. EBUSY: it has another;
                    ENOENT: no such kernel; the same one again is fine */
    WIRE_STATUS, /* worker: the counters of a kernel's sandbox; ENOENT: no such kernel */
    WIRE_REMOVE, /* worker: the workspace goes for good; EBUSY: a kernel has it still */
    WIRE_USAGE,  /* worker: bytes the workspace takes on the host's disk */
    WIRE_KILL,   /* worker: end a kernel's sandbox now */
    WIRE_LIST,   /* worker: the sandbox whose kernel id comes next after the request's ("" begins);
                    ENOENT: that was the last one. value is how many there are */

    WIRE_HELLO = 32, /* keeper -> monitor: answers with its kernel, workspace, uid and counters;
                        value is its init's process */
    WIRE_ATTACH,     /* keeper -> monitor: this workspace becomes the kernel's; where it is mounted
                        a detached tree rides along (descriptor) */
    WIRE_END,        /* keeper -> monitor: end the sandbox now */
    WIRE_HOARD,      /* the same, for memory the kernel keeps and no limit counts: told as oom */
};

#define WIRE_START_FDS 7 /* stdout, stderr, then shell iopub stdin control hb, listening */

struct wire_start {
    uint32_t version, op;
    char kernel[WIRE_KERNEL_MAX];
    uint32_t connection_len;
    char connection[WIRE_CONNECTION_MAX];
};

struct wire_event {
    uint32_t version, op;
    int32_t value;
    char detail[WIRE_DETAIL_MAX];
};

/* Any request of a worker. Members that an op does not name are zero. */
struct wire_request {
    uint32_t version, op;
    char kernel[WIRE_KERNEL_MAX];
    uint64_t workspace; /* the workspace's id; never 0 */
};

/* Counters since the sandbox began; what the tier cannot count is -1. */
struct wire_counters {
    int64_t oom_kills;         /* processes killed for memory */
    int64_t fork_refusals;     /* forks the process limit refused */
    int64_t disk_free_bytes;   /* of the workspace's own file system; -1 where it has none */
    int64_t disk_free_inodes;  /* the same */
    int64_t memory_bytes;      /* in use now */
    int64_t memory_peak_bytes; /* most ever */
};

struct wire_reply {
    uint32_t version, op; /* op: the request's */
    int32_t error;        /* 0, or an errno */
    int32_t flag;
    int64_t value;
    struct wire_counters counters;
    char kernel[WIRE_KERNEL_MAX]; /* of a sandbox: LIST, HELLO */
    uint64_t workspace;           /* which it has, 0 none */
    uint32_t uid, pid;            /* its uid, its monitor */
    char detail[WIRE_DETAIL_MAX]; /* a sentence for a person when error is not 0 */
};

/* The answer to WIRE_INFO. */
struct wire_info {
    uint32_t version, op;
    int32_t error;
    int32_t ready;                /* 1: kernels can be started */
    char tier[16], egress[16];    /* in force */
    char disk[16];                /* how a workspace is bounded: image, tmpfs, none */
    char detail[WIRE_DETAIL_MAX]; /* why not ready, or what a better tier would need */
    int64_t memory_bytes, cpu_milli, pids, disk_bytes; /* the limits in force; 0: not enforced */
    int64_t sandboxes;
};

#endif
