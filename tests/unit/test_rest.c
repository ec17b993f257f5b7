/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <string.h>

#include "base/sig.h"
#include "sandbox/transport/rest.h"
#include "support/peer.h"

#define SCRIPT                                                                                     \
    "{\"rest\": {\"show\": \"hang\", \"list\": \"redirect\", \"specs\": \"huge\","                 \
    " \"interrupt\": 503, \"delete\": \"close\"}}"

static struct peer gateway;

static int
setup(void **state)
{
    struct rest_options o = {.authorization = "token sesame", .max_body = 65536};
    struct rest *r;

    sig_ignore_pipe();
    if (fake_gateway_start(&gateway, SCRIPT) < 0)
        return -1;
    o.base_url = gateway.url;
    if (rest_new(&o, &r, NULL) < 0)
        return -1;
    *state = r;
    return 0;
}

static int
teardown(void **state)
{
    rest_free(*state);
    peer_stop(&gateway);
    return 0;
}

static void
test_json_answer(void **state)
{
    struct rest_reply r;
    struct err err = ERR_INIT;

    assert_int_equal(
        rest_call(*state, "POST", "/api/kernels", "{\"name\":\"x\"}", deadline_in(5000), &r, &err),
        0);
    assert_int_equal(r.status, 201);
    assert_true(r.is_json);
    assert_non_null(strstr(r.body, "docsgpt-python"));
}

static void
test_token_in_header_only(void **state)
{
    struct rest_reply r;

    assert_int_equal(rest_call(*state, "GET", "/log", NULL, deadline_in(5000), &r, NULL), 0);
    assert_non_null(strstr(r.body, "token sesame"));
}

static void
test_redirect_not_followed(void **state)
{
    struct rest_reply r;

    assert_int_equal(rest_call(*state, "GET", "/api/kernels", NULL, deadline_in(5000), &r, NULL),
                     0);
    assert_int_equal(r.status, 302);
    assert_int_equal(rest_call(*state, "GET", "/log", NULL, deadline_in(5000), &r, NULL), 0);
    assert_null(strstr(r.body, "followed"));
}

static void
test_error_status_keeps_body(void **state)
{
    struct rest_reply r;

    assert_int_equal(
        rest_call(*state, "POST", "/api/kernels/k/interrupt", NULL, deadline_in(5000), &r, NULL),
        0);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.body, "scripted"));
}

static void
test_too_large(void **state)
{
    struct rest_reply r;
    struct err err = ERR_INIT;

    assert_int_equal(
        rest_call(*state, "GET", "/api/kernelspecs", NULL, deadline_in(5000), &r, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
}

static void
test_hanging_ends_at_the_deadline(void **state)
{
    struct rest_reply r;
    struct err err = ERR_INIT;
    int64_t t = clock_mono_ms();

    assert_int_equal(rest_call(*state, "GET", "/api/kernels/k", NULL, deadline_in(300), &r, &err),
                     -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    assert_in_range(clock_mono_ms() - t, 250, 2500);
}

static void
test_cut_off_is_uncertain(void **state)
{
    struct rest_reply r;
    struct err err = ERR_INIT;

    assert_int_equal(
        rest_call(*state, "DELETE", "/api/kernels/k", NULL, deadline_in(5000), &r, &err), -1);
    assert_int_equal(err.code, ERR_UNCERTAIN);
}

static void
test_nobody_there(void **state)
{
    struct rest_options o = {.base_url = "http://127.0.0.1:1", .max_body = 1000};
    struct rest *r;
    struct rest_reply reply;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(rest_new(&o, &r, &err), 0);
    assert_int_equal(rest_call(r, "GET", "/", NULL, deadline_in(5000), &reply, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    rest_free(r);
}

static void
test_beside_other_work(void **state)
{
    struct deadline d = deadline_in(5000);
    struct rest_reply r;
    int rc = 0;

    assert_int_equal(rest_begin(*state, "GET", "/api/kernels/k", NULL, d, NULL), 0);
    assert_int_equal(rest_step(*state, &r, NULL), 0);
    assert_int_equal(rest_begin(*state, "GET", "/log", NULL, d, NULL), 0); /* cancels the first */
    while (rc == 0 && !deadline_passed(d))
        rc = rest_step(*state, &r, NULL);
    assert_int_equal(rc, 1);
    assert_int_equal(r.status, 200);
}

static void
test_bad_url(void **state)
{
    struct rest_options o = {.base_url = "file:///etc/passwd", .max_body = 1000};
    struct rest *r;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(rest_new(&o, &r, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_answer),
        cmocka_unit_test(test_token_in_header_only),
        cmocka_unit_test(test_redirect_not_followed),
        cmocka_unit_test(test_error_status_keeps_body),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_hanging_ends_at_the_deadline),
        cmocka_unit_test(test_cut_off_is_uncertain),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_beside_other_work),
        cmocka_unit_test(test_bad_url),
    };

    return cmocka_run_group_tests(tests, setup, teardown) != 0;
}
