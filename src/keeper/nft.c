/* SPDX-License-Identifier: MIT */
#include "keeper/nft.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "keeper/deny.h"
#include "keeper/netlink.h"
#include "keeper/nft_watch.h"
#include "keeper/nft_words.h"

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
    [DENIED] = {NFT_CHAIN_DENIED, NULL, 0, 0},
    [REFUSE] = {NFT_CHAIN_REFUSE, NULL, 0, 0},
};

#define COUNTS_MAX 65535
#define TYPE_IFINDEX 20 /* what nft(8) shows it as */

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
    (void)nftnl_set_set_str(s, NFTNL_SET_NAME, NFT_COUNTS);
    nftnl_set_set_u32(s, NFTNL_SET_FAMILY, NFPROTO_INET);
    nftnl_set_set_u32(s, NFTNL_SET_ID, NFT_COUNTS_ID);
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
            nft_add_word(r, rule->words[w], resolver);
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
        nft_refuse_network(r, network, rows[i].bits);
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
