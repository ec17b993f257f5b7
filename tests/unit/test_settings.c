/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "base/fd.h"
#include "conf/settings.h"

static int
parse(struct settings *s, const char *text, struct err *err)
{
    settings_defaults(s);
    return settings_parse(text, strlen(text), "f", s, err);
}

static void
refused(const char *text, const char *why)
{
    struct settings s;
    struct err err = ERR_INIT;
    if (parse(&s, text, &err) == 0)
        fail_msg("\"%s\" was taken", text);
    assert_int_equal(err.code, ERR_INVALID);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not in \"%s\"", why, err.msg);
    settings_done(&s);
}

/* Loads a file of this text. */
static int
load(const char *text, struct settings *s, struct err *err)
{
    char path[] = "/tmp/husk-settings-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
    int rc = settings_load(path, s, err);
    unlink(path);
    return rc;
}

static void
load_refused(const char *text, const char *why)
{
    struct settings s;
    struct err err = ERR_INIT;
    assert_int_equal(load(text, &s, &err), -1);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not in \"%s\"", why, err.msg);
}

static void
t_defaults_are_those_of_the_design(void **state)
{
    (void)state;
    struct settings s;
    settings_defaults(&s);
    assert_string_equal(s.state_dir, "/var/lib/husk");
    assert_string_equal(s.gateway_url, "http://localhost:8888");
    assert_string_equal(s.kernel_name, "docsgpt-python");
    assert_int_equal(s.max_ttl_ms, 1200000);
    assert_int_equal(s.default_ttl_ms, 1200000);
    assert_int_equal(s.max_sessions_per_owner, 32);
    assert_int_equal(s.workers_exec, 34);
    assert_int_equal(s.max_exec_timeout_ms, 600000);
    assert_int_equal(s.max_output_bytes, 8 << 20);
    assert_true(s.max_file_bytes == INT64_C(4) << 30);
    assert_int_equal(s.history_retention_ms / 1000, 30 * 86400);
    assert_string_equal(s.auth, "keys");
    assert_true(s.cpus > 0.99 && s.cpus < 1.01);
    assert_int_equal(s.log_level, LOG_LEVEL_INFO);
    assert_false(s.keep_code);
    settings_done(&s);
}

static void
t_files_through_a_kernel_are_smaller_unless_said(void **state)
{
    (void)state;
    struct settings s;
    struct err err = ERR_INIT;
    assert_int_equal(load("SANDBOX_TRANSFER=kernel\n", &s, &err), 0);
    assert_int_equal(s.max_file_bytes, 10 << 20);
    settings_done(&s);
    assert_int_equal(load("SANDBOX_TRANSFER=kernel\nSANDBOX_MAX_FILE_BYTES=1MiB\n", &s, &err), 0);
    assert_int_equal(s.max_file_bytes, 1 << 20);
    settings_done(&s);
}

static void
t_lines_are_read_as_environment_files_are(void **state)
{
    (void)state;
    struct settings s;
    struct err err = ERR_INIT;
    assert_int_equal(parse(&s,
                           "# comment\n\n  SANDBOX_MAX_TTL = 90 \r\n"
                           "SANDBOX_GATEWAY_AUTH_TOKEN=a=b#c\"d\n"
                           "SANDBOX_KERNEL_NAME=\"py\"\nSANDBOX_SERVER_NAME='a.example b.example'\n"
                           "SANDBOX_MAX_TTL=80\nSANDBOX_LOG_FORMAT=json\n"
                           "SANDBOX_CORS_ORIGINS=https://a.example, http://b:8080\n"
                           "SANDBOX_LOG_LEVEL=debug\nSANDBOX_KEEP_CODE=yes\nSANDBOX_CPUS=0.5",
                           &err),
                     0);
    assert_int_equal(s.max_ttl_ms, 80000); /* the last one counts */
    assert_string_equal(s.gateway_token, "a=b#c\"d");
    assert_string_equal(s.kernel_name, "py");
    assert_string_equal(s.server_name, "a.example b.example");
    assert_true(s.log_json && s.keep_code);
    assert_int_equal(s.log_level, LOG_LEVEL_DEBUG);
    settings_done(&s);
}

