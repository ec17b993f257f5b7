/* SPDX-License-Identifier: MIT */
#include "keeper/egress.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "keeper/box.h"
#include "keeper/nft.h"
#include "keeper/nft_watch.h"
#include "keeper/notify.h"
#include "keeper/veth.h"

static bool
by_veth(const struct keeper_options *o)
{
    return o->egress == EGRESS_PUBLIC && o->tier == TIER_HOST;
}

/* The keeper does not switch it on itself: it turns the whole machine into a router. */
static int
check_forwarding(struct err *err)
{
    static const char path[] = "/proc/sys/net/ipv4/ip_forward";
    struct buf b = BUF_INIT(64);
    int status = fd_read_file(path, &b, err);

    if (status == 0 && strncmp(buf_str(&b), "0", 1) == 0)
        status = err_set(err, ERR_UNAVAILABLE,
                         "egress public needs net.ipv4.ip_forward=1, which is off "
                         "(sysctl -w net.ipv4.ip_forward=1, and in /etc/sysctl.d to stay so)");
    buf_done(&b);
    return status;
}

static int
prepare_veth(const struct keeper_options *o, struct err *err)
{
    struct in_addr resolver;
    struct in6_addr v6;

    if (o->egress_dns[0] && inet_pton(AF_INET, o->egress_dns, &resolver) != 1) {
        if (inet_pton(AF_INET6, o->egress_dns, &v6) == 1)
            return err_set(err, ERR_UNAVAILABLE,
                           "the resolver %s is an IPv6 address, and sandboxes on a host have IPv4 "
                           "only: name one with an IPv4 address",
                           o->egress_dns);
        return err_set(err, ERR_INVALID, "the resolver %s is no address", o->egress_dns);
    }
    if (o->egress_dns[0] && (ntohl(resolver.s_addr) >> 24) == IN_LOOPBACKNET)
        return err_set(err, ERR_UNAVAILABLE,
                       "the resolver %s is a loopback address, which in a sandbox is the sandbox's "
                       "own: name one that can be reached from another machine",
                       o->egress_dns);
    if (check_forwarding(err) < 0)
        return -1;
    return nft_install(o->egress_dns[0] ? &resolver : NULL, err);
}

int
egress_prepare(const struct keeper_options *o, struct err *err)
{
    if (by_veth(o))
        return prepare_veth(o, err);
    if (box_is_supervised(o))
        return notify_prepare(o, err);
    return 0;
}

int
egress_watch(const struct keeper_options *o, struct err *err)
{
    return by_veth(o) ? nft_watch_open(err) : -1;
}

bool
egress_changed(int watch_fd)
{
    return nft_watch_read(watch_fd);
}

void
egress_restore(const struct keeper_options *o)
{
    struct err err = ERR_INIT;
    struct in_addr resolver;

    if (!by_veth(o))
        return;
    const struct in_addr *r = inet_pton(AF_INET, o->egress_dns, &resolver) == 1 ? &resolver : NULL;
    int whole = nft_is_whole(r, &err);
    if (whole == 1)
        return;
    if (whole == 0 && nft_install(r, &err) == 0)
        log_warning("nftables table inet " NFT_TABLE " was changed or removed by others, which "
                    "held nothing back; it is restored");
    else
        log_error("sandboxes may reach what they must not: %s", err.msg);
}

int
egress_attach(const struct keeper_options *o, int slot, pid_t init, struct err *err)
{
    return by_veth(o) ? veth_make(slot, init, err) : 0;
}

void
egress_detach(const struct keeper_options *o, int slot)
{
    if (by_veth(o))
        veth_remove(slot);
}

/* Also when the policy is another by now: sandboxes with links may still live, others may not. */
void
egress_sweep(const struct keeper_options *o, bool (*taken)(void *ctx, int slot), void *ctx)
{
    if (o->tier == TIER_HOST)
        veth_sweep(taken, ctx);
}

pid_t
egress_supervise(const struct keeper_options *o, uid_t uid, const char *home, int notify_fd,
                 struct err *err)
{
    return notify_supervise(o, uid, home, notify_fd, err);
}
