/* SPDX-License-Identifier: MIT */
#include "keeper/nft_words.h"

#include <stdio.h> /* before libnftnl/expr.h, which takes it for granted */

#include <arpa/inet.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <stdlib.h>

#include "keeper/deny.h"
#include "keeper/veth.h"

#define CONNECTIONS_MAX 4096 /* of one sandbox */

static struct nftnl_expr *
add(struct nftnl_rule *r, const char *name)
{
    struct nftnl_expr *e = nftnl_expr_alloc(name);

    if (!e)
        abort();
    nftnl_rule_add_expr(r, e);
    return e;
}

static void
load_meta(struct nftnl_rule *r, uint32_t key)
{
    struct nftnl_expr *e = add(r, "meta");

    nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, NFT_REG_1);
}

static void
load_payload(struct nftnl_rule *r, uint32_t base, uint32_t offset, uint32_t len)
{
    struct nftnl_expr *e = add(r, "payload");

    nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
    nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_BASE, base);
    nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_LEN, len);
}

static void
load_fib(struct nftnl_rule *r, uint32_t result, uint32_t flags)
{
    struct nftnl_expr *e = add(r, "fib");

    nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_RESULT, result);
    nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_FLAGS, flags);
    nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_DREG, NFT_REG_1);
}

static void
mask(struct nftnl_rule *r, const void *bits, uint32_t len)
{
    static const unsigned char none[16];
    struct nftnl_expr *e = add(r, "bitwise");

    nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
    nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
    nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, len);
    (void)nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, bits, len);
    (void)nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, none, len);
}

static void
compare(struct nftnl_rule *r, uint32_t op, const void *data, uint32_t len)
{
    struct nftnl_expr *e = add(r, "cmp");

    nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_OP, op);
    (void)nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, data, len);
}

/* Names are compared by their beginning, as `iifname "husk*"` does. */
static void
match_link(struct nftnl_rule *r, uint32_t key, uint32_t op)
{
    load_meta(r, key);
    compare(r, op, VETH_PREFIX, sizeof VETH_PREFIX - 1);
}

static void
match_state(struct nftnl_rule *r, uint32_t state, uint32_t other)
{
    static const uint32_t zero;
    const uint32_t states = state | other;
    struct nftnl_expr *e = add(r, "ct");

    nftnl_expr_set_u32(e, NFTNL_EXPR_CT_KEY, NFT_CT_STATE);
    nftnl_expr_set_u32(e, NFTNL_EXPR_CT_DREG, NFT_REG_1);
    mask(r, &states, sizeof states);
    compare(r, NFT_CMP_NEQ, &zero, sizeof zero);
}

static void
match_v4(struct nftnl_rule *r, uint32_t op_offset, uint32_t network, int bits)
{
    uint8_t v4 = NFPROTO_IPV4;
    uint32_t m = htonl(bits == 0 ? 0 : UINT32_MAX << (32 - bits));

    load_meta(r, NFT_META_NFPROTO);
    compare(r, NFT_CMP_EQ, &v4, sizeof v4);
    load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, op_offset, 4);
    if (bits < 32)
        mask(r, &m, sizeof m);
    compare(r, NFT_CMP_EQ, &network, sizeof network);
}

#define V4_SOURCE 12 /* offsets in an IPv4 header */
#define V4_DESTINATION 16

static void
match_v6(struct nftnl_rule *r)
{
    static const uint8_t v6 = NFPROTO_IPV6;

    load_meta(r, NFT_META_NFPROTO);
    compare(r, NFT_CMP_EQ, &v6, sizeof v6);
}

static void
match_sandboxes(struct nftnl_rule *r)
{
    match_v4(r, V4_SOURCE, htonl(VETH_NETWORK), VETH_NETWORK_BITS);
}

/* To a port of a protocol; 0 is any. */
static void
match_port(struct nftnl_rule *r, uint32_t protocol, uint32_t port)
{
    const uint8_t p = (uint8_t)protocol;
    const uint16_t n = htons((uint16_t)port);

    load_meta(r, NFT_META_L4PROTO);
    compare(r, NFT_CMP_EQ, &p, sizeof p);
    if (port == 0)
        return;
    load_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof n);
    compare(r, NFT_CMP_EQ, &n, sizeof n);
}

static void
match_spoofed(struct nftnl_rule *r)
{
    static const uint32_t missing;

    load_fib(r, NFT_FIB_RESULT_OIF, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF);
    compare(r, NFT_CMP_EQ, &missing, sizeof missing);
}

static void
match_not_unicast(struct nftnl_rule *r)
{
    uint32_t unicast = 1; /* RTN_UNICAST */

    load_fib(r, NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR);
    compare(r, NFT_CMP_NEQ, &unicast, sizeof unicast);
}

