/* SPDX-License-Identifier: MIT */
#include "keeper/veth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"
#include "keeper/keeper.h"
#include "keeper/netlink.h"

#define INSIDE "eth0"
#define HARDWARE_SIZE 6

/* Locally administered: of either end, with the address inside. */
enum end { END_HOST, END_INSIDE };

static void
hardware_address(enum end end, uint32_t inside, uint8_t ret[HARDWARE_SIZE])
{
    const uint32_t n = htonl(inside);

    ret[0] = 0x02;
    ret[1] = (uint8_t)end;
    memcpy(ret + 2, &n, sizeof n);
}

static void
link_name(int slot, char out[IFNAMSIZ])
{
    (void)snprintf(out, IFNAMSIZ, VETH_PREFIX "%d", slot);
}

static struct nlmsghdr *
begin_link(struct netlink *n, char *buf, uint16_t type, uint16_t flags, const char *name)
{
    void *extra;
    struct nlmsghdr *m =
        netlink_begin(n, buf, type, NLM_F_ACK | flags, sizeof(struct ifinfomsg), &extra);
    struct ifinfomsg *i = extra;

    if (type == RTM_NEWLINK)
        i->ifi_flags = i->ifi_change = IFF_UP | IFF_NOARP;
    mnl_attr_put_strz(m, IFLA_IFNAME, name);
    return m;
}

static int
remove_link(struct netlink *n, const char *name)
{
    NETLINK_BUFFER(buf);

    return netlink_ask(n, begin_link(n, buf, RTM_DELLINK, 0, name), NULL, NULL);
}

static int
make_pair(struct netlink *n, const char *name, uint32_t inside, int ns)
{
    NETLINK_BUFFER(buf);
    uint8_t here[HARDWARE_SIZE], there[HARDWARE_SIZE];
    struct nlmsghdr *m = begin_link(n, buf, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, name);

    hardware_address(END_HOST, inside, here);
    hardware_address(END_INSIDE, inside, there);
    mnl_attr_put(m, IFLA_ADDRESS, sizeof here, here);
    struct nlattr *info = mnl_attr_nest_start(m, IFLA_LINKINFO);

    mnl_attr_put_strz(m, IFLA_INFO_KIND, "veth");
    struct nlattr *data = mnl_attr_nest_start(m, IFLA_INFO_DATA);
    struct nlattr *peer = mnl_attr_nest_start(m, VETH_INFO_PEER);
    /* its flags say nothing: it cannot be up before its other end is there */
    (void)mnl_nlmsg_put_extra_header(m, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(m, IFLA_IFNAME, INSIDE);
    mnl_attr_put(m, IFLA_ADDRESS, sizeof there, there);
    mnl_attr_put_u32(m, IFLA_NET_NS_FD, (uint32_t)ns);
    mnl_attr_nest_end(m, peer);
    mnl_attr_nest_end(m, data);
    mnl_attr_nest_end(m, info);
    return netlink_ask(n, m, NULL, NULL);
}

static void
see_index(const struct nlmsghdr *m, void *ctx)
{
    const struct ifinfomsg *i = mnl_nlmsg_get_payload(m);

    if (m->nlmsg_type == RTM_NEWLINK)
        *(int *)ctx = i->ifi_index;
}

/* By netlink, not if_nametoindex(): the socket may be of another namespace than ourselves. */
static int
link_index(struct netlink *n, const char *name)
{
    NETLINK_BUFFER(buf);
    int index = 0;

    if (netlink_ask(n, begin_link(n, buf, RTM_GETLINK, 0, name), see_index, &index) < 0)
        return -1;
    return index;
}

static int
add_address(struct netlink *n, int index, uint32_t own, uint32_t peer)
{
    NETLINK_BUFFER(buf);
    void *extra;
    struct nlmsghdr *m = netlink_begin(n, buf, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE,
                                       sizeof(struct ifaddrmsg), &extra);
    struct ifaddrmsg *a = extra;

    a->ifa_family = AF_INET;
    a->ifa_prefixlen = 32;
    a->ifa_scope = RT_SCOPE_UNIVERSE;
    a->ifa_index = (unsigned)index;
    mnl_attr_put_u32(m, IFA_LOCAL, htonl(own));
    mnl_attr_put_u32(m, IFA_ADDRESS, htonl(peer));
    return netlink_ask(n, m, NULL, NULL);
}

/* Where the other end is, for good. */
static int
add_neighbour(struct netlink *n, int index, uint32_t address, enum end end, uint32_t inside)
{
    NETLINK_BUFFER(buf);
    uint8_t hardware[HARDWARE_SIZE];
    void *extra;
    struct nlmsghdr *m =
        netlink_begin(n, buf, RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE, sizeof(struct ndmsg), &extra);
    struct ndmsg *d = extra;

    d->ndm_family = AF_INET;
    d->ndm_ifindex = index;
    d->ndm_state = NUD_PERMANENT;
    hardware_address(end, inside, hardware);
    mnl_attr_put_u32(m, NDA_DST, htonl(address));
    mnl_attr_put(m, NDA_LLADDR, sizeof hardware, hardware);
    return netlink_ask(n, m, NULL, NULL);
}

static int
add_default_route(struct netlink *n, int index)
{
    NETLINK_BUFFER(buf);
    void *extra;
    struct nlmsghdr *m =
        netlink_begin(n, buf, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE, sizeof(struct rtmsg), &extra);
    struct rtmsg *r = extra;

    r->rtm_family = AF_INET;
    r->rtm_table = RT_TABLE_MAIN;
    r->rtm_protocol = RTPROT_STATIC;
    r->rtm_scope = RT_SCOPE_UNIVERSE;
    r->rtm_type = RTN_UNICAST;
    mnl_attr_put_u32(m, RTA_GATEWAY, htonl(VETH_GATEWAY));
    mnl_attr_put_u32(m, RTA_OIF, (uint32_t)index);
    return netlink_ask(n, m, NULL, NULL);
}

/* /proc/sys/net shows the namespace of the process that looks. A kernel without IPv6 has no such
 * file; the table drops what is not IPv4 anyway. */
static void
switch_v6_off(const char *name)
{
    char path[96];

    (void)snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)fd_write_all(fd, "1", 1);
}

