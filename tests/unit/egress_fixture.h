/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_EGRESS_FIXTURE_H
#define HUSK_TESTS_EGRESS_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * A small world of network namespaces, nothing of it on the machine's own network.  We are the
 * "host": public address NET_HOST and LAN address NET_HOST_LAN.  Behind it an "internet" with
 * NET_PUBLIC, and a LAN with a metadata service, private and shared addresses, and a resolver.
 * On each of their addresses, and the host's, TCP and UDP ports 25, 53 and 80 answer.
 */
#define NET_HOST "93.184.216.1"
#define NET_HOST_LAN "10.9.0.1"
#define NET_PUBLIC "93.184.216.34"
#define NET_PUBLIC6 "2606:2800::34"
#define NET_HOST6 "2606:2800::1"
#define NET_RESOLVER "10.9.0.53"

struct net_world {
    pid_t host, internet, lan; /* that answer there */
};

/* 0; or the exit status of the test program: 77 with the reason on stdout where this cannot run. */
int net_world_make(struct net_world *w);
void net_world_end(struct net_world *w);

/* A command line by the shell; the test fails when it does. */
void net_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A process in a network namespace of its own with its loopback up, that waits to be killed. With
 * `answering` it answers like the others. */
pid_t net_sandbox(bool answering);
void net_kill(pid_t pid);

/* Connects (TCP) or asks and waits for the answer (UDP) from the network namespace of a process:
 * 0 when answered, else an errno; ETIMEDOUT after 0.4 s. */
int net_try(pid_t from, int type, const char *address, uint16_t port);
/* The same for a machine under load, which gets some more time. */
int net_try_patiently(pid_t from, int type, const char *address, uint16_t port);
/* Fails the test unless it is answered, given that time. */
void net_assert_reached(pid_t from, int type, const char *address, uint16_t port);

#endif
