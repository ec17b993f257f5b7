/* SPDX-License-Identifier: MIT */
#include "keeper/nft_watch.h"

#include <netinet/in.h> /* before those of linux/, which would define the same */

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "keeper/netlink.h"
#include "keeper/nft.h"

/* Taken at one time; what is left makes the descriptor readable again. */
#define DATAGRAMS_MAX 1024

int
nft_watch_open(struct err *err)
{
    struct sockaddr_nl all = {.nl_family = AF_NETLINK, .nl_groups = 1U << (NFNLGRP_NFTABLES - 1)};
    _cleanup_close_ int fd =
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);

    if (fd < 0 || bind(fd, (struct sockaddr *)&all, sizeof all) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot watch the rules of nftables");
    return steal_fd(&fd);
}

/* The first attribute of tables, chains and rules alike is the table's name. */
_Static_assert(NFTA_TABLE_NAME == 1 && NFTA_CHAIN_TABLE == 1 && NFTA_RULE_TABLE == 1,
               "attributes of nftables");

bool
nft_is_ours(const struct nlmsghdr *m)
{
    const struct nfgenmsg *head = mnl_nlmsg_get_payload(m);
    const struct nlattr *a;

    if (mnl_nlmsg_get_payload_len(m) < sizeof *head || head->nfgen_family != NFPROTO_INET)
        return false;
    switch (NFNL_MSG_TYPE(m->nlmsg_type)) {
    case NFT_MSG_NEWTABLE:
    case NFT_MSG_DELTABLE:
    case NFT_MSG_NEWCHAIN:
    case NFT_MSG_DELCHAIN:
    case NFT_MSG_NEWRULE:
    case NFT_MSG_DELRULE:
        break;
    default:
        return false;
    }
    mnl_attr_for_each(a, m, sizeof *head) if (mnl_attr_get_type(a) ==
                                              NFTA_TABLE_NAME) return mnl_attr_get_payload_len(a) ==
            sizeof NFT_TABLE &&
        memcmp(mnl_attr_get_payload(a), NFT_TABLE, sizeof NFT_TABLE) == 0;
    return false;
}

bool
nft_watch_read(int fd)
{
    char buf[4 * NETLINK_MESSAGE_MAX] __attribute__((aligned(8)));
    bool ours = false;

    for (int i = 0; i < DATAGRAMS_MAX; i++) {
        const struct nlmsghdr *m = (const struct nlmsghdr *)buf;
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        int left = (int)n;

        if (n < 0 && errno == ENOBUFS)
            ours = true; /* more came than the socket can hold: it may have been about ours */
        else if (n <= 0)
            break;
        for (; n > 0 && mnl_nlmsg_ok(m, left); m = mnl_nlmsg_next(m, &left))
            ours = ours || nft_is_ours(m);
    }
    return ours;
}
