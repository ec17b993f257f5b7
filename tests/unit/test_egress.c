/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "egress_fixture.h"
#include "keeper/egress.h"
#include "keeper/nft_watch.h"

/* Policy public by veth and nftables, in network namespaces of the test's own. */
static struct net_world world;
static struct keeper_options options = {
    .tier = TIER_HOST, .egress = EGRESS_PUBLIC, .egress_dns = NET_RESOLVER};
static pid_t one, two; /* sandboxes of slots 1 and 2; the second answers */

static int
set_up(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    if (egress_prepare(&options, &err) < 0)
        fail_msg("%s", err.msg);
    one = net_sandbox(false);
    two = net_sandbox(true);
    if (egress_attach(&options, 1, one, &err) < 0 || egress_attach(&options, 2, two, &err) < 0)
        fail_msg("%s", err.msg);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    egress_detach(&options, 1);
    egress_detach(&options, 2);
    net_kill(one);
    net_kill(two);
    return 0;
}

static void
the_internet_is_reached(void **state)
{
    (void)state;
    net_assert_reached(one, SOCK_STREAM, NET_PUBLIC, 80);
    net_assert_reached(one, SOCK_DGRAM, NET_PUBLIC, 80);
    net_assert_reached(two, SOCK_STREAM, NET_PUBLIC, 80);
}

static void
assert_refused(const char *address, uint16_t port)
{
    int tcp = net_try_patiently(one, SOCK_STREAM, address, port);
    int udp = net_try(one, SOCK_DGRAM, address, port);

    if (tcp == 0 || udp == 0)
        fail_msg("%s port %u was reached", address, port);
    /* at once, not by a time-out */
    if (tcp == ETIMEDOUT)
        fail_msg("%s port %u is refused by silence", address, port);
}

static void
nothing_private_is_reached(void **state)
{
    static const char *const addresses[] = {"10.9.0.10",   "10.9.0.53",      "169.254.169.254",
                                            "192.168.7.7", "100.64.9.9",     "172.16.0.1",
                                            "203.0.113.9", "198.18.0.1",     "192.0.2.1",
                                            "224.0.0.1",   "255.255.255.255"};

    (void)state;
    /* the world answers there: what refuses is the policy */
    net_assert_reached(world.host, SOCK_STREAM, "169.254.169.254", 80);
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        assert_refused(addresses[i], 80);
}

static void
the_host_itself_is_not_reached(void **state)
{
    (void)state;
    net_assert_reached(world.internet, SOCK_STREAM, NET_HOST, 80);
    assert_refused(NET_HOST, 80);
    assert_refused(NET_HOST, 53);
    assert_refused(NET_HOST_LAN, 80);
    assert_refused("100.127.255.254", 80);
    assert_refused("127.0.0.1", 80); /* its own, where nothing answers */
    /* an address the host was given after the table was made */
    net_run("ip addr add 93.184.216.2/24 dev ext");
    assert_refused("93.184.216.2", 80);
    net_run("ip addr del 93.184.216.2/24 dev ext");
}

static void
neighbours_do_not_reach_one_another(void **state)
{
    (void)state;
    net_assert_reached(two, SOCK_STREAM, "127.0.0.1", 80);
    assert_refused("100.127.0.2", 80);
}

static void
nobody_connects_to_a_sandbox(void **state)
{
    (void)state;
    net_run("nsenter --net=/proc/%d/ns/net ip route add 100.127.0.0/16 via " NET_HOST,
            (int)world.internet);
    assert_int_not_equal(net_try(world.internet, SOCK_STREAM, "100.127.0.2", 80), 0);
    net_run("nsenter --net=/proc/%d/ns/net ip route del 100.127.0.0/16", (int)world.internet);
}

static void
the_resolver_is_reached_at_its_port_only(void **state)
{
    (void)state;
    net_assert_reached(one, SOCK_DGRAM, NET_RESOLVER, 53);
    net_assert_reached(one, SOCK_STREAM, NET_RESOLVER, 53);
    assert_refused(NET_RESOLVER, 80);
    assert_refused("10.9.0.10", 53);
}

static void
a_resolver_on_the_host_is_reached(void **state)
{
    struct keeper_options o = options;

    (void)state;
    (void)snprintf(o.egress_dns, sizeof o.egress_dns, "%s", NET_HOST_LAN);
    assert_int_equal(egress_prepare(&o, NULL), 0);
    net_assert_reached(one, SOCK_DGRAM, NET_HOST_LAN, 53);
    assert_refused(NET_HOST_LAN, 80);
    assert_refused(NET_RESOLVER, 53);
    assert_int_equal(egress_prepare(&options, NULL), 0);
}

static void
mail_does_not_leave(void **state)
{
    (void)state;
    net_assert_reached(world.host, SOCK_STREAM, NET_PUBLIC, 25);
    assert_int_not_equal(net_try(one, SOCK_STREAM, NET_PUBLIC, 25), 0);
}

