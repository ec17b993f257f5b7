/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/utf8.h"
#include "sandbox/jupyter/collect.h"
#include "sandbox/output/failure.h"

#define MAX_OUTPUT 4096
#define MAX_MESSAGE (1 << 20)

/* An execution: messages go in by run(), events come out as "type:text" lines. */
struct fixture {
    struct collect *c;
    struct kmsg_reader *r;
    struct buf events;
    int n_events;
    struct execution_result result;
};

static void
on_event(void *ctx, const struct exec_event *ev)
{
    static const char *const names[] = {
        [EVENT_STDOUT] = "out",           [EVENT_STDERR] = "err",
        [EVENT_DISPLAY_DATA] = "display", [EVENT_EXECUTE_RESULT] = "result",
        [EVENT_CLEAR_OUTPUT] = "clear",   [EVENT_ERROR] = "error",
    };
    struct fixture *f = ctx;

    assert_true(ev->type < sizeof(names) / sizeof(names[0]) && names[ev->type]);
    assert_true(utf8_valid(ev->p, ev->n));
    f->n_events++;
    assert_int_equal(buf_printf(&f->events, "%s:%.*s\n", names[ev->type], (int)ev->n, ev->p), 0);
}

static void
on_text(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n)
{
    struct fixture *f = ctx;

    assert_int_equal(h->type, KMSG_STREAM);
    collect_text(f->c, s, p, n);
}

static void
on_message(void *ctx, const struct kmsg *m)
{
    struct fixture *f = ctx;

    collect_message(f->c, m);
}

static void
on_oversize(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    struct fixture *f = ctx;

    collect_oversize(f->c, h, s, n);
}

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct kmsg_handler h = {f, on_text, on_message, on_oversize};

    if (!f)
        return -1;
    f->c = collect_new(&(struct output_options){MAX_OUTPUT, f, on_event});
    f->r = kmsg_reader_new(MAX_MESSAGE, &h);
    buf_init(&f->events, 1 << 26);
    execution_result_init(&f->result);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    execution_result_done(&f->result);
    collect_free(f->c);
    kmsg_reader_free(f->r);
    buf_done(&f->events);
    free(f);
    return 0;
}

static void
run(struct fixture *f, const char *type, const char *content)
{
    struct buf m = BUF_INIT(64u << 20);
    struct err err = ERR_INIT;

    assert_int_equal(buf_printf(&m,
                                "{\"header\":{\"msg_type\":\"%s\"},\"parent_header\":{\"msg_id\":"
                                "\"p\"},\"metadata\":{},\"content\":%s,\"channel\":\"iopub\"}",
                                type, content),
                     0);
    assert_int_equal(kmsg_reader_add(f->r, m.data, m.len, true, &err), 0);
    buf_done(&m);
}

static void
out(struct fixture *f, const char *json_text)
{
    char content[256];

    (void)snprintf(content, sizeof(content), "{\"name\":\"stdout\",\"text\":\"%s\"}", json_text);
    run(f, "stream", content);
}

static void
finish(struct fixture *f)
{
    run(f, "status", "{\"execution_state\":\"idle\"}");
    run(f, "execute_reply", "{\"status\":\"ok\",\"execution_count\":7}");
    collect_take(f->c, &f->result);
}

static void
t_usual(void **state)
{
    struct fixture *f = *state;
    struct execution_result *r = &f->result;
    struct collect_state s;

    run(f, "status", "{\"execution_state\":\"busy\"}");
    out(f, "a\\rb\\n");
    run(f, "stream", "{\"name\":\"stderr\",\"text\":\"w\"}");
    run(f, "execute_result",
        "{\"data\":{\"text/plain\":\"3\"},\"metadata\":{},\"execution_count\":7}");
    collect_state(f->c, &s);
    assert_false(s.idle || s.replied || s.has_error);
    finish(f);
    collect_state(f->c, &s);
    assert_true(s.idle && s.replied && s.reply_ok);
    assert_string_equal(
        buf_str(&f->events),
        "out:a\rb\n\nerr:w\nresult:{\"data\":{\"text/plain\":\"3\"},\"metadata\":{},"
        "\"execution_count\":7}\n");
    assert_string_equal(r->out, "b\n");
    assert_string_equal(r->err, "w");
    assert_int_equal(r->bytes_stdout, 4);
    assert_int_equal(r->bytes_stderr, 1);
    assert_int_equal(r->n_results, 1);
    assert_string_equal(r->results[0].data, "{\"text/plain\":\"3\"}");
    assert_string_equal(r->results[0].metadata, "{}");
    assert_int_equal(r->bytes_rich, 20);
    assert_int_equal(r->execution_count, 7);
    assert_true(r->ok && r->reason == REASON_COMPLETED && r->exit_code == 0);
    assert_false(r->truncated || r->incomplete);
    assert_null(r->error_name);
}

