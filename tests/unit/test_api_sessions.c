/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "support/api_fixture.h"

static void
test_life(void **state)
{
    struct api_fixture *a = *state;

    api_expect(a, "POST", "/v1/sessions",
               "{\"session_id\":\"s1\",\"ttl\":30,\"labels\":{\"app\":\"x\"}}", 201, NULL);
    assert_string_equal(api_header(a, "Location"), "/v1/sessions/s1");
    assert_string_equal(api_text(a, "state"), "ready");
    assert_string_equal(api_text(a, "owner"), "anonymous");
    assert_string_equal(api_text(a, "labels.app"), "x");
    api_expect(a, "POST", "/v1/sessions", "{\"session_id\":\"s1\"}", 200, NULL);
    assert_true(json_bool(api_member(a, "stateful"), false));
    api_expect(a, "GET", "/v1/sessions/s1", NULL, 200, NULL);
    assert_string_equal(api_text(a, "session_id"), "s1");
    api_expect(a, "HEAD", "/v1/sessions/s1", NULL, 200, NULL);
    api_expect(a, "PATCH", "/v1/sessions/s1", "{\"ttl\":2.5,\"labels\":{}}", 200, NULL);
    assert_int_equal(json_length(api_member(a, "labels")), 0);
    api_expect(a, "POST", "/v1/sessions/s1/restart", NULL, 200, NULL);
    api_expect(a, "POST", "/v1/sessions/s1/interrupt", "{}", 204, NULL);
    api_expect(a, "POST", "/v1/sessions/s1/interrupt", "{\"now\":1}", 400, "unknown_member");
    api_expect(a, "DELETE", "/v1/sessions/s1", NULL, 204, NULL);
    api_expect(a, "DELETE", "/v1/sessions/s1", NULL, 404, "session_not_found");
    api_expect(a, "GET", "/v1/sessions/s1", NULL, 404, "session_not_found");
    assert_string_equal(api_text(a, "request_id"), a->f.x.req.request_id);
}

/* An open without a body makes a session with an id of its own. */
static void
test_bare_open(void **state)
{
    struct api_fixture *a = *state;

    api_expect(a, "POST", "/v1/sessions", NULL, 201, NULL);
    assert_true(strlen(api_text(a, "session_id")) > 8);
    api_expect(a, "POST", "/v1/sessions", "{\"conversation_id\":\"abc\"}", 201, NULL);
    assert_string_equal(api_text(a, "session_id"), "c-abc");
    assert_string_equal(api_text(a, "conversation_id"), "abc");
}

static void
test_list(void **state)
{
    struct api_fixture *a = *state;
    char target[2300], body[100];

    for (int i = 0; i < 3; i++) {
        (void)snprintf(body, sizeof(body), "{\"session_id\":\"p%d\",\"labels\":{\"n\":\"%d\"}}", i,
                       i);
        api_expect(a, "POST", "/v1/sessions", body, 201, NULL);
        (void)usleep(2000);
    }
    api_expect(a, "GET", "/v1/sessions?limit=2", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "sessions")), 2);
    assert_string_equal(api_text(a, "sessions.0.session_id"), "p2");
    (void)snprintf(target, sizeof(target), "/v1/sessions?limit=2&cursor=%s",
                   api_text(a, "next_cursor"));
    api_expect(a, "GET", target, NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "sessions")), 1);
    assert_string_equal(api_text(a, "sessions.0.session_id"), "p0");
    assert_int_equal(json_type(api_member(a, "next_cursor")), JSON_NULL);
    api_expect(a, "GET", "/v1/sessions?label=n:1", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "sessions")), 1);
    api_expect(a, "GET", "/v1/sessions?state=cold", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "sessions")), 0);
    api_expect(a, "GET", "/v1/sessions?state=odd", NULL, 400, "bad_value");
    api_expect(a, "GET", "/v1/sessions?label=n", NULL, 400, "bad_value");
    api_expect(a, "GET", "/v1/sessions?limit=0", NULL, 400, "bad_value");
    api_expect(a, "GET", "/v1/sessions?limit=1001", NULL, 400, "bad_value");
    api_expect(a, "GET", "/v1/sessions?limit=x", NULL, 400, "bad_value");
    api_expect(a, "GET", "/v1/sessions?cursor=%25", NULL, 400, "bad_cursor");
    api_expect(a, "GET", "/v1/sessions?cursor=eA", NULL, 400, "bad_cursor");
    api_expect(a, "GET", "/v1/sessions?limit=1&limit=2", NULL, 400, "bad_request_target");
    api_expect(a, "GET", "/v1/sessions?nonsense=1", NULL, 400, "unknown_parameter");
    assert_non_null(strstr(api_text(a, "detail"), "nonsense"));
}

