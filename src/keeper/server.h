/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_SERVER_H
#define HUSK_KEEPER_SERVER_H

#include "base/err.h"
#include "keeper/keeper.h"
#include "keeper/wire.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * The keeper's loop: it accepts, looks at who connects, and forks.  All that can wait or fail is
 * done by children, which share its mount namespace and die without it noticing more than that.
 */
#define REQUESTS_MAX 64    /* children that answer a worker at one time */
#define REQUEST_ALARM_S 30 /* such a child is ended after this */
#define SPARE_MONITORS 64  /* beyond what the service can want: restarts, the dying */
#define SWEEP_INTERVAL_MS 30000

struct keeper {
    struct keeper_options o;
    bool ready;                   /* kernels can be started */
    char detail[WIRE_DETAIL_MAX]; /* why not, or what a better tier would need */
    int max_sandboxes;
    int launch_fd, files_fd; /* listening */
    int lock_fd;             /* that no second keeper runs on this directory */
    int signals_fd;          /* of sig_pipe(): CHLD, TERM, INT */
};

/* Opens the two sockets, or takes those that LISTEN_FDS gives. */
int server_listen(struct keeper *k, struct err *err);
/* Serves until SIGTERM or SIGINT. Removes nothing: what is there is for the next keeper. */
int server_run(struct keeper *k, struct err *err);

/* In a child: one connection of the gateway's, or of a worker's. They take fd. */
void launch_serve(const struct keeper *k, int fd);
void files_serve(const struct keeper *k, int fd);

#endif