static void
t_incomplete(void **state)
{
    struct fixture *f = *state;

    run(f, "status", "{\"execution_state\":\"idle\"}");
    collect_take(f->c, &f->result);
    assert_true(f->result.incomplete);
    assert_int_equal(f->result.reason, REASON_NONE);
    assert_int_equal(f->result.exit_code, -1);
    assert_string_equal(f->result.out, "");
    assert_int_equal(f->result.execution_count, -1);
}

static void
t_aborted(void **state)
{
    struct fixture *f = *state;

    run(f, "execute_reply", "{\"status\":\"aborted\"}");
    collect_take(f->c, &f->result);
    assert_int_equal(f->result.reason, REASON_ABORTED);
    assert_int_equal(f->result.exit_code, -1);
    assert_null(f->result.error_name);
}

static void
t_error(void **state)
{
    struct fixture *f = *state;

    run(f, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"f1\",\"f2\"]}");
    run(f, "execute_reply",
        "{\"status\":\"error\",\"ename\":\"R\",\"evalue\":\"x\",\"traceback\":[]}");
    collect_take(f->c, &f->result);
    assert_string_equal(buf_str(&f->events), "error:{\"error_name\":\"E\",\"error_value\":\"v\","
                                             "\"traceback\":[\"f1\",\"f2\"]}\n");
    assert_int_equal(f->result.reason, REASON_EXCEPTION);
    assert_int_equal(f->result.exit_code, 1);
    assert_string_equal(f->result.error_name, "E");
    assert_string_equal(f->result.error_value, "v");
    assert_int_equal(f->result.n_traceback, 2);
    assert_string_equal(f->result.traceback[1], "f2");
}

/* The reply tells the error where no message did; a shown traceback with an ok reply is no failure
 * and not lost either. */
static void
t_error_of_one_only(void **state)
{
    struct fixture *f = *state;

    run(f, "execute_reply", "{\"status\":\"error\",\"ename\":\"SystemExit\",\"evalue\":\"3\"}");
    collect_take(f->c, &f->result);
    assert_string_equal(f->result.error_name, "SystemExit");
    assert_int_equal(f->result.n_traceback, 0);
    assert_int_equal(f->n_events, 0);
    assert_int_equal(teardown(state) + setup(state), 0);
    f = *state;
    run(f, "error", "{\"ename\":\"ZeroDivisionError\",\"evalue\":\"v\",\"traceback\":[]}");
    finish(f);
    assert_true(f->result.ok);
    assert_string_equal(f->result.error_name, "ZeroDivisionError");
}

static void
t_error_of_wrong_types(void **state)
{
    static const struct {
        const char *content, *name, *value;
        size_t frames;
    } rows[] = {
        {"{}", "Error", "", 0},
        {"null", "Error", "", 0},
        {"{\"ename\":null,\"evalue\":null,\"traceback\":null}", "Error", "", 0},
        {"{\"ename\":1,\"evalue\":{\"a\":[NaN]},\"traceback\":\"f\"}", "1", "{\"a\":[null]}", 1},
        {"{\"ename\":\"\",\"evalue\":\"a\\u0000b\\ud800\",\"traceback\":[1,null,\"x\"]}", "Error",
         "a b\xef\xbf\xbd", 3},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture *f = *state;

        run(f, "error", rows[i].content);
        collect_take(f->c, &f->result);
        assert_string_equal(f->result.error_name, rows[i].name);
        assert_string_equal(f->result.error_value, rows[i].value);
        assert_int_equal(f->result.n_traceback, rows[i].frames);
        assert_int_equal(teardown(state) + setup(state), 0);
    }
}

