/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_NOTIFY_FIXTURE_H
#define HUSK_TESTS_NOTIFY_FIXTURE_H

#include "support/cmocka_all.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "egress_fixture.h"
#include "keeper/keeper.h"

/*
 * Policy public by seccomp notification.  What a session does runs in a child under the filter,
 * of the session's uid, in the network namespace of the "host"; it exits with 0, or says which
 * check did not hold first.
 */
#define SESSION_UID 200007

/* In the session. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)dprintf(2, "%d: %s (errno %d)\n", __LINE__, #condition, errno);                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

extern struct keeper_options session_options; /* tier container, egress public */
extern char session_home[];                   /* where sessions begin; theirs */

/* Starts f as a session, with its supervisor, both left to be reaped. */
pid_t start_session(void (*f)(void), pid_t *ret_supervisor);
/* Runs f as a session; fails the test where a check did not hold. */
void run_session(void (*f)(void));
/* In the session: 0 or the errno of a connect. type as of socket(). */
int connect_to(int type, const char *address, uint16_t port);

/* Runs tests in a small world of network namespaces: what main() returns. */
int notify_tests_run(const struct CMUnitTest *tests, size_t n);

#endif
