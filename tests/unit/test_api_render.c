/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "api/render.h"

#include <stdio.h>
#include <string.h>

#include "json/json.h"

static const struct manager_isolation isolation = {.tier = "container", .egress = "none"};
static const struct api_options options = {.max_output_bytes = 65536, .isolation = &isolation};

static struct session
a_session(void)
{
    struct session s = {.sid = 7,
                        .owner = "docs",
                        .name = "s1",
                        .binding = BIND_CONVERSATION,
                        .binding_value = "Gespräch \"7\"",
                        .state = SESSION_BUSY,
                        .backend = "jupyter",
                        .stateful = true,
                        .generation = 3,
                        .ttl_ms = 1500,
                        .created_at = 1000,
                        .busy_execution = "e-1",
                        .busy_since = 2000,
                        .state_lost = true};

    return s;
}

static json_val
parse(const struct buf *b, struct json_doc **doc)
{
    struct err err = ERR_INIT;

    if (json_parse(b->data, b->len, 32, 0, doc, &err) < 0)
        fail_msg("no JSON: %s: %.200s", err.msg, b->data);
    return json_root(*doc);
}

static void
test_session(void **state)
{
    struct buf out = BUF_INIT(65536);
    struct json_doc *doc = NULL;
    struct session s = a_session();
    struct json_writer w;
    json_val v;

    (void)state;
    jw_init(&w, &out);
    render_session(&options, &w, NULL, &s);
    v = parse(&out, &doc);
    assert_string_equal(json_cstring(json_member(v, "session_id")), "s1");
    assert_string_equal(json_cstring(json_member(v, "conversation_id")), "Gespräch \"7\"");
    assert_int_equal(json_type(json_member(v, "workflow_run_id")), JSON_ABSENT);
    assert_int_equal(json_type(json_member(v, "expires_at")), JSON_NULL);
    assert_string_equal(json_cstring(json_member(v, "created_at")), "1970-01-01T00:00:01.000Z");
    assert_string_equal(json_cstring(json_member(json_member(v, "busy"), "execution_id")), "e-1");
    assert_string_equal(json_cstring(json_member(v, "isolation")), "container");
    assert_string_equal(json_cstring(json_member(v, "egress")), "none");
    assert_true(json_bool(json_member(v, "state_lost"), false));
    assert_true(json_bool(json_member(v, "stateful"), false));
    assert_non_null(strstr(out.data, "\"ttl\":1.5,"));
    assert_int_equal(json_length(json_member(v, "labels")), 0);
    json_free(doc);
    buf_done(&out);
}

static void
test_result(void **state)
{
    struct bundle bundle = {.data = (char *)"{\"text/plain\":\"<Figure>\"}",
                            .data_len = 25,
                            .metadata = (char *)"{}",
                            .metadata_len = 2};
    struct plot plot = {.format = "png",
                        .content_base64 = (char *)"AAAA",
                        .content_len = 4,
                        .of_display = true,
                        .index = 0};
    char *traceback[] = {(char *)"line \x1b[31m1"};
    struct execution_result r = {.reason = REASON_EXCEPTION,
                                 .exit_code = 1,
                                 .out = (char *)"left\0right",
                                 .out_len = 10,
                                 .bytes_stdout = 10,
                                 .execution_count = -1,
                                 .error_name = (char *)"ValueError",
                                 .traceback = traceback,
                                 .n_traceback = 1,
                                 .displays = &bundle,
                                 .n_displays = 1,
                                 .plots = &plot,
                                 .n_plots = 1};
    struct execution row = {.eid = "e-1", .session_name = "s1", .owner = "docs", .duration_ms = 5};
    struct buf out = BUF_INIT(render_result_max(&options));
    struct json_doc *doc = NULL;
    struct session s = a_session();
    size_t n;
    json_val v;

    (void)state;
    assert_int_equal(render_result(&options, &row, &r, &s, true, &out), 0);
    v = parse(&out, &doc);
    assert_string_equal(json_cstring(json_member(v, "status")), "error");
    assert_string_equal(json_cstring(json_member(v, "reason")), "exception");
    assert_memory_equal(json_string(json_member(v, "stdout"), &n), "left\0right", 10);
    assert_int_equal(n, 10);
    assert_string_equal(json_cstring(json_member(v, "stderr")), "");
    assert_int_equal(json_type(json_member(v, "execution_count")), JSON_NULL);
    assert_int_equal(json_type(json_member(v, "error_value")), JSON_NULL);
    assert_string_equal(json_cstring(json_member(json_item(json_member(v, "plots"), 0), "of")),
                        "display_data");
    assert_int_equal(json_length(json_member(v, "display_data")), 1);
    assert_int_equal(json_type(json_member(v, "incomplete")), JSON_ABSENT);
    assert_int_equal(json_length(json_member(v, "artifacts")), 0);
    assert_string_equal(json_cstring(json_member(json_member(v, "session"), "session_id")), "s1");
    json_free(doc);
    /* As a stream's last event, of a session that is gone: without the text. */
    assert_int_equal(render_result(&options, &row, &r, NULL, false, &out), 0);
    v = parse(&out, &doc);
    assert_int_equal(json_type(json_member(v, "stdout")), JSON_ABSENT);
    assert_int_equal(json_length(json_member(v, "session")), 2);
    json_free(doc);
    buf_done(&out);
}

