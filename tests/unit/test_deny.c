/* SPDX-License-Identifier: MIT */
#include "support/doc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "keeper/deny.h"
#include "support/net_address.h"

static bool
denied(const char *text)
{
    struct sockaddr_storage a;
    socklen_t n = net_address(text, 443, &a);

    return deny_address((struct sockaddr *)&a, n);
}

static void
ends_of_every_range_are_denied_and_their_neighbours_are_not(void **state)
{
    static const char *const yes[] = {
        "0.0.0.0",         "0.255.255.255",   "10.0.0.0",        "10.255.255.255",
        "100.64.0.0",      "100.127.255.255", "127.0.0.1",       "127.255.255.255",
        "169.254.0.0",     "169.254.169.254", "169.254.255.255", "172.16.0.0",
        "172.31.255.255",  "192.0.0.0",       "192.0.0.255",     "192.0.2.1",
        "192.88.99.1",     "192.168.0.0",     "192.168.255.255", "198.18.0.0",
        "198.19.255.255",  "198.51.100.7",    "203.0.113.7",     "224.0.0.1",
        "239.255.255.255", "240.0.0.0",       "255.255.255.255", "192.31.196.1",
        "192.52.193.1",    "192.175.48.1"};
    static const char *const no[] = {
        "1.0.0.0",     "9.255.255.255",   "11.0.0.0",     "100.63.255.255",
        "100.128.0.0", "126.255.255.255", "128.0.0.0",    "169.253.255.255",
        "169.255.0.0", "172.15.255.255",  "172.32.0.0",   "192.0.1.0",
        "192.0.3.0",   "192.167.255.255", "192.169.0.0",  "198.17.255.255",
        "198.20.0.0",  "198.51.99.255",   "198.51.101.0", "203.0.112.255",
        "203.0.114.0", "223.255.255.255", "8.8.8.8"};

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!denied(yes[i]))
            fail_msg("%s is let through", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (denied(no[i]))
            fail_msg("%s is denied", no[i]);
}

static void
version_six_in_all_its_forms(void **state)
{
    static const char *const yes[] = {"::",
                                      "::1",
                                      "::2",
                                      "::10.0.0.1",
                                      "::8.8.8.8",
                                      "::ffff:127.0.0.1",
                                      "::ffff:169.254.169.254",
                                      "::ffff:10.1.2.3",
                                      "::ffff:0:8.8.8.8",
                                      "64:ff9b::7f00:1",
                                      "64:ff9b::169.254.169.254",
                                      "64:ff9b:1::8.8.8.8",
                                      "64:ff9b:1:ffff::1",
                                      "100::1",
                                      "100:0:0:1::1",
                                      "2001::1",
                                      "2001:0:ffff::1",
                                      "2001:2::1",
                                      "2001:10::1",
                                      "2001:1f:ffff::1",
                                      "2001:20::1",
                                      "2001:1ff::1",
                                      "2001:db8::1",
                                      "2001:db8:ffff::1",
                                      "2002::1",
                                      "2002:7f00:1::1",
                                      "2002:808:808::1",
                                      "3ffe::1",
                                      "3fff::1",
                                      "3fff:fff::1",
                                      "5f00::1",
                                      "fc00::1",
                                      "fdff::1",
                                      "fd00:ec2::254",
                                      "fe80::1",
                                      "febf::1",
                                      "fec0::1",
                                      "feff::1",
                                      "ff02::1",
                                      "ff0e::1",
                                      "4000::1",
                                      "8000::1",
                                      "1000::1",
                                      "e000::1"};
    static const char *const no[] = {"2000::1",        "2001:200::1",     "2001:4860::8888",
                                     "2001:db7::1",    "2001:db9::1",     "2003::1",
                                     "2606:4700::1",   "3ffd::1",         "3fff:1000::1",
                                     "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"};

    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!denied(yes[i]))
            fail_msg("%s is let through", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (denied(no[i]))
            fail_msg("%s is denied", no[i]);
}

static void
what_is_no_whole_address_is_denied(void **state)
{
    struct sockaddr_storage a;
    socklen_t n = net_address("8.8.8.8", 443, &a);

    (void)state;
    assert_false(deny_address((struct sockaddr *)&a, n));
    assert_true(deny_address((struct sockaddr *)&a, n - 1));
    assert_true(deny_address((struct sockaddr *)&a, 0));
    a.ss_family = AF_UNSPEC; /* which the kernel's UDP takes for IPv4 */
    assert_true(deny_address((struct sockaddr *)&a, n));
    a.ss_family = AF_UNIX;
    assert_true(deny_address((struct sockaddr *)&a, n));
    n = net_address("2606:4700::1", 443, &a);
    assert_false(deny_address((struct sockaddr *)&a, n));
    assert_true(deny_address((struct sockaddr *)&a, n - 4));
}

static void
mail_is_denied_everywhere(void **state)
{
    struct sockaddr_storage a;
    socklen_t n = net_address("8.8.8.8", 25, &a);

    (void)state;
    assert_true(deny_address((struct sockaddr *)&a, n));
    n = net_address("2606:4700::1", 25, &a);
    assert_true(deny_address((struct sockaddr *)&a, n));
    n = net_address("::ffff:8.8.8.8", 25, &a);
    assert_true(deny_address((struct sockaddr *)&a, n));
}

/* A bit of the prefix set beyond its length would never match or say something else. */
static void
every_row_is_well_formed(void **state)
{
    size_t n;
    const struct deny_row *rows = deny_rows(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        int width = rows[i].family == AF_INET ? 32 : 128;

        assert_true(rows[i].bits > 0 && rows[i].bits <= width);
        assert_true(rows[i].what[0] && rows[i].source[0]);
        for (int bit = rows[i].bits; bit < 128; bit++)
            assert_false(rows[i].prefix[bit / 8] & (0x80 >> bit % 8));
    }
}

#define BEGIN "<!-- denied: begin -->\n"
#define END "<!-- denied: end -->\n"

/* The table of the manual, with its marks. */
static void
write_table(struct buf *out)
{
    size_t n;
    const struct deny_row *rows = deny_rows(&n);

    (void)buf_puts(out, BEGIN "| addresses | what they are | by |\n|---|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        char text[DENY_TEXT_MAX];

        deny_text(&rows[i], text);
        (void)buf_printf(out, "| %s | %s%s | %s |\n", text, rows[i].what,
                         rows[i].verdict == DENY_AS_V4 ? ": judged as the IPv4 address in it" : "",
                         rows[i].source);
    }
    (void)buf_puts(out, END);
}

static void
the_manual_has_the_table(void **state)
{
    _cleanup_buf_ struct buf want = BUF_INIT(DOC_MAX);

    (void)state;
    write_table(&want);
    doc_has("isolation.md", buf_str(&want), "test_deny");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_every_range_are_denied_and_their_neighbours_are_not),
        cmocka_unit_test(version_six_in_all_its_forms),
        cmocka_unit_test(what_is_no_whole_address_is_denied),
        cmocka_unit_test(mail_is_denied_everywhere),
        cmocka_unit_test(every_row_is_well_formed),
        cmocka_unit_test(the_manual_has_the_table),
    };

    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        _cleanup_buf_ struct buf table = BUF_INIT(DOC_MAX);

        write_table(&table);
        (void)fputs(buf_str(&table), stdout);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
