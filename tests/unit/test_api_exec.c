/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "spool/spool.h"
#include "support/api_fixture.h"

#define EXEC "/v1/sessions/s/exec"

static void
test_plain(void **state)
{
    struct api_fixture *a = *state;
    char target[128];

    api_expect(a, "POST", EXEC, "{\"code\":\"print hello\"}", 200, NULL);
    assert_string_equal(api_text(a, "status"), "ok");
    assert_string_equal(api_text(a, "reason"), "completed");
    assert_string_equal(api_text(a, "stdout"), "hello");
    assert_string_equal(api_text(a, "session.session_id"), "s");
    assert_string_equal(api_text(a, "session.state"), "ready");
    (void)snprintf(target, sizeof(target), "/v1/executions/%s", api_text(a, "execution_id"));
    api_expect(a, "GET", target, NULL, 200, NULL);
    assert_string_equal(api_text(a, "reason"), "completed");
    api_expect(a, "GET", "/v1/sessions/s/executions?limit=1", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "executions")), 1);
    /* However it ends, it is an answer. */
    api_expect(a, "POST", EXEC, "{\"code\":\"error\"}", 200, NULL);
    assert_string_equal(api_text(a, "reason"), "exception");
    assert_string_equal(api_text(a, "error_name"), "ValueError");
    api_expect(a, "POST", EXEC, "{\"code\":\"die\"}", 200, NULL);
    assert_string_equal(api_text(a, "reason"), "kernel_died");
    assert_true(json_bool(api_member(a, "runtime_invalidated"), false));
    api_expect(a, "POST", EXEC, "{\"code\":\"print 2\"}", 200, NULL);
    assert_true(json_bool(api_member(a, "session.state_lost"), false));
    api_expect(a, "POST", EXEC, "{\"code\":\"print 3\"}", 200, NULL);
    assert_false(json_bool(api_member(a, "session.state_lost"), true));
}

static void
test_pages_of_history(void **state)
{
    struct api_fixture *a = *state;
    char target[2300], first[64];

    for (int i = 0; i < 3; i++) {
        api_expect(a, "POST", EXEC, "{\"code\":\"print x\"}", 200, NULL);
        (void)usleep(2000);
    }
    api_expect(a, "GET", "/v1/sessions/s/executions?limit=2", NULL, 200, NULL);
    (void)snprintf(first, sizeof(first), "%s", api_text(a, "executions.1.execution_id"));
    (void)snprintf(target, sizeof(target), "/v1/sessions/s/executions?cursor=%s",
                   api_text(a, "next_cursor"));
    api_expect(a, "GET", target, NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "executions")), 1);
    assert_string_not_equal(api_text(a, "executions.0.execution_id"), first);
    assert_int_equal(json_type(api_member(a, "next_cursor")), JSON_NULL);
}

static void
test_refusals(void **state)
{
    struct api_fixture *a = *state;
    static char key[300];

    api_expect(a, "POST", EXEC, NULL, 400, "missing_member");
    api_expect(a, "POST", EXEC, "{\"code\":\"1\",\"extra\":1}", 400, "unknown_member");
    api_expect(a, "POST", "/v1/sessions/none/exec", "{\"code\":\"1\"}", 404, "session_not_found");
    api_expect(a, "GET", EXEC, NULL, 405, "method_not_allowed");
    api_expect(a, "GET", "/v1/executions/none", NULL, 404, "execution_not_found");
    api_expect(a, "GET", "/v1/executions/a%00b", NULL, 404, "execution_not_found");
    api_expect(a, "GET", "/v1/executions", NULL, 400, "bad_value");
    memset(key, 'k', 256);
    api_begin(a, "POST", EXEC);
    fake_header(&a->f, "idempotency-key", key);
    fake_json(&a->f, "{\"code\":\"print 1\"}");
    api_finish_expect(a, 400, "bad_header");
    api_begin(a, "POST", EXEC);
    fake_header(&a->f, "idempotency-key", "");
    fake_json(&a->f, "{\"code\":\"print 1\"}");
    api_finish_expect(a, 400, "bad_header");
    assert_int_equal(atomic_load(&a->base.world->execs), 0);
}

static void
test_once(void **state)
{
    struct api_fixture *a = *state;

    api_begin(a, "POST", EXEC);
    fake_json(&a->f, "{\"code\":\"print 1\"}");
    a->f.x.req.request_id = "the-same";
    a->f.x.req.client_request_id = "mine";
    api_finish_expect(a, 200, NULL);
    api_begin(a, "POST", EXEC);
    fake_json(&a->f, "{\"code\":\"print 1\"}");
    a->f.x.req.request_id = "the-same";
    api_finish_expect(a, 409, "duplicate_request");
    api_expect(a, "GET", "/v1/executions?request_id=the-same", NULL, 200, NULL);
    assert_string_equal(api_text(a, "executions.0.client_request_id"), "mine");
    api_expect(a, "GET", "/v1/executions?request_id=another", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "executions")), 0);
    assert_int_equal(atomic_load(&a->base.world->execs), 1);
}

static void
keyed(struct api_fixture *a, const char *json, const char *accept)
{
    api_begin(a, "POST", EXEC);
    fake_header(&a->f, "idempotency-key", "k1");
    if (accept != NULL)
        fake_header(&a->f, "accept", accept);
    fake_json(&a->f, json);
}

