/* SPDX-License-Identifier: MIT */
#include "keeper/deny.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define V4(bits_, what_, source_, ...)                                                             \
    {                                                                                              \
        AF_INET, bits_, DENY_REFUSE, {__VA_ARGS__}, what_, source_                                 \
    }
#define V6(bits_, what_, source_, ...)                                                             \
    {                                                                                              \
        AF_INET6, bits_, DENY_REFUSE, {__VA_ARGS__}, what_, source_                                \
    }
#define V6_AS_V4(bits_, what_, source_, ...)                                                       \
    {                                                                                              \
        AF_INET6, bits_, DENY_AS_V4, {__VA_ARGS__}, what_, source_                                 \
    }

/* Narrow before wide: the first match names the reason. */
static const struct deny_row ROWS[] = {
    V4(8, "this network (0.0.0.0 is the host itself)", "RFC 791", 0),
    V4(8, "private", "RFC 1918", 10),
    V4(10, "shared by carriers (CGNAT)", "RFC 6598", 100, 64),
    V4(8, "loopback", "RFC 1122", 127),
    V4(32, "metadata service of cloud providers", "RFC 3927", 169, 254, 169, 254),
    V4(16, "link-local", "RFC 3927", 169, 254),
    V4(12, "private", "RFC 1918", 172, 16),
    V4(24, "protocol assignments", "RFC 6890", 192, 0, 0),
    V4(24, "documentation", "RFC 5737", 192, 0, 2),
    V4(24, "AS112 name servers (answered locally)", "RFC 7535", 192, 31, 196),
    V4(24, "AMT relays", "RFC 7450", 192, 52, 193),
    V4(24, "6to4 relays", "RFC 7526", 192, 88, 99),
    V4(16, "private", "RFC 1918", 192, 168),
    V4(24, "AS112 name servers (answered locally)", "RFC 7534", 192, 175, 48),
    V4(15, "benchmarking", "RFC 2544", 198, 18),
    V4(24, "documentation", "RFC 5737", 198, 51, 100),
    V4(24, "documentation", "RFC 5737", 203, 0, 113),
    V4(4, "multicast", "RFC 5771", 224),
    V4(32, "broadcast", "RFC 919", 255, 255, 255, 255),
    V4(4, "reserved", "RFC 1112", 240),
    V6(128, "unspecified (is the host itself)", "RFC 4291", 0),
    V6(128, "loopback", "RFC 4291", [15] = 1),
    V6_AS_V4(96, "IPv4-mapped", "RFC 4291", [10] = 0xff, [11] = 0xff),
    V6(96, "IPv4-compatible", "RFC 4291", 0),
    V6_AS_V4(96, "NAT64", "RFC 6052", 0x00, 0x64, 0xff, 0x9b),
    V6(48, "NAT64, local use", "RFC 8215", 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01),
    V6(64, "discard only", "RFC 6666", 0x01, 0x00),
    V6(64, "dummy prefix", "RFC 9780", 0x01, 0x00, 0, 0, 0, 0, 0, 0x01),
    V6(32, "Teredo", "RFC 4380", 0x20, 0x01, 0x00, 0x00),
    V6(48, "benchmarking", "RFC 5180", 0x20, 0x01, 0x00, 0x02),
    V6(28, "ORCHID", "RFC 4843", 0x20, 0x01, 0x00, 0x10),
    V6(28, "ORCHIDv2", "RFC 7343", 0x20, 0x01, 0x00, 0x20),
    V6(23, "protocol assignments", "RFC 2928", 0x20, 0x01, 0x00, 0x00),
    V6(32, "documentation", "RFC 3849", 0x20, 0x01, 0x0d, 0xb8),
    V6(16, "6to4", "RFC 3056", 0x20, 0x02),
    V6(16, "test network 6bone", "RFC 3701", 0x3f, 0xfe),
    V6(20, "documentation", "RFC 9637", 0x3f, 0xff, 0x00),
    V6(16, "segment routing identifiers", "RFC 9602", 0x5f, 0x00),
    V6(7, "unique local (private)", "RFC 4193", 0xfc),
    V6(10, "link-local", "RFC 4291", 0xfe, 0x80),
    V6(10, "site-local", "RFC 3879", 0xfe, 0xc0),
    V6(8, "multicast", "RFC 4291", 0xff),
    V6(3, "not assigned for global unicast", "RFC 4291", 0x00),
    V6(2, "not assigned for global unicast", "RFC 4291", 0x40),
    V6(1, "not assigned for global unicast", "RFC 4291", 0x80),
};

static const struct deny_row NO_ADDRESS = {.what = "not an internet address", .source = ""};

const struct deny_row *
deny_rows(size_t *ret_n)
{
    *ret_n = sizeof ROWS / sizeof ROWS[0];
    return ROWS;
}

static bool
covers(const struct deny_row *row, int family, const unsigned char *address)
{
    size_t whole = (size_t)row->bits / 8;
    unsigned rest = (unsigned)row->bits % 8;

    if (row->family != family || memcmp(row->prefix, address, whole) != 0)
        return false;
    return rest == 0 || ((row->prefix[whole] ^ address[whole]) & (0xff00u >> rest) & 0xffu) == 0;
}

static const struct deny_row *
find(int family, const unsigned char *address)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (!covers(&ROWS[i], family, address))
            continue;
        return ROWS[i].verdict == DENY_AS_V4 ? find(AF_INET, address + 12) : &ROWS[i];
    }
    return NULL;
}

/* The row that refuses this address, or NULL when it may be connected to. Anything that is not a
 * complete AF_INET or AF_INET6 address is refused by a row of its own. Ports are not looked at. */
static const struct deny_row *
deny_find(const struct sockaddr *sa, socklen_t n)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (n >= sizeof v4 && sa->sa_family == AF_INET) {
        memcpy(&v4, sa, sizeof v4);
        return find(AF_INET, (const unsigned char *)&v4.sin_addr);
    }
    if (n >= sizeof v6 && sa->sa_family == AF_INET6) {
        memcpy(&v6, sa, sizeof v6);
        return find(AF_INET6, v6.sin6_addr.s6_addr);
    }
    return &NO_ADDRESS;
}

bool
deny_address(const struct sockaddr *sa, socklen_t n)
{
    struct sockaddr_in v4;

    if (deny_find(sa, n))
        return true;
    memcpy(&v4, sa, sizeof v4); /* the port is at the same place in both families */
    return ntohs(v4.sin_port) == DENY_PORT;
}

void
deny_text(const struct deny_row *row, char out[DENY_TEXT_MAX])
{
    char address[INET6_ADDRSTRLEN];

    (void)inet_ntop(row->family, row->prefix, address, sizeof address);
    (void)snprintf(out, DENY_TEXT_MAX, "%s/%d", address, row->bits);
}
