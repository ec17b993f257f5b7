/* SPDX-License-Identifier: MIT */
#include "support/net_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "support/cmocka_all.h"

socklen_t
net_address(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(ret, &v4, sizeof v4);
        return sizeof v4;
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    memcpy(ret, &v6, sizeof v6);
    return sizeof v6;
}
