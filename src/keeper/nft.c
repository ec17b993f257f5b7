/* SPDX-License-Identifier: MIT */
#include "keeper/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "keeper/deny.h"
#include "keeper/netlink.h"
#include "keeper/nft_watch.h"
#include "keeper/veth.h"

/*
 * Where a packet of a sandbox is looked at: in `first`, before any address translation of the
 * host's (which could turn a public address into a private one) and before it is routed; again in
 * `forward`, on the address that came out of it; and `input` lets nothing reach the host itself.
 * IPv6 does not leave a sandbox.  Of connections that stand only the direction is looked at.
 */
enum chain_id { FIRST, INPUT, FORWARD, NAT, DENIED, REFUSE, CHAINS };

static const struct {
    const char *name, *type; /* type NULL: no base chain */
    uint32_t hook;
    int32_t priority;
} CHAIN[CHAINS] = {
    [FIRST] = {"first", "filter", NF_INET_PRE_ROUTING, -150},
    [INPUT] = {"input", "filter", NF_INET_LOCAL_IN, 0},
    [FORWARD] = {"forward", "filter", NF_INET_FORWARD, 0},
    [NAT] = {"nat", "nat", NF_INET_POST_ROUTING, 100},
    [DENIED] = {"denied", NULL, 0, 0},
    [REFUSE] = {"refuse", NULL, 0, 0},
};

/* How many connections stand, by the link of each sandbox: the machine's table of them has room for
 * some hundred thousand, and none for anybody else when it is full. */
#define COUNTS "connections"
#define COUNTS_ID 1
#define COUNTS_MAX 65535
#define CONNECTIONS_MAX 4096 /* of one sandbox */
#define TYPE_IFINDEX 20      /* what nft(8) shows it as */

/* The words of a rule, each one or a few expressions of the kernel's. */
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

#define WORDS_MAX 6

struct rule {
    enum chain_id chain;
    enum word words[WORDS_MAX];
    const char *comment;
};

static const struct rule RULES[] = {
    {FIRST, {FROM_SANDBOX, IS_V6, DROP}, "IPv4 only"},
    {FIRST, {FROM_SANDBOX, SPOOFED, DROP}, "not its own address"},
    {FIRST, {FROM_SANDBOX, INVALID, DROP}, "part of no connection"},
    {FIRST, {FROM_SANDBOX, ESTABLISHED, ACCEPT}, NULL},
    {FIRST, {FROM_SANDBOX, TOO_MANY, REFUSED}, "too many connections"},
    {FIRST, {FROM_SANDBOX, TO_RESOLVER, UDP_DNS, ACCEPT}, "the resolver"},
    {FIRST, {FROM_SANDBOX, TO_RESOLVER, TCP_DNS, ACCEPT}, "the resolver"},
    {FIRST, {FROM_SANDBOX, TO_HOST, REFUSED}, "the host itself"},
    {FIRST, {FROM_SANDBOX, TCP_MAIL, REFUSED}, "mail"},
    {FIRST, {FROM_SANDBOX, GO_DENIED}, NULL},
    {INPUT, {FROM_SANDBOX, ESTABLISHED, ACCEPT}, NULL},
    {INPUT, {FROM_SANDBOX, TO_RESOLVER, UDP_DNS, ACCEPT}, "the resolver"},
    {INPUT, {FROM_SANDBOX, TO_RESOLVER, TCP_DNS, ACCEPT}, "the resolver"},
    {INPUT, {FROM_SANDBOX, REFUSED}, "the host itself"},
    {FORWARD, {TO_SANDBOX, ESTABLISHED_OR_RELATED, ACCEPT}, NULL},
    {FORWARD, {TO_SANDBOX, REFUSED}, "nobody connects to a sandbox, no sibling either"},
    {FORWARD, {FROM_SANDBOX, ESTABLISHED, ACCEPT}, NULL},
    {FORWARD, {FROM_SANDBOX, TO_RESOLVER, UDP_DNS, ACCEPT}, "the resolver"},
    {FORWARD, {FROM_SANDBOX, TO_RESOLVER, TCP_DNS, ACCEPT}, "the resolver"},
    {FORWARD, {FROM_SANDBOX, GO_DENIED}, NULL},
    /* the kernel sends few unreachables a second to one place, and as many resets as are due */
    {REFUSE, {TCP, RESET}, NULL},
    {REFUSE, {UNREACHABLE}, NULL},
    {NAT, {OF_SANDBOX, NOT_TO_SANDBOX, MASQUERADE}, NULL},
};

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
match_state(struct nftnl_rule *r, uint32_t states)
{
    static const uint32_t zero;
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
match_protocol(struct nftnl_rule *r, uint8_t protocol)
{
    load_meta(r, NFT_META_L4PROTO);
    compare(r, NFT_CMP_EQ, &protocol, sizeof protocol);
}

static void
match_port(struct nftnl_rule *r, uint8_t protocol, uint16_t port)
{
    uint16_t n = htons(port);

    match_protocol(r, protocol);
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
    (void)nftnl_expr_set_str(e, NFTNL_EXPR_DYNSET_SET_NAME, COUNTS);
    nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SET_ID, COUNTS_ID);
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
refuse(struct nftnl_rule *r)
{
    (void)add(r, "counter");
    verdict(r, (uint32_t)NFT_GOTO, CHAIN[REFUSE].name);
}

static void
reject(struct nftnl_rule *r, uint32_t type, uint8_t code)
{
    struct nftnl_expr *e = add(r, "reject");

    nftnl_expr_set_u32(e, NFTNL_EXPR_REJECT_TYPE, type);
    nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, code);
}