static void
test_requests_that_are_none(void **state)
{
    struct api_fixture *a = *state;

    api_expect(a, "GET", "/v1/nothing", NULL, 404, "not_found");
    api_expect(a, "GET", "/v1/sessions/a%00b", NULL, 400, "bad_session_id");
    api_expect(a, "GET", "/v1/sessions/a%2Fb", NULL, 400, "bad_session_id");
    api_expect(a, "GET", "/v1/sessions/a%zz", NULL, 400, "bad_request_target");
    api_expect(a, "PUT", "/v1/sessions", NULL, 405, "method_not_allowed");
    assert_string_equal(api_header(a, "Allow"), "GET, HEAD, POST");
    api_expect(a, "OPTIONS", "/v1/sessions", NULL, 405, "method_not_allowed");
    api_expect(a, "GET", "/v1/sessions", "{}", 400, "invalid_request");
    api_begin(a, "POST", "/v1/sessions");
    fake_header(&a->f, "content-type", "text/plain");
    fake_body(&a->f, "{}", 2);
    api_finish_expect(a, 415, "unsupported_media_type");
    api_begin(a, "POST", "/v1/sessions");
    fake_header(&a->f, "content-type", "Application/JSON; charset=utf-8");
    fake_body(&a->f, "{}", 2);
    api_finish_expect(a, 201, NULL);
    api_begin(a, "POST", "/v1/sessions");
    fake_header(&a->f, "content-type", "application/jsonx");
    fake_body(&a->f, "{}", 2);
    api_finish_expect(a, 415, "unsupported_media_type");
    api_begin(a, "POST", "/v1/sessions");
    fake_header(&a->f, "content-type", "application/json");
    fake_body(&a->f, "{}", 2);
    a->f.x.req.content_length = 20;
    api_finish_expect(a, 400, "body_incomplete");
    api_begin(a, "POST", "/v1/sessions");
    fake_header(&a->f, "content-type", "application/json");
    fake_body(&a->f, "{}", 2);
    a->f.x.req.content_length = 1 << 20;
    api_finish_expect(a, 413, "body_too_large");
    api_begin(a, "POST", "/v1/sessions");
    fake_header(&a->f, "content-type", "application/json");
    api_finish_expect(a, 411, "length_required");
}

static void
test_limits(void **state)
{
    struct api_fixture *a = *state;

    a->base.o.max_sessions = 1;
    fixture_restart(&a->base);
    a->o.manager = a->base.m;
    api_fixture_restart(a);
    api_expect(a, "POST", "/v1/sessions", "{\"session_id\":\"one\"}", 201, NULL);
    /* The other owner's idle session is not theirs to evict. */
    a->o.auth = API_AUTH_PROXY;
    api_fixture_restart(a);
    api_begin(a, "POST", "/v1/sessions");
    a->f.user = "bob";
    fake_json(&a->f, "{\"session_id\":\"two\"}");
    api_finish_expect(a, 503, "session_limit");
    assert_true(api_header(a, "Retry-After")[0] >= '1');
    a->o.auth = API_AUTH_NONE;
    api_fixture_restart(a);
    /* A gateway that starts nothing: the reason is named, nothing is a plain 500. */
    atomic_store(&a->base.world->fail_opens, -1);
    (void)api_ask(a, "POST", "/v1/sessions/one/restart", NULL);
    assert_true(fake_status(&a->f) > 500);
    assert_true(strlen(api_text(a, "code")) > 3);
}

static void
test_service(void **state)
{
    struct api_fixture *a = *state;
    struct scoreboard *b = NULL;
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    const char *text;
    size_t n;

    assert_int_equal(scoreboard_create(tmpdir_path(path, a->base.dir, "scoreboard"), 2, &b, &err),
                     0);
    a->o.scoreboard = b;
    a->o.slot = scoreboard_slot(b, 0);
    a->o.lane = LANE_CTL;
    api_fixture_restart(a);
    api_expect(a, "GET", "/healthz", NULL, 200, NULL);
    assert_string_equal(api_text(a, "status"), "ok");
    assert_string_equal(api_text(a, "version"), "1.2.3");
    api_expect(a, "GET", "/readyz", NULL, 200, NULL);
    api_expect(a, "GET", "/openapi.json", NULL, 200, NULL);
    assert_string_equal(api_text(a, "openapi"), "3.1.0");
    api_expect(a, "GET", "/v1/none", NULL, 404, NULL);
    api_expect(a, "POST", "/v1/sessions", "{\"session_id\":\"m\"}", 201, NULL);
    api_expect(a, "POST", "/v1/sessions/m/exec", "{\"code\":\"print 1\"}", 200, NULL);
    api_expect(a, "GET", "/metrics", NULL, 200, NULL);
    text = api_body(a, &n);
    assert_non_null(strstr(text, "\nhusk_requests_total{lane=\"ctl\",class=\"2xx\"} 5\n"));
    assert_non_null(strstr(text, "\nhusk_requests_total{lane=\"ctl\",class=\"4xx\"} 1\n"));
    assert_non_null(strstr(text, "\nhusk_executions_total{reason=\"completed\"} 1\n"));
    assert_non_null(strstr(text, "\nhusk_execution_seconds_count 1\n"));
    assert_non_null(strstr(text, "\nhusk_gateway_seconds_count 1\n"));
    assert_non_null(strstr(text, "\nhusk_sessions{state=\"ready\"} 1\n"));
    assert_non_null(strstr(text, "\nhusk_runtimes{state=\"live\"} 1\n"));
    assert_non_null(strstr(text, "\nhusk_backend_sessions{backend=\"fake\"} 1\n"));
    assert_non_null(strstr(text, "\nhusk_backend_runtimes{backend=\"fake\"} 1\n"));
    scoreboard_free(b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, api_setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_bare_open, api_setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_list, api_setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_requests_that_are_none, api_setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_limits, api_setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_service, api_setup, api_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
