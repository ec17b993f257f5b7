/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_SIG_H
#define HUSK_BASE_SIG_H

#include <signal.h>

/*
 * Signals as readable bytes: each listed signal writes its number to a non-blocking pipe; the
 * handler does nothing else.  One set per process.
 */

/* Installs the handlers (0-terminated list) and returns the pipe's read end, -1 with errno. */
int sig_pipe(const int *signals);

/* The next pending signal number, 0 if none. */
int sig_next(int pipe_fd);

/* SIGPIPE ignored. */
void sig_ignore_pipe(void);

/* In a child before exec: default dispositions for everything and an empty mask. */
void sig_reset_all(void);

#endif