static void
add_word(struct nftnl_rule *r, enum word w, const struct in_addr *resolver)
{
    static const uint8_t v6 = NFPROTO_IPV6;

    switch (w) {
    case FROM_SANDBOX:
        match_link(r, NFT_META_IIFNAME, NFT_CMP_EQ);
        break;
    case TO_SANDBOX:
        match_link(r, NFT_META_OIFNAME, NFT_CMP_EQ);
        break;
    case NOT_TO_SANDBOX:
        match_link(r, NFT_META_OIFNAME, NFT_CMP_NEQ);
        break;
    case IS_V6:
        load_meta(r, NFT_META_NFPROTO);
        compare(r, NFT_CMP_EQ, &v6, sizeof v6);
        break;
    case SPOOFED:
        match_spoofed(r);
        break;
    case OF_SANDBOX:
        match_v4(r, V4_SOURCE, htonl(VETH_NETWORK), VETH_NETWORK_BITS);
        break;
    case INVALID:
        match_state(r, NF_CT_STATE_INVALID_BIT);
        break;
    case ESTABLISHED:
        match_state(r, NF_CT_STATE_BIT(IP_CT_ESTABLISHED));
        break;
    case ESTABLISHED_OR_RELATED:
        match_state(r, NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED));
        break;
    case TOO_MANY:
        match_too_many(r);
        break;
    case TO_RESOLVER:
        match_v4(r, V4_DESTINATION, resolver->s_addr, 32);
        break;
    case UDP_DNS:
        match_port(r, IPPROTO_UDP, 53);
        break;
    case TCP_DNS:
        match_port(r, IPPROTO_TCP, 53);
        break;
    case TCP:
        match_protocol(r, IPPROTO_TCP);
        break;
    case TCP_MAIL:
        match_port(r, IPPROTO_TCP, DENY_PORT);
        break;
    case TO_HOST:
        match_not_unicast(r);
        break;
    case ACCEPT:
        verdict(r, NF_ACCEPT, NULL);
        break;
    case DROP:
        (void)add(r, "counter");
        verdict(r, NF_DROP, NULL);
        break;
    case REFUSED:
        refuse(r);
        break;
    case RESET:
        reject(r, NFT_REJECT_TCP_RST, 0);
        break;
    case UNREACHABLE:
        reject(r, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
        break;
    case GO_DENIED:
        verdict(r, (uint32_t)NFT_JUMP, CHAIN[DENIED].name);
        break;
    case MASQUERADE:
        (void)add(r, "masq");
        break;
    case END:
        break;
    }
}

