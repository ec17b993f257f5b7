/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "api/sse.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "json/json.h"
#include "support/fake_carrier.h"
#include "support/tmpdir.h"

struct fixture {
    char dir[PATH_MAX];
    struct api api;
    struct api_call call;
    struct fake_carrier f;
    struct spool_writer *w;
    struct sse s;
};

static void
start(struct fixture *x, int64_t after)
{
    struct err err = ERR_INIT;

    memset(x, 0, sizeof(*x));
    tmpdir_make(x->dir);
    x->api.o.spool_dir = x->dir;
    x->api.o.max_output_bytes = 65536;
    x->api.o.keepalive_ms = 100000;
    fake_request(&x->f, "GET", "/v1/executions/e1/events");
    x->call.api = &x->api;
    x->call.x = &x->f.x;
    assert_int_equal(spool_create(x->dir, "e1", 64 << 20, &x->w, &err), 0);
    assert_int_equal(sse_begin(&x->s, &x->call), 0);
    (void)after;
    assert_int_equal(sse_attach(&x->s, "e1", after, &err), 0);
}

static void
stop(struct fixture *x)
{
    sse_done(&x->s);
    spool_writer_free(x->w);
    fake_done(&x->f);
    tmpdir_remove(x->dir);
}

static void
put(struct fixture *x, enum exec_event_type type, const char *p, size_t n)
{
    const struct exec_event ev = {.type = type, .p = p, .n = n};

    assert_int_equal(spool_append(x->w, &ev, NULL), 0);
}

static const char *
body(struct fixture *x)
{
    size_t n;

    return fake_answer_body(&x->f, &n);
}

static void
test_framing(void **state)
{
    struct fixture x;

    (void)state;
    start(&x, 0);
    put(&x, EVENT_EXECUTION, "{\"execution_id\":\"e1\"}", 21);
    put(&x, EVENT_STDOUT, "a\n\"b\"\0", 6);
    put(&x, EVENT_DISPLAY_DATA, "{\n \"data\": {}}", 14);
    assert_int_equal(sse_pump(&x.s), SSE_IDLE);
    assert_string_equal(body(&x),
                        "id: 1\nevent: execution\ndata: {\"execution_id\":\"e1\"}\n\n"
                        "id: 2\nevent: stdout\ndata: {\"text\":\"a\\n\\\"b\\\"\\u0000\"}\n\n"
                        "id: 3\nevent: display_data\ndata: {  \"data\": {}}\n\n");
    assert_string_equal(fake_answer_header(&x.f, "Content-Type"), "text/event-stream");
    assert_string_equal(fake_answer_header(&x.f, "Cache-Control"), "no-store");
    put(&x, EVENT_RESULT, "{}", 2);
    (void)spool_finish(x.w, NULL, NULL, 0, NULL);
    x.w = NULL;
    assert_int_equal(sse_pump(&x.s), SSE_ENDED);
    assert_non_null(strstr(body(&x), "id: 4\nevent: result\ndata: {}\n\n"));
    stop(&x);
}

/* A text of many pieces comes out whole and on one line, cut nowhere inside a character. */
static void
test_long_text(void **state)
{
    static char text[300001];
    struct json_doc *doc = NULL;
    struct err err = ERR_INIT;
    struct fixture x;
    const char *data;
    size_t n;

    (void)state;
    for (size_t i = 0; i + 3 <= sizeof(text) - 1; i += 3)
        memcpy(text + i, i % 2 ? "\xe2\x82\xac" : "\n\x01\"", 3);
    start(&x, 0);
    put(&x, EVENT_STDOUT, text, sizeof(text) - 1);
    assert_int_equal(sse_pump(&x.s), SSE_IDLE);
    data = strstr(body(&x), "data: ") + 6;
    n = strcspn(data, "\n");
    assert_string_equal(data + n, "\n\n");
    assert_int_equal(json_parse(data, n, 4, 0, &doc, &err), 0);
    data = json_string(json_member(json_root(doc), "text"), &n);
    assert_int_equal(n, sizeof(text) - 1);
    assert_memory_equal(data, text, n);
    json_free(doc);
    stop(&x);
}

/* A reader that takes nothing holds a bounded buffer, and gets everything once it reads. */
static void
test_slow_reader(void **state)
{
    static char text[20000];
    struct fixture x;

    (void)state;
    memset(text, 'x', sizeof(text));
    start(&x, 0);
    x.f.takes = 10;
    for (int i = 0; i < 100; i++) {
        put(&x, EVENT_STDOUT, text, sizeof(text));
        assert_int_equal(sse_pump(&x.s), SSE_PENDING);
        assert_true(x.s.out.len <= 65536);
    }
    x.f.takes = -1;
    assert_int_equal(sse_flush(&x.s), 0);
    assert_non_null(strstr(body(&x), "id: 100\n"));
    assert_true(x.f.out.len > 100 * sizeof(text));
    stop(&x);
}

static void
test_resume(void **state)
{
    struct fixture x;

    (void)state;
    start(&x, 2);
    put(&x, EVENT_STDOUT, "1", 1);
    put(&x, EVENT_STDOUT, "2", 1);
    put(&x, EVENT_STDOUT, "3", 1);
    assert_int_equal(sse_pump(&x.s), SSE_IDLE);
    assert_string_equal(body(&x), "id: 3\nevent: stdout\ndata: {\"text\":\"3\"}\n\n");
    stop(&x);
}

static void
test_keep_alive_and_gone(void **state)
{
    struct fixture x;

    (void)state;
    start(&x, 0);
    x.api.o.keepalive_ms = 1;
    (void)usleep(5000);
    assert_int_equal(sse_pump(&x.s), SSE_IDLE);
    assert_string_equal(body(&x), ": keep-alive\n\n");
    x.f.gone = true;
    put(&x, EVENT_STDOUT, "1", 1);
    assert_int_equal(sse_pump(&x.s), SSE_GONE);
    assert_int_equal(sse_pump(&x.s), SSE_GONE);
    stop(&x);
}

/* Whoever ran it died: the stream ends with one result all the same, numbered on. */
static void
test_result_made_up(void **state)
{
    struct execution row = {.eid = "e1", .reason = REASON_ABORTED};
    struct execution_result r;
    struct fixture x;
    const char *at;

    (void)state;
    start(&x, 0);
    execution_result_init(&r);
    r.reason = REASON_ABORTED;
    put(&x, EVENT_STDOUT, "1", 1);
    sse_end(&x.s, &row, &r, NULL, 0);
    at = strstr(body(&x), "id: 2\nevent: result\n");
    assert_non_null(at);
    assert_non_null(strstr(at, "\"reason\":\"aborted\""));
    sse_end(&x.s, &row, &r, NULL, 0);
    assert_null(strstr(at + 20, "event: result"));
    stop(&x);
}

/* Taken up behind its result, an ended stream has nothing more to say. */
static void
test_resume_behind_result(void **state)
{
    struct execution row = {.eid = "e1", .reason = REASON_COMPLETED};
    struct execution_result r;
    struct fixture x;

    (void)state;
    start(&x, 1);
    put(&x, EVENT_RESULT, "{}", 2);
    (void)spool_finish(x.w, NULL, NULL, 0, NULL);
    x.w = NULL;
    execution_result_init(&r);
    assert_int_equal(sse_pump(&x.s), SSE_ENDED);
    sse_end(&x.s, &row, &r, NULL, 1);
    assert_string_equal(body(&x), "");
    stop(&x);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framing),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_keep_alive_and_gone),
        cmocka_unit_test(test_result_made_up),
        cmocka_unit_test(test_resume_behind_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