static void
test_idempotency(void **state)
{
    struct api_fixture *a = *state;
    char eid[64];
    size_t n;

    keyed(a, "{\"code\":\"print 1\"}", NULL);
    api_finish_expect(a, 200, NULL);
    (void)snprintf(eid, sizeof(eid), "%s", api_text(a, "execution_id"));
    keyed(a, "{\"code\":\"print 1\"}", NULL);
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_text(a, "execution_id"), eid);
    assert_string_equal(api_text(a, "stdout"), "1");
    assert_string_equal(api_header(a, "Idempotent-Replayed"), "true");
    keyed(a, "{\"code\":\"print 1\"}", "text/event-stream");
    api_finish_expect(a, 200, NULL);
    assert_non_null(strstr(api_body(a, &n), "event: stdout\ndata: {\"text\":\"1\"}\n\n"));
    keyed(a, "{\"code\":\"print 2\"}", NULL);
    api_finish_expect(a, 422, "idempotency_mismatch");
    assert_int_equal(atomic_load(&a->base.world->execs), 1);
}

static void
begin_stream(struct api_fixture *a, const char *json)
{
    api_begin(a, "POST", EXEC);
    fake_header(&a->f, "accept", "application/json;q=0.5, text/event-stream");
    fake_json(&a->f, json);
}

static void
test_stream(void **state)
{
    struct api_fixture *a = *state;
    const char *text, *at;
    char target[200], eid[64];
    size_t n;

    begin_stream(a, "{\"code\":\"print hello\"}");
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_header(a, "Content-Type"), "text/event-stream");
    assert_string_equal(api_header(a, "X-Accel-Buffering"), "no");
    text = api_body(a, &n);
    at = strstr(text, "id: 1\nevent: execution\ndata: {\"execution_id\":\"");
    assert_ptr_equal(at, text);
    (void)snprintf(eid, sizeof(eid), "%.36s",
                   at + strlen("id: 1\nevent: execution\ndata: {\"execution_id\":\""));
    assert_non_null(strstr(text, "id: 2\nevent: stdout\ndata: {\"text\":\"hello\"}\n\n"));
    at = strstr(text, "id: 3\nevent: result\ndata: {");
    assert_non_null(at);
    assert_null(strstr(at, "\"stdout\":\""));
    assert_non_null(strstr(at, "\"reason\":\"completed\""));
    assert_null(strstr(at + 10, "event:"));
    /* The stream again: whole, from its middle, from its end. */
    (void)snprintf(target, sizeof(target), "/v1/executions/%s/events", eid);
    api_expect(a, "GET", target, NULL, 200, NULL);
    assert_non_null(strstr(api_body(a, &n), "id: 1\n"));
    assert_non_null(strstr(api_body(a, &n), "id: 3\nevent: result\n"));
    api_begin(a, "GET", target);
    fake_header(&a->f, "last-event-id", "2");
    api_finish_expect(a, 200, NULL);
    assert_memory_equal(api_body(a, &n), "id: 3\nevent: result\n", 20);
    api_begin(a, "GET", target);
    fake_header(&a->f, "last-event-id", "3");
    api_finish_expect(a, 200, NULL);
    (void)api_body(a, &n);
    assert_int_equal(n, 0);
    api_begin(a, "GET", target);
    fake_header(&a->f, "last-event-id", "x");
    api_finish_expect(a, 400, "bad_header");
    api_expect(a, "HEAD", target, NULL, 200, NULL);
    (void)snprintf(target, sizeof(target), "/v1/executions/%s/events?last_event_id=2", eid);
    api_expect(a, "GET", target, NULL, 200, NULL);
    assert_memory_equal(api_body(a, &n), "id: 3\n", 6);
    /* Retention has taken the events: said as such. */
    spool_remove(a->base.spool, eid);
    api_expect(a, "GET", target, NULL, 410, "events_gone");
}

/* A stream that was refused is a problem like any other. */
static void
test_stream_refused(void **state)
{
    struct api_fixture *a = *state;

    begin_stream(a, "{\"code\":1}");
    api_finish_expect(a, 400, "wrong_type");
    api_begin(a, "POST", EXEC);
    fake_header(&a->f, "accept", "text/event-stream;q=0, */*");
    fake_json(&a->f, "{\"code\":\"print 1\"}");
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_header(a, "Content-Type"), "application/json");
    api_begin(a, "POST", EXEC);
    fake_header(&a->f, "accept", "text/event-streams");
    fake_json(&a->f, "{\"code\":\"print 1\"}");
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_header(a, "Content-Type"), "application/json");
}

/* The caller goes: the run ends long before its code would, or goes on where that was asked for. */
static void
test_disconnect(void **state)
{
    struct api_fixture *a = *state;
    int64_t since = clock_mono_ms();

    api_begin(a, "POST", EXEC);
    fake_json(&a->f, "{\"code\":\"sleep 5000\"}");
    a->f.gone = true;
    (void)api_finish(a);
    assert_int_equal(a->f.x.status, 499);
    assert_true(clock_mono_ms() - since < 4000);
    (void)poll(NULL, 0, 5); /* the list is ordered by the millisecond a run began in */
    begin_stream(a, "{\"code\":\"sleep 300\",\"on_disconnect\":\"continue\"}");
    a->f.gone_at = 20;
    since = clock_mono_ms();
    (void)api_finish(a);
    assert_true(clock_mono_ms() - since >= 300);
    api_expect(a, "GET", "/v1/sessions/s/executions", NULL, 200, NULL);
    assert_string_equal(api_text(a, "executions.0.reason"), "completed");
    api_expect(a, "GET", "/v1/sessions/s", NULL, 200, NULL);
    assert_string_equal(api_text(a, "state"), "ready");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_pages_of_history, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_once, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_idempotency, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_stream, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_stream_refused, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_disconnect, api_setup_session, api_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