/* One transaction as it grows. */
struct batch {
    struct netlink *netlink;
    struct buf bytes;
    unsigned acks;
};

#define BATCH_MAX (256 * 1024)

static struct nlmsghdr *
begin(struct batch *b, char *buf, uint16_t type, uint16_t flags)
{
    return nftnl_nlmsg_build_hdr(buf, type, NFPROTO_INET, NLM_F_ACK | flags, ++b->netlink->seq);
}

static void
commit(struct batch *b, const struct nlmsghdr *m)
{
    (void)buf_append(&b->bytes, m, m->nlmsg_len);
    if (m->nlmsg_flags & NLM_F_ACK)
        b->acks++;
}

static void
put_table(struct batch *b, uint16_t type, uint16_t flags)
{
    NETLINK_BUFFER(buf);
    struct nftnl_table *t = nftnl_table_alloc();

    if (!t)
        abort();
    (void)nftnl_table_set_str(t, NFTNL_TABLE_NAME, NFT_TABLE);
    struct nlmsghdr *m = begin(b, buf, type, flags);
    nftnl_table_nlmsg_build_payload(m, t);
    nftnl_table_free(t);
    commit(b, m);
}

static void
put_counts(struct batch *b)
{
    NETLINK_BUFFER(buf);
    struct nftnl_set *s = nftnl_set_alloc();

    if (!s)
        abort();
    (void)nftnl_set_set_str(s, NFTNL_SET_TABLE, NFT_TABLE);
    (void)nftnl_set_set_str(s, NFTNL_SET_NAME, COUNTS);
    nftnl_set_set_u32(s, NFTNL_SET_FAMILY, NFPROTO_INET);
    nftnl_set_set_u32(s, NFTNL_SET_ID, COUNTS_ID);
    nftnl_set_set_u32(s, NFTNL_SET_FLAGS, NFT_SET_EVAL);
    nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, TYPE_IFINDEX);
    nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, sizeof(uint32_t));
    nftnl_set_set_u32(s, NFTNL_SET_DESC_SIZE, COUNTS_MAX);
    struct nlmsghdr *m = begin(b, buf, NFT_MSG_NEWSET, NLM_F_CREATE);
    nftnl_set_nlmsg_build_payload(m, s);
    nftnl_set_free(s);
    commit(b, m);
}

static void
put_chain(struct batch *b, enum chain_id id)
{
    NETLINK_BUFFER(buf);
    struct nftnl_chain *c = nftnl_chain_alloc();

    if (!c)
        abort();
    (void)nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, NFT_TABLE);
    (void)nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, CHAIN[id].name);
    if (CHAIN[id].type) {
        (void)nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, CHAIN[id].type);
        nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, CHAIN[id].hook);
        nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, CHAIN[id].priority);
        nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);
    }
    struct nlmsghdr *m = begin(b, buf, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    nftnl_chain_nlmsg_build_payload(m, c);
    nftnl_chain_free(c);
    commit(b, m);
}

static struct nftnl_rule *
new_rule(enum chain_id id, const char *comment)
{
    struct nftnl_rule *r = nftnl_rule_alloc();

    if (!r)
        abort();
    (void)nftnl_rule_set_str(r, NFTNL_RULE_TABLE, NFT_TABLE);
    (void)nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, CHAIN[id].name);
    nftnl_rule_set_u32(r, NFTNL_RULE_FAMILY, NFPROTO_INET);
    if (comment) {
        struct nftnl_udata_buf *u = nftnl_udata_buf_alloc(NFT_USERDATA_MAXLEN);

        if (!u)
            abort();
        (void)nftnl_udata_put_strz(u, NFTNL_UDATA_RULE_COMMENT, comment);
        (void)nftnl_rule_set_data(r, NFTNL_RULE_USERDATA, nftnl_udata_buf_data(u),
                                  nftnl_udata_buf_len(u));
        nftnl_udata_buf_free(u);
    }
    return r;
}

