/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "api/decode.h"

#include <stdio.h>
#include <string.h>

static const struct exec_limits limits = {
    .max_code_bytes = 64, .exec_timeout_ms = 60000, .max_exec_timeout_ms = 600000};

/* What a body gives: NULL for success, else the slug; names what the message must hold. */
struct refusal {
    const char *body;
    size_t n; /* 0: as a C string */
    const char *slug;
    const char *names;
};

static size_t
length(const struct refusal *r)
{
    return r->n != 0 ? r->n : strlen(r->body);
}

static void
refused(const struct refusal *r, int rc, const struct err *err)
{
    if (rc == 0 || err->slug == NULL || strcmp(err->slug, r->slug) != 0 ||
        (r->names != NULL && strstr(err->msg, r->names) == NULL))
        fail_msg("%s: rc %d, slug %s, \"%s\"", r->body, rc, err->slug ? err->slug : "-", err->msg);
}

static void
test_exec_refusals(void **state)
{
    static const struct refusal cases[] = {
        {"", 0, "missing_member", "\"code\""},
        {"{}", 0, "missing_member", "\"code\""},
        {"{\"code\":null}", 0, "missing_member", "\"code\""},
        {"[]", 0, "wrong_type", "object"},
        {"null", 0, "wrong_type", "object"},
        {"\"code\"", 0, "wrong_type", "object"},
        {"{\"code\":1}", 0, "wrong_type", "\"code\""},
        {"{\"code\":[\"a\"]}", 0, "wrong_type", "\"code\""},
        {"{\"code\":\"1\",\"cod\":\"2\"}", 0, "unknown_member",
         "\"cod\" is not known here; known are: code timeout"},
        {"{\"code\":\"1\",\"code\\u0000\":\"2\"}", 0, "invalid_json", NULL},
        {"{\"code\":\"1\",\"code\":\"2\"}", 0, "invalid_json", NULL},
        {"{\"code\":\"1\"", 0, "invalid_json", NULL},
        {"{\"code\":\"1\"} x", 0, "invalid_json", NULL},
        {"{\"code\":\"1\"}\0", 13, "invalid_json", NULL},
        {"{'code':'1'}", 0, "invalid_json", NULL},
        {"{\"code\":\"\\uZZZZ\"}", 0, "invalid_json", NULL},
        {"{\"code\":\"\xff\"}", 0, "invalid_json", NULL},
        {"{\"code\":\"\\ud800\"}", 0, "invalid_json", "\\ud800"},
        {"{\"code\":\"1\",}", 0, "invalid_json", NULL},
        {"{\"code\":\"1\",\"timeout\":NaN}", 0, "invalid_json", NULL},
        {"{\"code\":\"1\",\"timeout\":Infinity}", 0, "invalid_json", NULL},
        {"{\"code\":\"1\",\"timeout\":\"30\"}", 0, "wrong_type", "\"timeout\""},
        {"{\"code\":\"1\",\"timeout\":\"NaN\"}", 0, "wrong_type", "\"timeout\""},
        {"{\"code\":\"1\",\"timeout\":true}", 0, "wrong_type", "\"timeout\""},
        {"{\"code\":\"1\",\"timeout\":[]}", 0, "wrong_type", "\"timeout\""},
        {"{\"code\":\"1\",\"timeout\":{}}", 0, "wrong_type", "\"timeout\""},
        {"{\"code\":\"1\",\"timeout\":1,\"timeout\":2}", 0, "invalid_json", NULL},
        {"{\"code\":\"1\",\"on_disconnect\":\"stop\"}", 0, "bad_value", "\"on_disconnect\""},
        {"{\"code\":\"1\",\"on_disconnect\":1}", 0, "bad_value", "\"on_disconnect\""},
        {"{\"code\":\"1\",\"on_disconnect\":\"continue\\u0000\"}", 0, "bad_value",
         "\"on_disconnect\""},
        {"{\"code\":\"0123456789012345678901234567890123456789012345678901234567890123X\"}", 0,
         "code_too_large", "SANDBOX_MAX_CODE_BYTES"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = ERR_INIT;
        struct exec_body b;

        refused(&cases[i], decode_exec(cases[i].body, length(&cases[i]), &limits, &b, &err), &err);
        exec_body_done(&b);
    }
}

/* 1e999 is a number to the grammar and none to us: refused by name or as no JSON, never clamped. */
static void
test_not_finite(void **state)
{
    static const char *const bodies[] = {"{\"code\":\"1\",\"timeout\":1e999}",
                                         "{\"code\":\"1\",\"timeout\":-1e999}"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct err err = ERR_INIT;
        struct exec_body b;

        assert_int_equal(decode_exec(bodies[i], strlen(bodies[i]), &limits, &b, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        exec_body_done(&b);
    }
}

static void
test_exec_timeouts(void **state)
{
    static const struct {
        const char *timeout;
        int64_t ms;
    } cases[] = {
        {"0", 60000},           {"-1", 60000},
        {"null", 60000},        {"0.0001", 1},
        {"5.9999999", 5999},    {"2.5", 2500},
        {"2147483648", 600000}, {"9223372036854775808", 600000},
        {"1e308", 600000},      {"-1e308", 60000},
        {"600.001", 600000},    {"1", 1000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[100];
        struct err err = ERR_INIT;
        struct exec_body b;

        (void)snprintf(body, sizeof(body), "{\"code\":\"\",\"timeout\":%s}", cases[i].timeout);
        if (decode_exec(body, strlen(body), &limits, &b, &err) < 0 ||
            b.req.timeout_ms != cases[i].ms)
            fail_msg("%s: %s, %lld ms", body, err.msg, (long long)b.req.timeout_ms);
        exec_body_done(&b);
    }
}

/* A NUL in code is code: all of it goes on, none is cut. */
static void
test_exec_nul(void **state)
{
    static const char body[] = "{\"code\":\"print('a')\\u0000\\nprint('b')\"}";
    struct err err = ERR_INIT;
    struct exec_body b;

    (void)state;
    assert_int_equal(decode_exec(body, sizeof(body) - 1, &limits, &b, &err), 0);
    assert_int_equal(b.req.code_len, 22);
    assert_memory_equal(b.req.code, "print('a')\0\nprint('b')", 22);
    assert_int_equal(b.req.on_disconnect, DISCONNECT_INTERRUPT);
    exec_body_done(&b);
}

static void
test_open_refusals(void **state)
{
    static const struct refusal cases[] = {
        {"{\"session_id\":1}", 0, "wrong_type", "\"session_id\""},
        {"{\"session_id\":\"\"}", 0, "bad_session_id", NULL},
        {"{\"session_id\":\"a b\"}", 0, "bad_session_id", NULL},
        {"{\"session_id\":\"abc\\u0000def\"}", 0, "bad_session_id", NULL},
        {"{\"session_id\":\"c-x\"}", 0, "bad_session_id", NULL},
        {"{\"session_id\":\"a\",\"conversation_id\":\"b\"}", 0, "bad_value", "conversation_id"},
        {"{\"conversation_id\":\"a\\u0000b\"}", 0, "bad_value", "conversation_id"},
        {"{\"session_id\":\"a\",\"ttl\":\"30s\"}", 0, "wrong_type", "\"ttl\""},
        {"{\"session_id\":\"a\",\"ttl\":\" 5\"}", 0, "wrong_type", "\"ttl\""},
        {"{\"session_id\":\"a\",\"ttl\":false}", 0, "wrong_type", "\"ttl\""},
        {"{\"session_id\":\"a\",\"backend\":7}", 0, "wrong_type", "\"backend\""},
        {"{\"session_id\":\"a\",\"tll\":7}", 0, "unknown_member", "\"tll\""},
        {"{\"labels\":[]}", 0, "wrong_type", "\"labels\""},
        {"{\"labels\":{\"a\":1}}", 0, "bad_value", "\"a\""},
        {"{\"labels\":{\"a b\":\"1\"}}", 0, "bad_value", "\"a b\""},
        {"{\"labels\":{\"\":\"1\"}}", 0, "bad_value", "labels"},
        {"{\"labels\":{\"a\":\"x\\u0000\"}}", 0, "bad_value", "\"a\""},
        {"{\"labels\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "invalid_json", NULL},
        {"{\"labels\":{\"1\":\"\",\"2\":\"\",\"3\":\"\",\"4\":\"\",\"5\":\"\",\"6\":\"\",\"7\":"
         "\"\",\"8\":\"\",\"9\":\"\",\"10\":\"\",\"11\":\"\",\"12\":\"\",\"13\":\"\",\"14\":\"\","
         "\"15\":\"\",\"16\":\"\",\"17\":\"\"}}",
         0, "bad_value", "17"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = ERR_INIT;
        struct open_body b;

        refused(&cases[i], decode_open(cases[i].body, length(&cases[i]), &b, &err), &err);
        open_body_done(&b);
    }
}

static void
test_open(void **state)
{
    static const char body[] = "{\"conversation_id\":\"Gespräch 7\",\"session_id\":null,\"ttl\":0,"
                               "\"labels\":{\"app\":\"ch\\\"at\"}}";
    struct err err = ERR_INIT;
    struct open_body b;

    (void)state;
    assert_int_equal(decode_open(body, sizeof(body) - 1, &b, &err), 0);
    assert_int_equal(b.req.binding, BIND_CONVERSATION);
    assert_memory_equal(b.req.value, "Gespräch 7", b.req.value_len);
    assert_true(b.req.has_ttl);
    assert_int_equal(b.req.ttl_ms, 0);
    assert_string_equal(b.req.labels, "{\"app\":\"ch\\\"at\"}");
    assert_null(b.req.backend);
    open_body_done(&b);
    assert_int_equal(decode_open("", 0, &b, &err), 0);
    assert_int_equal(b.req.binding, BIND_NONE);
    assert_false(b.req.has_ttl);
    assert_null(b.req.labels);
    open_body_done(&b);
}

static void
test_patch(void **state)
{
    struct err err = ERR_INIT;
    struct patch_body b;

    (void)state;
    assert_int_equal(decode_patch("{}", 2, &b, &err), 0);
    assert_false(b.has_ttl || b.has_labels);
    patch_body_done(&b);
    assert_int_equal(decode_patch("{\"ttl\":null,\"labels\":{}}", 24, &b, &err), 0);
    assert_true(b.has_ttl && b.has_labels);
    assert_int_equal(b.ttl_ms, 0);
    assert_string_equal(b.labels.data, "{}");
    patch_body_done(&b);
    assert_int_equal(decode_patch("{\"session_id\":\"b\"}", 18, &b, &err), -1);
    assert_string_equal(err.slug, "unknown_member");
    patch_body_done(&b);
}

static void
test_key(void **state)
{
    static const char good[] = "{\"owner\":\"docs\",\"scopes\":[\"read\",\"admin\"],"
                               "\"expires_at\":\"2030-01-02T03:04:05.678Z\",\"note\":\"n\"}";
    static const struct refusal cases[] = {
        {"{\"scopes\":[\"read\"]}", 0, "missing_member", "\"owner\""},
        {"{\"owner\":\"a\"}", 0, "missing_member", "\"scopes\""},
        {"{\"owner\":\"a\",\"scopes\":[]}", 0, "bad_value", "\"scopes\""},
        {"{\"owner\":\"a\",\"scopes\":\"read\"}", 0, "bad_value", "\"scopes\""},
        {"{\"owner\":\"a\",\"scopes\":[\"root\"]}", 0, "bad_value", "\"scopes\""},
        {"{\"owner\":\"a\",\"scopes\":[\"read\"],\"expires_at\":\"tomorrow\"}", 0, "bad_value",
         "\"expires_at\""},
    };
    struct err err = ERR_INIT;
    struct key_body b;

    (void)state;
    assert_int_equal(decode_key(good, sizeof(good) - 1, &b, &err), 0);
    assert_string_equal(b.owner, "docs");
    assert_int_equal(b.scopes, KEY_READ | KEY_ADMIN);
    assert_int_equal(b.expires_at, 1893553445678);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        err = (struct err)ERR_INIT;
        refused(&cases[i], decode_key(cases[i].body, length(&cases[i]), &b, &err), &err);
    }
}

static void
test_time(void **state)
{
    static const char *const bad[] = {"",
                                      "2030-01-02",
                                      "2030-01-02T03:04:05",
                                      "2030-01-02T03:04:05+01:00",
                                      "2030-02-31T03:04:05Z",
                                      "2030-13-01T03:04:05Z",
                                      "2030-01-02T24:04:05Z",
                                      "2030-01-02T03:04:05.6Z",
                                      "2030-01-0aT03:04:05Z"};
    int64_t ms;

    (void)state;
    assert_int_equal(decode_time("1970-01-01T00:00:01Z", 20, &ms), 1);
    assert_int_equal(ms, 1000);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(decode_time(bad[i], strlen(bad[i]), &ms), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec_refusals), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_exec_timeouts), cmocka_unit_test(test_exec_nul),
        cmocka_unit_test(test_open_refusals), cmocka_unit_test(test_open),
        cmocka_unit_test(test_patch),         cmocka_unit_test(test_key),
        cmocka_unit_test(test_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