static void
t_what_is_wrong_is_named_with_its_line(void **state)
{
    (void)state;
    refused("\n\nSANDBOX_NOPE=1", "f:3: unknown setting \"SANDBOX_NOPE\"");
    refused("nonsense", "f:1: not KEY=value");
    refused("SANDBOX_MAX_TTL=soon", "SANDBOX_MAX_TTL");
    refused("SANDBOX_MAX_TTL=", "SANDBOX_MAX_TTL");
    refused("SANDBOX_MAX_TTL=0", "within 1s to 365 days");
    refused("SANDBOX_MAX_SESSIONS=3.5", "whole number");
    refused("SANDBOX_MAX_SESSIONS=99999999999999999999", "whole number");
    refused("SANDBOX_CPUS=nan", "SANDBOX_CPUS");
    refused("SANDBOX_KEEP_CODE=maybe", "true or false");
    refused("SANDBOX_AUTH=nobody", "keys|proxy|none");
    refused("SANDBOX_ISOLATION=jail", "auto|host|rootless|container|none");
    refused("SANDBOX_KERNEL_PATHS=/a:b", "absolute paths");
    refused("SANDBOX_KERNEL_PATHS=/a::/b", "absolute paths");
    refused("SANDBOX_KERNEL_PATHS=/a:", "absolute paths");
    refused("SANDBOX_EGRESS_DNS=dns.example", "IPv4 or IPv6");
    refused("SANDBOX_EGRESS_DNS=1.2.3", "IPv4 or IPv6");
    refused("SANDBOX_TRANSFER=pigeon", "direct|kernel");
    refused("SANDBOX_STATE_DIR=var", "absolute");
    refused("SANDBOX_STATE_DIR=/a;b", "may hold");
    refused("SANDBOX_STATE_DIR=/a$b", "may hold");
    refused("SANDBOX_STATE_DIR=", "must not be empty");
    refused("SANDBOX_STATE_DIR=\"/a", "quote is not closed");
    refused("SANDBOX_STATE_DIR=\"", "quote is not closed");
    refused("SANDBOX_GATEWAY_URL=http://user@host", "without user");
    refused("SANDBOX_GATEWAY_URL=ftp://host", "http");
    refused("SANDBOX_GATEWAY_URL=http://", "SANDBOX_GATEWAY_URL");
    refused("SANDBOX_LISTEN=80; evil", "SANDBOX_LISTEN");
    refused("SANDBOX_SERVER_NAME=a{b", "SANDBOX_SERVER_NAME");
    refused("SANDBOX_CORS_ORIGINS=example.com", "SANDBOX_CORS_ORIGINS");
    refused("SANDBOX_KERNEL_NAME=a\tb", "control character");
    refused("SANDBOX_RUNTIME_DIR=/23456789012345678901234567890123456789012345678901234567890123456"
            "78901234567890123456789012345678",
            "SANDBOX_RUNTIME_DIR is 98 bytes long, of at most 97");
}

static void
t_a_secret_is_in_no_message_and_no_dump(void **state)
{
    (void)state;
    struct settings s;
    struct err err = ERR_INIT;
    assert_int_equal(parse(&s, "SANDBOX_GATEWAY_AUTH_TOKEN=hunter 2", &err), -1);
    assert_null(strstr(err.msg, "hunter"));
    settings_done(&s);
    assert_int_equal(parse(&s, "SANDBOX_GATEWAY_AUTH_TOKEN=hunter2", &err), 0);
    struct buf out = BUF_INIT(1 << 20), one = BUF_INIT(100);
    assert_int_equal(settings_dump(&s, &out), 0);
    assert_null(strstr(buf_str(&out), "hunter2"));
    assert_non_null(strstr(buf_str(&out), "SANDBOX_GATEWAY_AUTH_TOKEN=********\n"));
    assert_int_equal(settings_get(&s, "SANDBOX_GATEWAY_AUTH_TOKEN", &one), 1);
    assert_string_equal(buf_str(&one), "********");
    buf_clear(&one);
    assert_int_equal(settings_get(&s, "SANDBOX_MAX_FILE_BYTES", &one), 1);
    assert_string_equal(buf_str(&one), "4GiB");
    assert_int_equal(settings_get(&s, "nope", &one), 0);
    buf_done(&out);
    buf_done(&one);
    settings_done(&s);
}