static void
another_source_address_gets_nowhere(void **state)
{
    (void)state;
    net_run("nsenter --net=/proc/%d/ns/net sh -ec 'ip addr add 100.127.0.2/32 dev eth0; "
            "ip route change default via 100.127.255.254 src 100.127.0.2'",
            (int)one);
    assert_int_not_equal(net_try(one, SOCK_STREAM, NET_PUBLIC, 80), 0);
    net_run("nsenter --net=/proc/%d/ns/net sh -ec "
            "'ip route change default via 100.127.255.254 src 100.127.0.1'",
            (int)one);
    net_assert_reached(one, SOCK_STREAM, NET_PUBLIC, 80);
}

static void
version_six_does_not_leave(void **state)
{
    (void)state;
    net_run("nsenter --net=/proc/%d/ns/net sh -ec "
            "'test $(cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6) = 1'",
            (int)one);
    /* not even when somebody inside could switch it on */
    net_run("nsenter --net=/proc/%d/ns/net sh -ec 'echo 0 >/proc/sys/net/ipv6/conf/eth0/"
            "disable_ipv6; ip addr add fd00::2/64 dev eth0 nodad; ip -6 route add default via "
            "fd00::1'",
            (int)one);
    net_run(
        "echo 0 >/proc/sys/net/ipv6/conf/husk1/disable_ipv6; "
        "ip addr add fd00::1/64 dev husk1 nodad; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding");
    assert_int_not_equal(net_try(one, SOCK_STREAM, "fd00::1", 80), 0);
    assert_int_not_equal(net_try(one, SOCK_STREAM, NET_HOST6, 80), 0);
    assert_int_not_equal(net_try(one, SOCK_STREAM, NET_PUBLIC6, 80), 0);
    net_run("echo 0 >/proc/sys/net/ipv6/conf/all/forwarding");
}

/* The host may translate public addresses into private ones (published ports of containers). */
static void
translated_addresses_are_looked_at_again(void **state)
{
    (void)state;
    net_run("nft 'add table ip t; add chain ip t p { type nat hook prerouting priority -100; }; "
            "add rule ip t p ip daddr 93.184.216.99 tcp dport 80 dnat to 10.9.0.10; "
            "add rule ip t p ip daddr " NET_HOST " tcp dport 80 dnat to " NET_PUBLIC "'");
    assert_int_not_equal(net_try(one, SOCK_STREAM, "93.184.216.99", 80), 0);
    assert_int_not_equal(net_try(one, SOCK_STREAM, NET_HOST, 80), 0);
    net_run("nft delete table ip t");
}

static void
others_traffic_is_let_alone(void **state)
{
    (void)state;
    pid_t other = net_sandbox(false);
    net_run("ip link add other type veth peer name eth0 netns %d && "
            "ip addr add 10.77.0.1/24 dev other && ip link set other up",
            (int)other);
    net_run("nsenter --net=/proc/%d/ns/net sh -ec 'ip addr add 10.77.0.2/24 dev eth0; "
            "ip link set eth0 up; ip route add default via 10.77.0.1'",
            (int)other);
    net_assert_reached(other, SOCK_STREAM, NET_HOST, 80);
    net_assert_reached(other, SOCK_STREAM, "10.9.0.10", 80);
    net_kill(other);
}

static void
a_new_keeper_replaces_the_table_and_leftover_links(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(egress_prepare(&options, &err), 0);
    assert_int_equal(egress_prepare(&options, &err), 0);
    net_run("test $(nft list table inet husk | grep -c 'chain denied') = 1");
    net_assert_reached(one, SOCK_STREAM, NET_PUBLIC, 80);
    /* slot 1 goes to another sandbox while the old one's link is still there */
    pid_t next = net_sandbox(false);
    assert_int_equal(egress_attach(&options, 1, next, &err), 0);
    net_assert_reached(next, SOCK_STREAM, NET_PUBLIC, 80);
    assert_int_not_equal(net_try(one, SOCK_STREAM, NET_PUBLIC, 80), 0);
    net_kill(next);
}

/* The host's own firewall is loaded again, or somebody edits our table. */
static void
a_table_that_others_changed_is_restored(void **state)
{
    static const char *const changes[] = {
        "nft flush ruleset",
        "nft flush chain inet husk input",
        "nft insert rule inet husk input accept",
        "nft delete table inet husk; nft add table inet husk",
    };
    int watch = egress_watch(&options, NULL);

    (void)state;
    assert_true(watch >= 0);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        assert_refused(NET_HOST, 80);
        net_run("%s", changes[i]);
        if (i == 0) /* without it nothing is held back; the other changes are to a part of it */
            net_assert_reached(one, SOCK_STREAM, NET_HOST, 80);
        assert_true(nft_watch_read(watch));
        egress_restore(&options);
        assert_true(nft_watch_read(watch)); /* our own doing, which calls for nothing more */
        egress_restore(&options);
        assert_false(nft_watch_read(watch));
    }
    assert_refused(NET_HOST, 80);
    net_assert_reached(one, SOCK_STREAM, NET_PUBLIC, 80);
    net_run("nft 'add table inet other; add chain inet other husk; "
            "add rule inet other husk accept; delete table inet other'");
    assert_false(nft_watch_read(watch));
    assert_int_equal(close(watch), 0);
}