/* A netlink socket that stays in the sandbox's network namespace. The calling process is there for
 * the moment of opening it; one that cannot come back must not go on. */
static int
open_inside(struct netlink *ret, int ns, struct err *err)
{
    _cleanup_close_ int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (home < 0 || setns(ns, CLONE_NEWNET) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "network namespace of the sandbox");
    int status = netlink_open(ret, NETLINK_ROUTE, err);
    switch_v6_off(INSIDE);
    if (setns(home, CLONE_NEWNET) < 0)
        abort();
    return status;
}

static int
set_up_host_end(struct netlink *n, const char *name, uint32_t inside)
{
    int index = link_index(n, name);

    switch_v6_off(name);
    if (index < 0 || add_address(n, index, VETH_GATEWAY, inside) < 0)
        return -1;
    return add_neighbour(n, index, inside, END_INSIDE, inside);
}

static int
set_up_inside(struct netlink *n, uint32_t inside)
{
    NETLINK_BUFFER(buf);
    int index = link_index(n, INSIDE);

    if (index < 0 || netlink_ask(n, begin_link(n, buf, RTM_NEWLINK, 0, INSIDE), NULL, NULL) < 0)
        return -1;
    if (add_address(n, index, inside, VETH_GATEWAY) < 0 ||
        add_neighbour(n, index, VETH_GATEWAY, END_HOST, inside) < 0)
        return -1;
    return add_default_route(n, index);
}

int
veth_make(int slot, pid_t init, struct err *err)
{
    struct netlink here = {0}, there = {0};
    char name[IFNAMSIZ], path[48];
    uint32_t inside = VETH_NETWORK + (uint32_t)slot;

    link_name(slot, name);
    (void)snprintf(path, sizeof path, "/proc/%d/ns/net", (int)init);
    _cleanup_close_ int ns = open(path, O_RDONLY | O_CLOEXEC);
    if (ns < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "%s", path);
    if (netlink_open(&here, NETLINK_ROUTE, err) < 0)
        return -1;
    int status = make_pair(&here, name, inside, ns);
    if (status < 0 && errno == EEXIST && remove_link(&here, name) == 0)
        status = make_pair(&here, name, inside, ns);
    if (status < 0) {
        (void)err_sys(err, ERR_UNAVAILABLE, errno, "link %s", name);
        netlink_close(&here);
        return -1;
    }
    status = open_inside(&there, ns, err);
    if (status == 0 &&
        (set_up_host_end(&here, name, inside) < 0 || set_up_inside(&there, inside) < 0))
        status = err_sys(err, ERR_UNAVAILABLE, errno, "addresses of link %s", name);
    if (status < 0)
        (void)remove_link(&here, name);
    netlink_close(&there);
    netlink_close(&here);
    return status;
}

void
veth_remove(int slot)
{
    struct netlink n = {0};
    char name[IFNAMSIZ];

    link_name(slot, name);
    if (netlink_open(&n, NETLINK_ROUTE, NULL) < 0)
        return;
    (void)remove_link(&n, name);
    netlink_close(&n);
}

#define SWEEP_MAX 4096 /* links of ours looked at in one sweep */

struct found {
    int slots[SWEEP_MAX];
    size_t n;
};

static void
see_link(const struct nlmsghdr *m, void *ctx)
{
    struct found *f = ctx;
    const struct nlattr *a;
    size_t prefix = sizeof VETH_PREFIX - 1;
    uint64_t slot;

    if (m->nlmsg_type != RTM_NEWLINK)
        return;
    mnl_attr_for_each(a, m, sizeof(struct ifinfomsg))
    {
        const char *name = mnl_attr_get_payload(a);

        if (mnl_attr_get_type(a) == IFLA_IFNAME && f->n < SWEEP_MAX &&
            strncmp(name, VETH_PREFIX, prefix) == 0 &&
            num_u64(name + prefix, strlen(name + prefix), SLOTS_MAX, &slot))
            f->slots[f->n++] = (int)slot;
    }
}

void
veth_sweep(bool (*taken)(void *ctx, int slot), void *ctx)
{
    struct netlink n = {0};
    NETLINK_BUFFER(buf);
    char name[IFNAMSIZ];
    void *extra;

    if (netlink_open(&n, NETLINK_ROUTE, NULL) < 0)
        return;
    _cleanup_free_ struct found *f = xcalloc(1, sizeof *f);
    struct nlmsghdr *m =
        netlink_begin(&n, buf, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg), &extra);
    if (netlink_ask(&n, m, see_link, f) == 0)
        for (size_t i = 0; i < f->n; i++) {
            link_name(f->slots[i], name);
            if (!taken(ctx, f->slots[i]))
                (void)remove_link(&n, name);
        }
    netlink_close(&n);
}