/* Counts this connection to its link's, and goes on where there are more than there may be. */
static void
match_too_many(struct nftnl_rule *r)
{
    struct nftnl_expr *count = nftnl_expr_alloc("connlimit");

    if (!count)
        abort();
    nftnl_expr_set_u32(count, NFTNL_EXPR_CONNLIMIT_COUNT, CONNECTIONS_MAX);
    nftnl_expr_set_u32(count, NFTNL_EXPR_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
    load_meta(r, NFT_META_IIF);
    struct nftnl_expr *e = add(r, "dynset");
    nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_OP, NFT_DYNSET_OP_ADD);
    nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_KEY, NFT_REG_1);
    (void)nftnl_expr_set_str(e, NFTNL_EXPR_DYNSET_SET_NAME, NFT_COUNTS);
    nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SET_ID, NFT_COUNTS_ID);
    (void)nftnl_expr_set(e, NFTNL_EXPR_DYNSET_EXPR, count, 0); /* takes it */
}

static void
verdict(struct nftnl_rule *r, uint32_t what, const char *chain)
{
    struct nftnl_expr *e = add(r, "immediate");

    nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, what);
    if (chain)
        (void)nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, chain);
}

static void
accept_it(struct nftnl_rule *r)
{
    verdict(r, NF_ACCEPT, NULL);
}

static void
drop(struct nftnl_rule *r)
{
    (void)add(r, "counter");
    verdict(r, NF_DROP, NULL);
}

static void
refuse(struct nftnl_rule *r)
{
    (void)add(r, "counter");
    verdict(r, (uint32_t)NFT_GOTO, NFT_CHAIN_REFUSE);
}

static void
go_denied(struct nftnl_rule *r)
{
    verdict(r, (uint32_t)NFT_JUMP, NFT_CHAIN_DENIED);
}

static void
masquerade(struct nftnl_rule *r)
{
    (void)add(r, "masq");
}

static void
reject(struct nftnl_rule *r, uint32_t type, uint32_t code)
{
    struct nftnl_expr *e = add(r, "reject");

    nftnl_expr_set_u32(e, NFTNL_EXPR_REJECT_TYPE, type);
    nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, (uint8_t)code);
}

/* What a word stands for: one of these, with the arguments that it takes. */
static const struct {
    void (*plain)(struct nftnl_rule *r);
    void (*with)(struct nftnl_rule *r, uint32_t a, uint32_t b);
    uint32_t a, b;
} meanings[] = {
    [FROM_SANDBOX] = {NULL, match_link, NFT_META_IIFNAME, NFT_CMP_EQ},
    [TO_SANDBOX] = {NULL, match_link, NFT_META_OIFNAME, NFT_CMP_EQ},
    [NOT_TO_SANDBOX] = {NULL, match_link, NFT_META_OIFNAME, NFT_CMP_NEQ},
    [IS_V6] = {match_v6},
    [SPOOFED] = {match_spoofed},
    [OF_SANDBOX] = {match_sandboxes},
    [INVALID] = {NULL, match_state, NF_CT_STATE_INVALID_BIT},
    [ESTABLISHED] = {NULL, match_state, NF_CT_STATE_BIT(IP_CT_ESTABLISHED)},
    [ESTABLISHED_OR_RELATED] = {NULL, match_state, NF_CT_STATE_BIT(IP_CT_ESTABLISHED),
                                NF_CT_STATE_BIT(IP_CT_RELATED)},
    [TOO_MANY] = {match_too_many},
    [UDP_DNS] = {NULL, match_port, IPPROTO_UDP, 53},
    [TCP_DNS] = {NULL, match_port, IPPROTO_TCP, 53},
    [TCP] = {NULL, match_port, IPPROTO_TCP},
    [TCP_MAIL] = {NULL, match_port, IPPROTO_TCP, DENY_PORT},
    [TO_HOST] = {match_not_unicast},
    [ACCEPT] = {accept_it},
    [DROP] = {drop},
    [REFUSED] = {refuse},
    [RESET] = {NULL, reject, NFT_REJECT_TCP_RST},
    [UNREACHABLE] = {NULL, reject, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED},
    [GO_DENIED] = {go_denied},
    [MASQUERADE] = {masquerade},
};

void
nft_add_word(struct nftnl_rule *r, enum word w, const struct in_addr *resolver)
{
    if (w == TO_RESOLVER)
        match_v4(r, V4_DESTINATION, resolver->s_addr, 32);
    else if (meanings[w].plain)
        meanings[w].plain(r);
    else if (meanings[w].with)
        meanings[w].with(r, meanings[w].a, meanings[w].b);
}

void
nft_refuse_network(struct nftnl_rule *r, uint32_t network, int bits)
{
    match_v4(r, V4_DESTINATION, network, bits);
    refuse(r);
}