static void
t_error_huge(void **state)
{
    struct fixture *f = *state;
    struct buf b = BUF_INIT(32u << 20);

    (void)buf_puts(&b, "{\"evalue\":\"");
    for (int i = 0; i < 1000000; i++)
        (void)buf_puts(&b, "\\u00e9");
    (void)buf_puts(&b, "\",\"ename\":\"E\",\"traceback\":[\"first\"");
    for (int i = 0; i < 500; i++)
        (void)buf_printf(&b, ",\"%d\"", i);
    (void)buf_puts(&b, ",\"last\"]}");
    assert_int_equal(b.failed, 0);
    run(f, "error", b.data);
    buf_done(&b);
    run(f, "execute_reply", "{\"status\":\"error\"}");
    collect_take(f->c, &f->result);
    assert_string_equal(f->result.error_name, "E");
    assert_true(strlen(f->result.error_value) > 10000);
    assert_true(strlen(f->result.error_value) <= FAILURE_VALUE_MAX);
    assert_true(utf8_valid(f->result.error_value, strlen(f->result.error_value)));
    assert_int_equal(f->result.n_traceback, FAILURE_FRAMES_MAX);
    assert_string_equal(f->result.traceback[0], "first");
    assert_string_equal(f->result.traceback[FAILURE_FRAMES_MAX - 1], "last");
    assert_true(f->result.truncated);
}

static void
t_flood(void **state)
{
    struct fixture *f = *state;
    struct collect_state s;

    for (int i = 0; i < 3000; i++)
        out(f, "0123456789abcdef\\n");
    collect_state(f->c, &s);
    assert_int_equal(s.bytes, 3000 * 17);
    finish(f);
    assert_int_equal(f->result.bytes_stdout, 3000 * 17);
    assert_true(f->result.truncated);
    assert_true(f->result.out_len > MAX_OUTPUT && f->result.out_len < MAX_OUTPUT + 64);
    assert_non_null(strstr(f->result.out, "bytes left out] …\n"));
    assert_int_equal(f->n_events, 3000); /* the events are whole */
}

/* ---- rich data ---- */

static const char png[] = "iVBORw0KGgo=";

static void
t_plots(void **state)
{
    struct fixture *f = *state;
    struct execution_result *r = &f->result;

    out(f, "x");
    run(f, "display_data",
        "{\"data\":{\"text/plain\":\"<Figure>\"},\"metadata\":{\"a\":Infinity}}");
    run(f, "display_data",
        "{\"data\":{\"text/plain\":\"F\",\"image/png\":\"iVBORw0K\\nGgo=\\n\",\"image/svg+xml\":"
        "\"<svg/>\"},\"metadata\":{\"image/png\":{\"width\":1}},\"transient\":{}}");
    run(f, "execute_result",
        "{\"data\":{\"image/jpeg\":\"/9j/\",\"image/gif\":\"not base64\",\"image/webp\":[1],"
        "\"application/json\":{\"a\":NaN}},\"metadata\":{},\"execution_count\":1}");
    finish(f);
    assert_int_equal(r->n_displays, 2);
    assert_string_equal(r->displays[0].metadata, "{\"a\":null}");
    assert_string_equal(r->displays[1].data, "{\"text/plain\":\"F\"}");
    assert_string_equal(r->displays[1].metadata, "{\"image/png\":{\"width\":1}}");
    assert_string_equal(r->results[0].data, "{\"image/gif\":\"not base64\",\"image/webp\":[1],"
                                            "\"application/json\":{\"a\":null}}");
    assert_int_equal(r->n_plots, 3);
    assert_string_equal(r->plots[0].format, "jpeg");
    assert_false(r->plots[0].of_display);
    assert_int_equal(r->plots[0].index, 0);
    assert_string_equal(r->plots[1].format, "png");
    assert_string_equal(r->plots[1].content_base64, png);
    assert_true(r->plots[1].of_display);
    assert_int_equal(r->plots[1].index, 1);
    assert_string_equal(r->plots[2].format, "svg");
    assert_string_equal(r->plots[2].content_base64, "PHN2Zy8+");
    assert_non_null(strstr(f->events.data, "\"image/png\":\"iVBORw0K\\nGgo=\\n\""));
    assert_non_null(strstr(f->events.data, "\"transient\":{},\"update\":false}"));
}