/* Control characters take six bytes each: the answer stays within its bound, valid and marked. */
static void
test_result_bounded(void **state)
{
    static char controls[65536], picture[200000];
    struct execution_result r = {.reason = REASON_COMPLETED,
                                 .ok = true,
                                 .out = controls,
                                 .out_len = sizeof(controls),
                                 .err = controls,
                                 .err_len = sizeof(controls)};
    struct plot plot = {.format = "png", .content_base64 = picture, .content_len = sizeof(picture)};
    struct execution row = {.eid = "e-1"};
    struct buf out = BUF_INIT(300000);
    struct json_doc *doc = NULL;
    json_val v;

    (void)state;
    memset(controls, 1, sizeof(controls));
    memset(picture, 'A', sizeof(picture));
    assert_int_equal(render_result(&options, &row, &r, NULL, true, &out), 0);
    v = parse(&out, &doc);
    assert_true(json_bool(json_member(v, "truncated"), false));
    json_free(doc);
    r.plots = &plot;
    r.n_plots = 1;
    assert_int_equal(render_result(&options, &row, &r, NULL, true, &out), 0);
    v = parse(&out, &doc);
    assert_true(json_bool(json_member(v, "truncated"), false));
    assert_int_equal(json_length(json_member(v, "plots")), 0);
    json_free(doc);
    buf_done(&out);
}

static void
test_result_of_row(void **state)
{
    struct execution row = {
        .eid = "e-1", .reason = REASON_ABORTED, .bytes_stdout = 5, .error_name = "E"};
    struct execution_result r;

    (void)state;
    result_of_row(&row, &r);
    assert_int_equal(r.exit_code, -1);
    assert_int_equal(r.reason, REASON_ABORTED);
    assert_true(r.truncated);
    assert_string_equal(r.error_name, "E");
    execution_result_done(&r);
}

static void
test_execution_and_file(void **state)
{
    struct execution e = {.eid = "e-1", .session_name = "s1", .request_id = "r"};
    struct file_info info = {.type = FILE_DIRECTORY, .mtime_ns = 1500000000};
    struct buf out = BUF_INIT(65536);
    struct json_doc *doc = NULL;
    struct json_writer w;
    json_val v;

    (void)state;
    jw_init(&w, &out);
    jw_array(&w, NULL);
    render_execution(&w, NULL, &e);
    render_file(&w, NULL, "a\xff", 2, &info, 0);
    render_file(&w, NULL, "d", 1, &info, 0);
    jw_end_array(&w);
    v = parse(&out, &doc);
    assert_string_equal(json_cstring(json_member(json_item(v, 0), "status")), "running");
    assert_int_equal(json_type(json_member(json_item(v, 0), "reason")), JSON_NULL);
    assert_string_equal(json_cstring(json_member(json_item(v, 1), "path_base64")), "Yf8=");
    assert_int_equal(json_type(json_member(json_item(v, 1), "path")), JSON_ABSENT);
    assert_string_equal(json_cstring(json_member(json_item(v, 2), "type")), "directory");
    assert_string_equal(json_cstring(json_member(json_item(v, 2), "mtime")),
                        "1970-01-01T00:00:01.500Z");
    json_free(doc);
    buf_done(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_result_bounded),
        cmocka_unit_test(test_result_of_row),
        cmocka_unit_test(test_execution_and_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
