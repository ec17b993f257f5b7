/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_FCGI_SERVER_H
#define HUSK_TESTS_FCGI_SERVER_H

#include <limits.h>
#include <sys/types.h>

/*
 * A server process with a few handlers for the tests of fcgi, one a test.  What a handler cannot
 * answer (since its client is gone) it writes to the report pipe as one line.
 */
#define IO_TIMEOUT_MS 1500 /* how long the server waits for a client */

struct fcgi_server {
    char dir[PATH_MAX], path[PATH_MAX]; /* of its socket */
    pid_t pid;
    int report_fd;
};
extern struct fcgi_server server;

int server_start(void **state);
/* Fails the test where the server did not end in good order. */
int server_stop(void **state);
/* The next line of the report, within five seconds. */
void expect_report(const char *want);

#endif
