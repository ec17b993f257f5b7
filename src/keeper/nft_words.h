/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_NFT_WORDS_H
#define HUSK_KEEPER_NFT_WORDS_H

#include <netinet/in.h>
#include <stdint.h>

struct nftnl_rule;

/*
 * What the rules of the table (nft.c) are said in: words, each one or a few expressions of the
 * kernel's nftables (linux/netfilter/nf_tables.h).
 */

/* The chains that words lead to. */
#define NFT_CHAIN_DENIED "denied"
#define NFT_CHAIN_REFUSE "refuse"

/* How many connections stand, by the link of each sandbox (a set of this name and id): the
 * machine's table of them has room for some hundred thousand, and none for anybody else when it is
 * full. */
#define NFT_COUNTS "connections"
#define NFT_COUNTS_ID 1

enum word {
    END,
    FROM_SANDBOX,
    TO_SANDBOX,
    NOT_TO_SANDBOX,
    IS_V6,
    SPOOFED, /* the way back to its source is not the link it came from */
    OF_SANDBOX,
    INVALID,
    ESTABLISHED,
    ESTABLISHED_OR_RELATED,
    TOO_MANY, /* connections */
    TO_RESOLVER,
    UDP_DNS,
    TCP_DNS,
    TCP,
    TCP_MAIL,
    TO_HOST, /* an address of the host's own, or one that is no single machine's */
    ACCEPT,
    DROP,
    REFUSED, /* counted, and answered at once: it must not hang a cell until its time is out */
    GO_DENIED,
    RESET,
    UNREACHABLE,
    MASQUERADE,
};

/* Appends a word's expressions to a rule; resolver is what TO_RESOLVER means, else unused. */
void nft_add_word(struct nftnl_rule *r, enum word w, const struct in_addr *resolver);
/* Appends that what goes to this network (in network order) is REFUSED. */
void nft_refuse_network(struct nftnl_rule *r, uint32_t network, int bits);

#endif