static void
t_rich_of_wrong_types(void **state)
{
    static const char *const rows[] = {"null", "[]", "{}", "{\"data\":[],\"metadata\":7}",
                                       "{\"data\":{\"a\\u0000b\":1},\"transient\":[]}"};
    struct fixture *f = *state;

    for (size_t i = 0; i < 5; i++) {
        run(f, "display_data", rows[i]);
        run(f, "execute_result", rows[i]);
        run(f, "update_display_data", rows[i]);
        run(f, "clear_output", i < 4 ? "{\"wait\":true}" : "{\"wait\":5}");
    }
    run(f, "display_data", "{\"data\":{}}");
    finish(f);
    assert_int_equal(f->result.n_displays, 1);
    assert_string_equal(f->result.displays[0].data, "{}");
    assert_int_equal(f->n_events, 21);
}

/* A picture is whole or absent; what comes after it and fits is kept. */
static void
t_rich_bound(void **state)
{
    struct fixture *f = *state;
    struct buf b = BUF_INIT(4u << 20);

    for (size_t n = 8000; n <= 3000000; n += 2992000) { /* over the output, over the message */
        buf_clear(&b);
        (void)buf_puts(&b, "{\"data\":{\"image/png\":\"");
        for (size_t i = 0; i < n; i++)
            (void)buf_putc(&b, 'A');
        (void)buf_puts(&b, "\"},\"metadata\":{}}");
        run(f, "display_data", b.data);
    }
    buf_done(&b);
    run(f, "display_data", "{\"data\":{\"text/plain\":\"small\"},\"metadata\":{}}");
    finish(f);
    assert_int_equal(f->result.n_displays, 1);
    assert_int_equal(f->result.n_plots, 0);
    assert_true(f->result.truncated);
    assert_true(f->result.bytes_rich > 3008000);
    assert_int_equal(f->n_events, 2);
}

static void
t_many_displays(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3000; i++)
        run(f, "display_data", "{\"data\":{},\"metadata\":{}}");
    finish(f);
    assert_true(f->result.n_displays <= MAX_OUTPUT / 64);
    assert_true(f->result.truncated);
    assert_int_equal(f->result.bytes_rich, 3000 * 4);
}

static void
t_updates(void **state)
{
    struct fixture *f = *state;
    char content[256];

    run(f, "display_data",
        "{\"data\":{\"a\":0},\"metadata\":{},\"transient\":{\"display_id\":\"d\"}}");
    run(f, "display_data", "{\"data\":{\"b\":0},\"metadata\":{}}");
    run(f, "display_data",
        "{\"data\":{\"a\":0},\"metadata\":{},\"transient\":{\"display_id\":\"d\"}}");
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(content, sizeof(content),
                       "{\"data\":{\"a\":%d,\"image/png\":\"%s\"},\"metadata\":{},"
                       "\"transient\":{\"display_id\":\"d\"}}",
                       i, png);
        run(f, "update_display_data", content);
    }
    run(f, "update_display_data", /* of an earlier execution's display */
        "{\"data\":{\"c\":1},\"metadata\":{},\"transient\":{\"display_id\":\"other\"}}");
    finish(f);
    assert_int_equal(f->result.n_displays, 4);
    assert_string_equal(f->result.displays[0].data, "{\"a\":9999}");
    assert_string_equal(f->result.displays[1].data, "{\"b\":0}");
    assert_string_equal(f->result.displays[2].data, "{\"a\":9999}");
    assert_string_equal(f->result.displays[3].data, "{\"c\":1}");
    assert_int_equal(f->result.n_plots, 2);
    assert_int_equal(f->result.plots[1].index, 2);
    assert_false(f->result.truncated);
    assert_non_null(strstr(f->events.data, "\"update\":true}"));
}

