/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_DENY_H
#define HUSK_KEEPER_DENY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/*
 * The addresses that policy public denies: one table for nftables, the supervisor and the manual.
 * The first row that covers an address decides.  Addresses of the host itself are not in it: they
 * are asked of the kernel (a route of type local) when they are needed.
 */
enum deny_verdict {
    DENY_REFUSE,
    DENY_AS_V4, /* carries an IPv4 address in its last four bytes, which is looked up instead */
};

struct deny_row {
    int family; /* AF_INET or AF_INET6 */
    int bits;   /* length of the prefix */
    enum deny_verdict verdict;
    unsigned char prefix[16]; /* network order; IPv4 has four bytes */
    const char *what;         /* for people */
    const char *source;       /* the document that says so */
};

/* Mail is the one service refused everywhere: what sessions could send would be the operator's. */
#define DENY_PORT 25

/* The whole table, in order. */
const struct deny_row *deny_rows(size_t *ret_n);

/* May sessions not connect to it: a denied address, or DENY_PORT. */
bool deny_address(const struct sockaddr *sa, socklen_t n);

#define DENY_TEXT_MAX 64
/* "10.0.0.0/8" */
void deny_text(const struct deny_row *row, char out[DENY_TEXT_MAX]);

#endif
