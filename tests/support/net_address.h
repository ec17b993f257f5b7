/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_SUPPORT_NET_ADDRESS_H
#define HUSK_TESTS_SUPPORT_NET_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

/* "1.2.3.4" or "fe80::1" and a port as an address; its length. Fails the test when it is none. */
socklen_t net_address(const char *text, uint16_t port, struct sockaddr_storage *ret);

#endif
