/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_FILTER_H
#define HUSK_KEEPER_FILTER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The system calls a session may not make.  A deny list: whatever Python's libraries call goes on
 * working, and what is refused is refused with an error, never with a signal.
 */
struct filter_options {
    bool inet;    /* AF_INET and AF_INET6 sockets may be made */
    bool ipc;     /* the ipc namespace is the session's own */
    bool network; /* so is the network namespace */
    bool notify;  /* connections and datagrams are made by a supervisor (egress public, no veth) */
};

/* Loads it into the calling thread, which has no_new_privs set. With notify *ret_notify is the
 * listener (close-on-exec; the calls it serves hang until somebody does), else -1. */
int filter_load(const struct filter_options *o, int *ret_notify, struct err *err);

/* What is refused, for docs/isolation.md: the call (and which arguments), the error's name, why. */
struct filter_row {
    const char *call;
    int error;
    const char *why;
};
/* The i-th row, NULL behind the last. */
const struct filter_row *filter_row(size_t i);
/* "EPERM" and so on, of the errors in the rows; "done" of 0, where success is answered. */
const char *filter_error_name(int error);

#endif