static bool
only_two(void *ctx, int slot)
{
    (void)ctx;
    return slot == 2;
}

static void
links_of_nobody_are_swept(void **state)
{
    (void)state;
    net_run("ip link add husk-br0 type bridge; ip link add huskies type bridge");
    egress_sweep(&options, only_two, NULL);
    net_run("! ip link show husk1 2>/dev/null && ip link show husk2 >/dev/null && "
            "ip link show husk-br0 >/dev/null && ip link show huskies >/dev/null");
    net_run("ip link del husk-br0; ip link del huskies");
}

static void
the_last_slot_has_an_address_too(void **state)
{
    (void)state;
    pid_t last = net_sandbox(false);
    assert_int_equal(egress_attach(&options, SLOTS_MAX, last, NULL), 0);
    net_assert_reached(last, SOCK_STREAM, NET_PUBLIC, 80);
    egress_detach(&options, SLOTS_MAX);
    egress_detach(&options, SLOTS_MAX); /* gone already is fine */
    net_kill(last);
}

static void
a_sandbox_that_is_gone_leaves_nothing(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    pid_t gone = net_sandbox(false);
    net_kill(gone);
    assert_int_equal(egress_attach(&options, 3, gone, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    net_run("! ip link show husk3 2>/dev/null");
}

static void
what_is_missing_is_said(void **state)
{
    struct keeper_options o = options;
    struct err err = ERR_INIT;

    (void)state;
    net_run("echo 0 >/proc/sys/net/ipv4/ip_forward");
    assert_int_equal(egress_prepare(&o, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "sysctl -w net.ipv4.ip_forward=1"));
    net_run("echo 1 >/proc/sys/net/ipv4/ip_forward");
    (void)snprintf(o.egress_dns, sizeof o.egress_dns, "127.0.0.53");
    assert_int_equal(egress_prepare(&o, &err), -1);
    assert_non_null(strstr(err.msg, "loopback"));
    (void)snprintf(o.egress_dns, sizeof o.egress_dns, "2606:4700::1111");
    assert_int_equal(egress_prepare(&o, &err), -1);
    assert_non_null(strstr(err.msg, "IPv4"));
    (void)snprintf(o.egress_dns, sizeof o.egress_dns, "dns.example");
    assert_int_equal(egress_prepare(&o, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static void
other_policies_need_nothing(void **state)
{
    struct keeper_options o = {.tier = TIER_HOST, .egress = EGRESS_NONE};

    (void)state;
    assert_int_equal(egress_prepare(&o, NULL), 0);
    assert_int_equal(egress_attach(&o, 9, getpid(), NULL), 0);
    net_run("! ip link show husk9 2>/dev/null");
}

int
main(void)
{
#define WITH_SANDBOXES(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SANDBOXES(the_internet_is_reached),
        WITH_SANDBOXES(nothing_private_is_reached),
        WITH_SANDBOXES(the_host_itself_is_not_reached),
        WITH_SANDBOXES(neighbours_do_not_reach_one_another),
        WITH_SANDBOXES(nobody_connects_to_a_sandbox),
        WITH_SANDBOXES(the_resolver_is_reached_at_its_port_only),
        WITH_SANDBOXES(a_resolver_on_the_host_is_reached),
        WITH_SANDBOXES(mail_does_not_leave),
        WITH_SANDBOXES(another_source_address_gets_nowhere),
        WITH_SANDBOXES(version_six_does_not_leave),
        WITH_SANDBOXES(translated_addresses_are_looked_at_again),
        WITH_SANDBOXES(others_traffic_is_let_alone),
        WITH_SANDBOXES(a_new_keeper_replaces_the_table_and_leftover_links),
        WITH_SANDBOXES(a_table_that_others_changed_is_restored),
        WITH_SANDBOXES(links_of_nobody_are_swept),
        WITH_SANDBOXES(the_last_slot_has_an_address_too),
        WITH_SANDBOXES(a_sandbox_that_is_gone_leaves_nothing),
        WITH_SANDBOXES(what_is_missing_is_said),
        WITH_SANDBOXES(other_policies_need_nothing),
    };

    int status = net_world_make(&world);
    if (status == 0)
        status = cmocka_run_group_tests(tests, NULL, NULL) != 0;
    net_world_end(&world);
    return status;
}