static void
t_clear_output(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 1000; i++)
        out(f, "flood flood flood");
    run(f, "display_data", "{\"data\":{\"a\":1},\"metadata\":{}}");
    run(f, "clear_output", "{\"wait\":false}");
    out(f, "one");
    run(f, "clear_output", "{\"wait\":true}");
    run(f, "clear_output", "{\"wait\":true}");
    run(f, "display_data", "{\"data\":{\"b\":1},\"metadata\":{}}");
    out(f, "two");
    run(f, "clear_output", "{\"wait\":true}"); /* nothing follows: what is there stays */
    finish(f);
    assert_string_equal(f->result.out, "two");
    assert_int_equal(f->result.n_displays, 1);
    assert_string_equal(f->result.displays[0].data, "{\"b\":1}");
    assert_false(f->result.truncated);
    assert_int_equal(f->result.bytes_stdout, 17006);
    assert_non_null(
        strstr(f->events.data, "clear:{\"wait\":false}\nout:one\nclear:{\"wait\":true}"));
}

/* Help shown in a pager comes with the reply. */
static void
t_page(void **state)
{
    struct fixture *f = *state;

    run(f, "execute_reply",
        "{\"status\":\"ok\",\"payload\":[{\"source\":\"page\",\"data\":{\"text/plain\":\"help\"},"
        "\"start\":0},{\"source\":\"set_next_input\",\"text\":\"x\"},7,{\"source\":null}]}");
    collect_take(f->c, &f->result);
    assert_int_equal(f->result.n_displays, 1);
    assert_string_equal(f->result.displays[0].data, "{\"text/plain\":\"help\"}");
    assert_int_equal(f->n_events, 1);
    assert_true(f->result.ok);
}

/* What was too large for everything is told, in its place. */
static void
t_oversize(void **state)
{
    struct fixture *f = *state;
    struct kmsg_head h = {.type = KMSG_STREAM};
    struct collect_state s;

    out(f, "before");
    collect_oversize(f->c, &h, KMSG_STDOUT, 1000);
    out(f, "after");
    h.type = KMSG_EXECUTE_REPLY;
    collect_oversize(f->c, &h, KMSG_STREAM_OTHER, 1000);
    collect_state(f->c, &s);
    assert_true(s.replied && s.reply_ok);
    h.type = KMSG_ERROR;
    collect_oversize(f->c, &h, KMSG_STREAM_OTHER, 1000);
    collect_state(f->c, &s);
    assert_true(s.has_error && !s.reply_ok);
    collect_take(f->c, &f->result);
    assert_string_equal(f->result.out, "before\n… [1000 bytes left out] …\nafter");
    assert_int_equal(f->result.bytes_stdout, 1011);
    assert_string_equal(f->result.error_name, "Error");
    assert_true(f->result.truncated);
    assert_int_equal(f->result.reason, REASON_EXCEPTION);
}

static void
t_no_sink(void **state)
{
    struct collect *c = collect_new(&(struct output_options){0, NULL, NULL});
    struct execution_result r;

    (void)state;
    collect_text(c, KMSG_STDOUT, "x", 1);
    collect_text(c, KMSG_STDERR, "", 0);
    collect_take(c, &r);
    assert_string_equal(r.out, "\n… [1 bytes left out] …\n");
    assert_string_equal(r.err, "");
    assert_true(r.truncated);
    execution_result_done(&r);
    collect_free(c);
    collect_free(NULL);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(t_usual),
        TEST(t_incomplete),
        TEST(t_aborted),
        TEST(t_error),
        TEST(t_error_of_one_only),
        TEST(t_error_of_wrong_types),
        TEST(t_error_huge),
        TEST(t_flood),
        TEST(t_plots),
        TEST(t_rich_bound),
        TEST(t_rich_of_wrong_types),
        TEST(t_many_displays),
        TEST(t_updates),
        TEST(t_clear_output),
        TEST(t_oversize),
        TEST(t_page),
        cmocka_unit_test(t_no_sink),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