/* Takes the rule. */
static void
put_rule(struct batch *b, struct nftnl_rule *r)
{
    NETLINK_BUFFER(buf);
    struct nlmsghdr *m = begin(b, buf, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);

    nftnl_rule_nlmsg_build_payload(m, r);
    nftnl_rule_free(r);
    commit(b, m);
}

static bool
about_resolver(const struct rule *rule)
{
    for (size_t w = 0; w < WORDS_MAX; w++)
        if (rule->words[w] == TO_RESOLVER)
            return true;
    return false;
}

static void
put_rules(struct batch *b, const struct in_addr *resolver)
{
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        const struct rule *rule = &RULES[i];

        if (about_resolver(rule) && !resolver)
            continue;
        struct nftnl_rule *r = new_rule(rule->chain, rule->comment);
        for (size_t w = 0; w < WORDS_MAX && rule->words[w] != END; w++)
            add_word(r, rule->words[w], resolver);
        put_rule(b, r);
    }
}

/* The table of denied addresses, a rule with a counter of its own for each. */
static void
put_denied(struct batch *b)
{
    size_t n;
    const struct deny_row *rows = deny_rows(&n);

    for (size_t i = 0; i < n; i++) {
        uint32_t network;

        if (rows[i].family != AF_INET)
            continue;
        memcpy(&network, rows[i].prefix, sizeof network);
        struct nftnl_rule *r = new_rule(DENIED, rows[i].what);
        match_v4(r, V4_DESTINATION, network, rows[i].bits);
        refuse(r);
        put_rule(b, r);
    }
}

int
nft_install(const struct in_addr *resolver, struct err *err)
{
    struct netlink n = {0};
    struct batch b = {.netlink = &n, .bytes = BUF_INIT(BATCH_MAX)};
    NETLINK_BUFFER(buf);

    if (netlink_open(&n, NETLINK_NETFILTER, err) < 0)
        return -1;
    commit(&b, nftnl_batch_begin(buf, ++n.seq));
    /* made if it is not there, so that removing it cannot fail */
    put_table(&b, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    put_table(&b, NFT_MSG_DELTABLE, 0);
    put_table(&b, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    put_counts(&b);
    for (int id = 0; id < CHAINS; id++)
        put_chain(&b, id);
    put_rules(&b, resolver);
    put_denied(&b);
    commit(&b, nftnl_batch_end(buf, ++n.seq));
    int status = buf_check(&b.bytes, "nftables transaction", err);
    if (status == 0 && netlink_batch(&n, b.bytes.data, b.bytes.len, b.acks) < 0)
        status = err_sys(err, ERR_UNAVAILABLE, errno,
                         "nftables table inet " NFT_TABLE " (kernel modules nf_tables, nft_reject, "
                         "nft_fib_inet, nft_ct, nft_connlimit, nft_masq; CAP_NET_ADMIN)");
    buf_done(&b.bytes);
    netlink_close(&n);
    return status;
}

static unsigned
rules_due(const struct in_addr *resolver)
{
    size_t n;
    unsigned due = 0;
    const struct deny_row *rows = deny_rows(&n);

    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        due += resolver || !about_resolver(&RULES[i]);
    for (size_t i = 0; i < n; i++)
        due += rows[i].family == AF_INET;
    return due;
}

static void
count_rule(const struct nlmsghdr *m, void *ctx)
{
    unsigned *there = ctx;

    if (nft_is_ours(m))
        ++*there;
}

int
nft_is_whole(const struct in_addr *resolver, struct err *err)
{
    struct netlink n = {0};
    NETLINK_BUFFER(buf);
    unsigned there = 0;

    if (netlink_open(&n, NETLINK_NETFILTER, err) < 0)
        return -1;
    struct nlmsghdr *m =
        nftnl_nlmsg_build_hdr(buf, NFT_MSG_GETRULE, NFPROTO_INET, NLM_F_DUMP, ++n.seq);
    int status = netlink_ask(&n, m, count_rule, &there);
    if (status < 0)
        (void)err_sys(err, ERR_UNAVAILABLE, errno, "nftables table inet " NFT_TABLE);
    netlink_close(&n);
    return status < 0 ? -1 : there == rules_due(resolver);
}