static void
t_a_dump_can_be_read_again(void **state)
{
    (void)state;
    struct settings s, again;
    struct err err = ERR_INIT;
    assert_int_equal(parse(&s, "SANDBOX_TURN_WAIT=1500ms\nSANDBOX_SPOOL_BYTES=65537\n", &err), 0);
    struct buf one = BUF_INIT(1 << 20), two = BUF_INIT(1 << 20);
    assert_int_equal(settings_dump(&s, &one), 0);
    if (parse(&again, buf_str(&one), &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(settings_dump(&again, &two), 0);
    assert_string_equal(buf_str(&one), buf_str(&two));
    assert_int_equal(again.turn_wait_ms, 1500);
    assert_int_equal(again.spool_bytes, 65537);
    size_t n = 0;
    while (settings_key(n))
        n++;
    assert_true(n > 50);
    buf_done(&one);
    buf_done(&two);
    settings_done(&s);
    settings_done(&again);
}

static void
t_no_isolation_is_accepted_with_all_that_it_gives_up(void **state)
{
    (void)state;
    struct settings s;
    struct err err = ERR_INIT;
    settings_defaults(&s);
    assert_string_equal(s.isolation, "auto");
    assert_string_equal(s.isolation_min, "container");
    assert_string_equal(s.egress, "none");
    settings_done(&s);
    load_refused("SANDBOX_ISOLATION=none\n", "SANDBOX_ISOLATION_MIN=none too");
    load_refused("SANDBOX_ISOLATION=none\nSANDBOX_ISOLATION_MIN=none\n", "set SANDBOX_EGRESS=open");
    load_refused("SANDBOX_ISOLATION=none\nSANDBOX_ISOLATION_MIN=container\nSANDBOX_EGRESS=open\n",
                 "SANDBOX_ISOLATION_MIN=none too");
    load_refused("SANDBOX_ISOLATION=none\nSANDBOX_ISOLATION_MIN=none\nSANDBOX_EGRESS=public\n",
                 "set SANDBOX_EGRESS=open");
    assert_int_equal(load("SANDBOX_ISOLATION=none\nSANDBOX_ISOLATION_MIN=none\n"
                          "SANDBOX_EGRESS=open\n",
                          &s, &err),
                     0);
    settings_done(&s);
    assert_int_equal(load("SANDBOX_ISOLATION=auto\nSANDBOX_ISOLATION_MIN=host\n"
                          "SANDBOX_EGRESS=none\nSANDBOX_KERNEL_PATHS=/opt/venv:/srv/data\n"
                          "SANDBOX_EGRESS_DNS=2001:db8::53\n",
                          &s, &err),
                     0);
    assert_string_equal(s.kernel_paths, "/opt/venv:/srv/data");
    assert_string_equal(s.egress_dns, "2001:db8::53");
    settings_done(&s);
}

static void
t_settings_are_checked_against_each_other(void **state)
{
    (void)state;
    load_refused("SANDBOX_DEFAULT_TTL=30\nSANDBOX_MAX_TTL=20\n", "SANDBOX_DEFAULT_TTL");
    load_refused("SANDBOX_EXEC_TIMEOUT=700\n", "SANDBOX_MAX_EXEC_TIMEOUT");
    load_refused("SANDBOX_MAX_SESSIONS_PER_OWNER=33\n", "SANDBOX_MAX_SESSIONS");
    load_refused("SANDBOX_TLS_CERTIFICATE=/a\n", "together");
    load_refused("SANDBOX_STATE_DIR=/a\nSANDBOX_RUNTIME_DIR=/a\n", "the same");
    load_refused("SANDBOX_FLOOD_BYTES=1MiB\n", "SANDBOX_FLOOD_BYTES");
    struct settings s;
    struct err err = ERR_INIT;
    assert_int_equal(load("SANDBOX_MAX_SESSIONS=5\nSANDBOX_MAX_TTL=20", &s, &err), 0);
    assert_int_equal(s.max_sessions_per_owner, 5);
    assert_int_equal(s.workers_exec, 7);
    assert_int_equal(s.default_ttl_ms, 20000);
    settings_done(&s);
    assert_int_equal(settings_load("/nonexistent/husk.conf", &s, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void
t_the_environment_wins_and_is_held_to_the_same(void **state)
{
    (void)state;
    struct settings s;
    struct err err = ERR_INIT;
    setenv("SANDBOX_MAX_TTL", "77", 1);
    assert_int_equal(load("SANDBOX_MAX_TTL=20", &s, &err), 0);
    assert_int_equal(s.max_ttl_ms, 77000);
    settings_done(&s);
    setenv("SANDBOX_MAX_TTL", "x", 1);
    load_refused("", "environment: SANDBOX_MAX_TTL");
    unsetenv("SANDBOX_MAX_TTL");
    setenv("SANDBOX_UNHEARD_OF", "1", 1);
    load_refused("", "environment: unknown setting \"SANDBOX_UNHEARD_OF\"");
    unsetenv("SANDBOX_UNHEARD_OF");
    /* What execve passes on need not hold a '='. */
    static char bare[] = "SANDBOX_MAX_TTL", *odd[] = {bare, NULL};
    char **usual = environ;
    environ = odd;
    load_refused("", "environment: \"SANDBOX_MAX_TTL\" is not KEY=value");
    environ = usual;
}

static void
t_paths_have_one_place(void **state)
{
    (void)state;
    struct settings s;
    char out[SETTINGS_PATH_MAX];
    settings_defaults(&s);
    assert_string_equal(settings_path(&s, "db", out), "/var/lib/husk/husk.db");
    assert_string_equal(settings_path(&s, "sock:bulk", out), "/run/husk/bulk.sock");
    assert_string_equal(settings_path(&s, "locks", out), "/run/husk/locks");
    settings_done(&s);
}

/* The committed texts are what the table says now. */
static void
same_as_file(int (*make)(struct buf *), const char *name)
{
    const char *source = getenv("HUSK_SOURCE");
    char path[512];
    struct buf made = BUF_INIT(1 << 20), kept = BUF_INIT(1 << 20);
    struct err err = ERR_INIT;
    snprintf(path, sizeof(path), "%s/%s", source ? source : HUSK_SRCDIR, name);
    assert_int_equal(make(&made), 0);
    assert_int_equal(fd_read_file(path, &kept, &err), 0);
    assert_string_equal(buf_str(&made), buf_str(&kept));
    buf_done(&made);
    buf_done(&kept);
}

static void
t_sample_and_document_are_up_to_date(void **state)
{
    (void)state;
    same_as_file(settings_sample, "deployment/husk.conf.sample");
    same_as_file(settings_markdown, "docs/settings.md");
    struct buf man = BUF_INIT(1 << 20);
    assert_int_equal(settings_man(&man), 0);
    assert_non_null(strstr(buf_str(&man), ".B SANDBOX_MAX_TTL\n"));
    buf_done(&man);
    /* All of it is comment: a copy of the sample changes nothing. */
    struct settings s;
    struct err err = ERR_INIT;
    struct buf sample = BUF_INIT(1 << 20);
    assert_int_equal(settings_sample(&sample), 0);
    assert_int_equal(parse(&s, buf_str(&sample), &err), 0);
    buf_done(&sample);
    settings_done(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_defaults_are_those_of_the_design),
        cmocka_unit_test(t_files_through_a_kernel_are_smaller_unless_said),
        cmocka_unit_test(t_lines_are_read_as_environment_files_are),
        cmocka_unit_test(t_what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(t_a_secret_is_in_no_message_and_no_dump),
        cmocka_unit_test(t_a_dump_can_be_read_again),
        cmocka_unit_test(t_settings_are_checked_against_each_other),
        cmocka_unit_test(t_no_isolation_is_accepted_with_all_that_it_gives_up),
        cmocka_unit_test(t_the_environment_wins_and_is_held_to_the_same),
        cmocka_unit_test(t_paths_have_one_place),
        cmocka_unit_test(t_sample_and_document_are_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
