/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_PEER_H
#define HUSK_TESTS_SUPPORT_PEER_H

#include <sys/types.h>

/* A program that a test talks to: it prints its port first, and ends when its input does. */
struct peer {
    pid_t pid;
    int in; /* its standard input, held open */
    int port;
    char url[64]; /* http://127.0.0.1:PORT */
};

/* 0, or -1 if it did not come up. argv[0] is a path; the list ends with NULL. */
int peer_start(struct peer *p, const char *const argv[]);
void peer_stop(struct peer *p);

/* tests/support/fake_gateway with this script. */
int fake_gateway_start(struct peer *p, const char *script);

#endif
