/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "launch/connection.h"

#define PORTS                                                                                      \
    "\"shell_port\": 1, \"iopub_port\": 2, \"stdin_port\": 3, \"control_port\": 4, \"hb_port\": 5"
#define REST                                                                                       \
    "\"ip\": \"/run/k/kernel-1-ipc\", \"transport\": \"ipc\", \"signature_scheme\": "              \
    "\"hmac-sha256\", \"key\": \"a-b\", \"kernel_name\": \"py\""

static int
parse(const char *text, struct connection *c, struct err *err)
{
    return connection_parse(text, strlen(text), c, err);
}

static void
t_a_file_of_the_gateway_is_read_and_written_anew(void **state)
{
    struct connection c, again;
    struct err err = ERR_INIT;
    struct buf out = BUF_INIT(4096);
    char path[108];
    (void)state;
    if (parse("{\n  " PORTS ",\n " REST ", \"jupyter_session\": \"a\\\"b\", \"more\": null }\n", &c,
              &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(c.ip, "/run/k/kernel-1-ipc");
    assert_string_equal(c.key, "a-b");
    assert_int_equal(c.ports[CHANNEL_HB], 5);
    assert_int_equal(connection_socket(&c, CHANNEL_CONTROL, path, sizeof(path)), 0);
    assert_string_equal(path, "/run/k/kernel-1-ipc-4");
    assert_int_equal(connection_socket(&c, CHANNEL_CONTROL, path, 10), -1);
    assert_int_equal(connection_write(&c, &out), 0);
    assert_null(strstr(buf_str(&out), "kernel-1-ipc"));
    assert_int_equal(connection_parse(buf_str(&out), out.len, &again, &err), 0);
    assert_string_equal(again.key, c.key);
    assert_memory_equal(again.ports, c.ports, sizeof(c.ports));
    buf_done(&out);
}

static void
t_what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "not a flat JSON object"},
        {"{}", "not a flat JSON object"},
        {"[]", "not a flat JSON object"},
        {"{" PORTS ", " REST, "not a flat JSON object"},
        {"{" PORTS ", " REST "} x", "not a flat JSON object"},
        {"{" PORTS ", " REST ", \"a\": {}}", "not a flat JSON object"},
        {"{" PORTS ", " REST ", \"a\": \"\\", "not a flat JSON object"},
        {"{" PORTS ", " REST ",}", "not a flat JSON object"},
        {"{" PORTS "}", "transport is \"tcp\""},
        {"{" PORTS ", " REST ", \"transport\": \"tcp\"}", "KernelManager.transport=ipc"},
        {"{" PORTS ", " REST ", \"hb_port\": 4}", "control_port and hb_port are the same"},
        {"{" PORTS ", " REST ", \"hb_port\": 0}", "hb_port is not a port"},
        {"{" PORTS ", " REST ", \"hb_port\": 65536}", "hb_port is not a port"},
        {"{" PORTS ", " REST ", \"hb_port\": \"5\"}", "hb_port is not a port"},
        {"{" PORTS ", " REST ", \"ip\": \"127.0.0.1\"}", "not an absolute path"},
        {"{" PORTS ", " REST ", \"ip\": \"/a\\u0000\"}", "member ip"},
        {"{" PORTS ", " REST ", \"ip\": 5}", "member ip"},
        {"{" PORTS ", " REST ", \"key\": \"\xc3\xa4\"}", "member key is not plain ASCII"},
        {"{" PORTS ", " REST ", \"signature_scheme\": \"\"}", "no signature_scheme"},
        {"{" REST "}", "no shell_port"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct connection c;
        struct err err = ERR_INIT;
        assert_int_equal(parse(wrong[i].text, &c, &err), -1);
        if (!strstr(err.msg, wrong[i].why))
            fail_msg("%s: \"%s\" is not in \"%s\"", wrong[i].text, wrong[i].why, err.msg);
    }
}

static void
t_sizes_are_bounded(void **state)
{
    struct connection c;
    struct err err = ERR_INIT;
    char key[300], text[1000];
    struct buf many = BUF_INIT(20000);
    (void)state;
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    (void)snprintf(text, sizeof(text), "{" PORTS ", " REST ", \"key\": \"%s\"}", key);
    assert_int_equal(parse(text, &c, &err), -1);
    assert_non_null(strstr(err.msg, "below 200 bytes"));
    (void)buf_puts(&many, "{" PORTS ", " REST);
    for (int i = 0; i < 40; i++)
        (void)buf_printf(&many, ", \"m%d\": 1", i);
    (void)buf_puts(&many, "}");
    assert_int_equal(parse(buf_str(&many), &c, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    buf_clear(&many);
    for (int i = 0; i < CONNECTION_FILE_MAX + 1; i++)
        (void)buf_putc(&many, ' ');
    assert_int_equal(parse(buf_str(&many), &c, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    buf_done(&many);
}

static void
t_the_kernel_is_named_by_the_file(void **state)
{
    static const char *const wrong[] = {
        "/run/k/kernel-.json",   "/run/k/kernel-1234567.json",    "/run/k/kernel-ABCDEF12.json",
        "/run/k/other-12345678", "/run/k/kernel-12345678.json~",  "/run/k/kernel-1234..78.json",
        "kernel-12345678/.json", "/run/k/kernel-12345678.jsonxx", "",
    };
    char id[40];
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(connection_kernel("/run/k/kernel-0f0e-12345678.json", id, sizeof(id), &err),
                     0);
    assert_string_equal(id, "0f0e-12345678");
    assert_int_equal(connection_kernel("kernel-12345678.json", id, sizeof(id), &err), 0);
    assert_int_equal(connection_kernel("kernel-12345678.json", id, 8, &err), -1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (connection_kernel(wrong[i], id, sizeof(id), &err) == 0)
            fail_msg("%s is taken", wrong[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_a_file_of_the_gateway_is_read_and_written_anew),
        cmocka_unit_test(t_what_is_wrong_is_named),
        cmocka_unit_test(t_sizes_are_bounded),
        cmocka_unit_test(t_the_kernel_is_named_by_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
