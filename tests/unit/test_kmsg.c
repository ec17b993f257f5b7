/* SPDX-License-Identifier: MIT */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "sandbox/jupyter/kmsg.h"

#define MAX_BYTES 65536

#define HEADER(type) "{\"header\":{\"msg_id\":\"m1\",\"session\":\"ks\",\"msg_type\":\"" type "\"}"
#define PARENT ",\"parent_header\":{\"msg_id\":\"p1\",\"msg_type\":\"execute_request\"}"
#define MESSAGE(type, content)                                                                     \
    HEADER(type) PARENT ",\"metadata\":{},\"content\":" content ",\"channel\":\"iopub\"}"

/* Everything that was handed on. */
struct seen {
    struct buf text;
    enum kmsg_stream stream;
    size_t largest; /* piece */
    int n_messages, n_oversize;
    uint64_t oversize;
    struct kmsg_head head;
    enum kmsg_channel channel;
    enum kmsg_state state;
    struct buf content; /* ename, evalue, frames: a line each */
    bool trimmed;
};

static void
on_text(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, const char *p, size_t n)
{
    struct seen *seen = ctx;

    assert_true(utf8_valid(p, n));
    seen->head = *h;
    seen->stream = s;
    if (n > seen->largest)
        seen->largest = n;
    if (seen->text.len < MAX_BYTES) /* of a huge one the beginning is enough */
        assert_int_equal(buf_append(&seen->text, p, n), 0);
}

static void
on_message(void *ctx, const struct kmsg *m)
{
    struct seen *seen = ctx;
    json_val frames = json_member(m->content, "traceback");
    size_t n;
    const char *p = json_string(json_member(m->content, "evalue"), &n);

    seen->n_messages++;
    seen->head = m->head;
    seen->channel = m->channel;
    seen->state = kmsg_execution_state(m);
    seen->trimmed = m->trimmed;
    buf_clear(&seen->content);
    if (p)
        assert_int_equal(buf_append(&seen->content, p, n), 0);
    for (size_t i = 0; i < json_length(frames); i++) {
        p = json_string(json_item(frames, i), &n);
        assert_non_null(p);
        assert_int_equal(buf_putc(&seen->content, '\n'), 0);
        assert_int_equal(buf_append(&seen->content, p, n), 0);
    }
}

static void
on_oversize(void *ctx, const struct kmsg_head *h, enum kmsg_stream s, uint64_t n)
{
    struct seen *seen = ctx;

    seen->n_oversize++;
    seen->oversize = n;
    seen->head = *h;
    seen->stream = s;
}

static struct kmsg_reader *
reader(struct seen *seen)
{
    const struct kmsg_handler h = {seen, on_text, on_message, on_oversize};

    memset(seen, 0, sizeof(*seen));
    buf_init(&seen->text, 1 << 22);
    buf_init(&seen->content, 1 << 24);
    return kmsg_reader_new(MAX_BYTES, &h);
}

static void
done(struct kmsg_reader *r, struct seen *seen)
{
    kmsg_reader_free(r);
    buf_done(&seen->text);
    buf_done(&seen->content);
}

static int
add(struct kmsg_reader *r, const char *s)
{
    return kmsg_reader_add(r, s, strlen(s), true, NULL);
}

/* ---- requests ---- */

static void
t_execute_request(void **state)
{
    static const char code[] = "print('a\0b\n\"\\é')";
    const struct kmsg_execute x = {.code = code,
                                   .code_len = sizeof(code) - 1,
                                   .store_history = true,
                                   .stop_on_error = true,
                                   .user_expressions = "{\"a\":\"1\"}"};
    struct buf out = BUF_INIT(65536), small = BUF_INIT(100);
    char id[ID_UUID_SIZE], other[ID_UUID_SIZE];
    struct json_doc *doc = NULL;
    struct err err = ERR_INIT;
    json_val root, content;
    size_t n;
    const char *p;

    (void)state;
    assert_int_equal(kmsg_execute_request(&out, "se", &x, id, &err), 0);
    assert_int_equal(json_parse(out.data, out.len, 10, 0, &doc, &err), 0);
    root = json_root(doc);
    content = json_member(root, "content");
    assert_string_equal(json_cstring(json_member(root, "channel")), "shell");
    assert_string_equal(json_cstring(json_member(json_member(root, "header"), "msg_id")), id);
    assert_string_equal(json_cstring(json_member(json_member(root, "header"), "session")), "se");
    assert_string_equal(json_cstring(json_member(json_member(root, "header"), "version")), "5.3");
    assert_string_equal(json_cstring(json_member(json_member(root, "header"), "msg_type")),
                        "execute_request");
    assert_int_equal(json_type(json_member(root, "parent_header")), JSON_OBJECT);
    p = json_string(json_member(content, "code"), &n);
    assert_int_equal(n, sizeof(code) - 1);
    assert_memory_equal(p, code, n);
    assert_false(json_bool(json_member(content, "silent"), true));
    assert_true(json_bool(json_member(content, "store_history"), false));
    assert_false(json_bool(json_member(content, "allow_stdin"), true));
    assert_true(json_bool(json_member(content, "stop_on_error"), false));
    assert_string_equal(json_cstring(json_member(json_member(content, "user_expressions"), "a")),
                        "1");
    json_free(doc);
    buf_clear(&out);
    assert_int_equal(kmsg_execute_request(&out, "se", &x, other, &err), 0);
    assert_string_not_equal(id, other);
    assert_int_equal(kmsg_execute_request(&small, "se", &x, other, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    buf_done(&small);
    buf_done(&out);
}

static void
t_info_request(void **state)
{
    struct buf out = BUF_INIT(4096);
    char id[ID_UUID_SIZE];

    (void)state;
    assert_int_equal(kmsg_kernel_info_request(&out, "s", id, NULL), 0);
    assert_non_null(strstr(out.data, "\"msg_type\":\"kernel_info_request\""));
    assert_non_null(strstr(out.data, id));
    buf_done(&out);
}

/* ---- reading ---- */

static const char stream_message[] = MESSAGE(
    "stream", "{\"name\":\"stderr\",\"text\":\"a\\n\\\"b\\\\\\u00e9\\ud83d\\ude00\\/ é😀 \\ud800x"
              "\\udc00\\u0000\\t\"}");
static const char stream_text[] = "a\n\"b\\é😀/ é😀 \xef\xbf\xbdx\xef\xbf\xbd\0\t";

/* A boundary between chunks at every byte, and all of them at once. */
static void
t_every_boundary(void **state)
{
    size_t n = sizeof(stream_message) - 1;
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    for (size_t cut = 0; cut <= n + 1; cut++) {
        buf_clear(&seen.text);
        if (cut <= n) {
            assert_int_equal(kmsg_reader_add(r, stream_message, cut, false, NULL), 0);
            assert_int_equal(kmsg_reader_add(r, stream_message + cut, n - cut, true, NULL), 0);
        } else {
            for (size_t i = 0; i < n; i++)
                assert_int_equal(kmsg_reader_add(r, stream_message + i, 1, i + 1 == n, NULL), 0);
        }
        assert_int_equal(seen.text.len, sizeof(stream_text) - 1);
        assert_memory_equal(seen.text.data, stream_text, seen.text.len);
        assert_int_equal(seen.stream, KMSG_STDERR);
        assert_string_equal(seen.head.session, "ks");
        assert_true(kmsg_is_for(&seen.head, "p1"));
        assert_false(kmsg_is_for(&seen.head, "p2"));
    }
    assert_int_equal(seen.n_messages + seen.n_oversize, 0);
    done(r, &seen);
}

static void
t_boundary_in_whole_message(void **state)
{
    static const char m[] = MESSAGE(
        "error", "{\"ename\":\"E\",\"evalue\":\"v\\u00e9 é\",\"traceback\":[\"f\\n\",\"g\"]}");
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    for (size_t cut = 0; cut < sizeof(m); cut++) {
        assert_int_equal(kmsg_reader_add(r, m, cut, false, NULL), 0);
        assert_int_equal(kmsg_reader_add(r, m + cut, sizeof(m) - 1 - cut, true, NULL), 0);
        assert_int_equal(seen.n_messages, cut + 1);
        assert_int_equal(seen.head.type, KMSG_ERROR);
        assert_int_equal(seen.channel, KMSG_IOPUB);
        assert_string_equal(buf_str(&seen.content), "vé é\nf\n\ng");
        assert_false(seen.trimmed);
    }
    done(r, &seen);
}

/* Members in an order no known gateway uses: nothing is lost while it fits. */
static void
t_member_order(void **state)
{
    static const char *const rows[] = {
        "{\"content\":{\"name\":\"stdout\",\"text\":\"x\\ny\"}" PARENT
        ",\"header\":{\"msg_type\":\"stream\"}}",
        HEADER("stream") PARENT ",\"content\":{\"text\":\"x\\ny\",\"name\":\"stdout\"}}",
        "{\"parent_header\":{\"x\":{\"msg_id\":\"no\"},\"msg_id\":\"p1\"},\"metadata\":"
        "{\"msg_type\":\"error\"},\"header\":{\"x\":{\"msg_type\":\"error\"},\"msg_type\":"
        "\"stream\"},"
        "\"content\":{\"y\":[{\"text\":\"no\",\"name\":\"stderr\"}],\"name\":\"stdout\",\"text\":"
        "\"x\\ny\"}}",
        "  { \"header\" : { \"msg_\\u0074ype\" : \"stream\" } , "
        "\"parent_header\":{\"msg_id\":\"p1\"}"
        ", \"content\": {\"name\" : \"stdout\" , \"text\" : \"x\\ny\" , \"z\":\"\"} } ",
    };
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&seen.text);
        assert_int_equal(add(r, rows[i]), 0);
        assert_string_equal(buf_str(&seen.text), "x\ny");
        assert_int_equal(seen.stream, KMSG_STDOUT);
        assert_true(kmsg_is_for(&seen.head, "p1"));
    }
    done(r, &seen);
}

static void
t_no_message(void **state)
{
    static const char *const rows[] = {
        "",
        "null",
        "[]",
        "{}",
        "x",
        "{\"header\":1}",
        "{\"header\":{\"msg_type\":1}}",
        "{\"header\":{\"msg_type\":\"status\"}",
        MESSAGE("status", "{\"a\":}"),
        MESSAGE("stream", "{\"name\":\"stdout\",\"text\":\"a\"}") "}",
        MESSAGE("stream", "{\"name\":\"stdout\",\"text\":\"\\q\"}"),
        MESSAGE("stream", "{\"name\":\"stdout\",\"text\":\"\\u00g0\"}"),
        HEADER("stream") PARENT ",\"content\":{\"name\":\"stdout\",\"text\":\"cut",
        HEADER("stream") PARENT ",\"content\":{\"name\":\"stdout\",\"text\":\"a\"]}",
    };
    struct err err = ERR_INIT;
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(kmsg_reader_add(r, rows[i], strlen(rows[i]), true, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(seen.n_messages, i); /* and the next one is read */
        assert_int_equal(add(r, MESSAGE("status", "{\"execution_state\":\"idle\"}")), 0);
        assert_int_equal(seen.state, KMSG_STATE_IDLE);
    }
    assert_int_equal(kmsg_reader_add(r, "{\"header\":{", 11, false, &err), 0);
    kmsg_reader_reset(r);
    assert_int_equal(add(r, MESSAGE("status", "{\"execution_state\":\"dead\"}")), 0);
    assert_int_equal(seen.state, KMSG_STATE_DEAD);
    done(r, &seen);
}

/* Members of types nobody expects are absent, and no reason to lose the message. */
static void
t_wrong_types(void **state)
{
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    assert_int_equal(add(r,
                         "{\"header\":{\"msg_type\":\"status\",\"session\":[]},\"parent_header\":"
                         "null,\"content\":[1],\"channel\":7,\"metadata\":\"x\"}"),
                     0);
    assert_int_equal(seen.n_messages, 1);
    assert_string_equal(seen.head.session, "");
    assert_false(kmsg_is_for(&seen.head, ""));
    assert_int_equal(seen.state, KMSG_STATE_UNKNOWN);
    assert_int_equal(seen.channel, KMSG_CHANNEL_UNKNOWN);
    assert_int_equal(add(r, MESSAGE("stream", "{\"name\":1,\"text\":[\"a\"]}")), 0);
    assert_int_equal(add(r, MESSAGE("stream", "{\"name\":\"stdout\"}")), 0);
    assert_int_equal(add(r, MESSAGE("stream", "null")), 0);
    assert_int_equal(seen.text.len, 0);
    assert_int_equal(add(r, MESSAGE("display_data", "{\"data\":{\"a\":NaN,\"b\":[-Infinity]}}")),
                     0);
    assert_int_equal(seen.head.type, KMSG_DISPLAY_DATA);
    assert_int_equal(add(r, MESSAGE("error", "{\"evalue\":\"\xff\xc3\"}")), 0);
    assert_string_equal(buf_str(&seen.content), "\xef\xbf\xbd\xef\xbf\xbd");
    assert_int_equal(add(r, MESSAGE("stream", "{\"name\":\"stdout\",\"text\":\"\xff\xc3\"}")), 0);
    assert_string_equal(buf_str(&seen.text), "\xef\xbf\xbd\xef\xbf\xbd");
    done(r, &seen);
}

/* ---- larger than memory allows ---- */

/* Bytes allocated now; 0 under a sanitizer, which has an allocator of its own. */
static size_t
allocated(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* head, then n times unit, then tail, in chunks as a WebSocket gives them; whatever the size, the
 * reader takes no more memory than its maximum (and the half of it more that growing costs). */
static void
add_huge(struct kmsg_reader *r, const char *head, const char *unit, size_t n, const char *tail)
{
    struct buf chunk = BUF_INIT(1 << 17);
    size_t per_chunk = 65536 / strlen(unit), before;

    for (size_t i = 0; i < per_chunk; i++)
        assert_int_equal(buf_puts(&chunk, unit), 0);
    before = allocated();
    assert_int_equal(kmsg_reader_add(r, head, strlen(head), false, NULL), 0);
    while (n > 0) {
        size_t k = n < per_chunk ? n : per_chunk;

        assert_int_equal(kmsg_reader_add(r, chunk.data, strlen(unit) * k, false, NULL), 0);
        assert_true(allocated() <= before + (KMSG_STRING_MAX + 200000) * 3 / 2);
        n -= k;
    }
    assert_int_equal(kmsg_reader_add(r, tail, strlen(tail), true, NULL), 0);
    buf_done(&chunk);
}

/* A character of several bytes, bare or escaped, where one piece of text ends and the next begins.
 */
static void
t_piece_boundary(void **state)
{
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);
    struct buf m = BUF_INIT(1 << 17);

    (void)state;
    for (size_t n = 32768 - 12; n < 32768 + 2; n++)
        for (int escaped = 0; escaped < 2; escaped++) {
            buf_clear(&m);
            buf_clear(&seen.text);
            (void)buf_puts(&m,
                           HEADER("stream") PARENT ",\"content\":{\"name\":\"stdout\",\"text\":\"");
            for (size_t i = 0; i < n; i++)
                (void)buf_putc(&m, 'a');
            (void)buf_puts(&m, escaped ? "\\u00e9\\ud83d\\ude00\\u20ac" : "é😀€");
            assert_int_equal(buf_puts(&m, "\"}}"), 0);
            assert_int_equal(kmsg_reader_add(r, m.data, m.len, true, NULL), 0);
            assert_int_equal(seen.text.len, n + 9);
            assert_string_equal(seen.text.data + n, "é😀€");
        }
    buf_done(&m);
    done(r, &seen);
}

static void
t_huge_stream(void **state)
{
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    add_huge(r, HEADER("stream") PARENT ",\"content\":{\"name\":\"stdout\",\"text\":\"S", "abc\\n",
             1000000, "E\"}}");
    assert_true(seen.largest <= 32768 + 3);
    assert_memory_equal(seen.text.data, "Sabc\nabc\n", 9);
    assert_int_equal(seen.n_oversize, 0);
    done(r, &seen);
}

static void
t_huge_other(void **state)
{
    static const char tail[] = "\"}},\"channel\":\"iopub\"}";
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);
    const char *head = HEADER("display_data") PARENT ",\"content\":{\"data\":{\"text/html\":\"";

    (void)state;
    add_huge(r, head, "x", 5000000, tail);
    assert_int_equal(seen.n_messages, 0);
    assert_int_equal(seen.n_oversize, 1);
    assert_int_equal(seen.oversize, strlen(head) + 5000000 + strlen(tail));
    assert_int_equal(seen.head.type, KMSG_DISPLAY_DATA);
    assert_true(kmsg_is_for(&seen.head, "p1"));
    /* Who it is for is found behind the content, too. */
    add_huge(r, "{\"content\":{\"name\":\"stderr\",\"text\":\"", "x\\n", 100000,
             "\"}" PARENT ",\"header\":{\"msg_type\":\"stream\",\"session\":\"k2\"}}");
    assert_int_equal(seen.n_oversize, 2);
    assert_int_equal(seen.head.type, KMSG_STREAM);
    assert_int_equal(seen.stream, KMSG_STDERR);
    assert_string_equal(seen.head.session, "k2");
    assert_true(kmsg_is_for(&seen.head, "p1"));
    assert_int_equal(add(r, MESSAGE("status", "{\"execution_state\":\"busy\"}")), 0);
    assert_int_equal(seen.state, KMSG_STATE_BUSY);
    done(r, &seen);
}

/* Errors and replies are cut, never dropped: long strings, long arrays, both. */
static void
t_huge_error(void **state)
{
    static const char tail[] = "\",\"traceback\":[\"f1\",\"f2\"],\"ename\":\"E\"}}";
    struct seen seen;
    const struct kmsg_handler h = {&seen, on_text, on_message, on_oversize};
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    kmsg_reader_free(r);
    r = kmsg_reader_new(KMSG_STRING_MAX + 200000, &h);
    add_huge(r, HEADER("error") PARENT ",\"content\":{\"evalue\":\"", "\\u00e9", 2000000, tail);
    assert_int_equal(seen.n_messages, 1);
    assert_true(seen.trimmed);
    assert_int_equal(seen.content.len, KMSG_STRING_MAX / 6 * 2 + 6);
    assert_string_equal(seen.content.data + seen.content.len - 6, "\nf1\nf2");
    add_huge(r, HEADER("error") PARENT ",\"content\":{\"traceback\":[\"f\"", ",[\"f\"],\"f\"", 0,
             "],\"evalue\":\"v\"}}");
    assert_string_equal(buf_str(&seen.content), "v\nf");
    assert_false(seen.trimmed);
    add_huge(r, HEADER("execute_reply") PARENT ",\"content\":{\"traceback\":[\"f\"", ",\"g\"",
             100000, "],\"evalue\":\"v\"}}");
    assert_int_equal(seen.n_messages, 3);
    assert_int_equal(seen.content.len, 1 + 2 * KMSG_ITEMS_MAX);
    assert_true(seen.trimmed);
    assert_int_equal(seen.head.type, KMSG_EXECUTE_REPLY);
    done(r, &seen);
}

static void
t_too_deep(void **state)
{
    struct seen seen;
    struct kmsg_reader *r = reader(&seen);

    (void)state;
    add_huge(r, HEADER("display_data") PARENT ",\"content\":{\"data\":", "[", 1000, "");
    assert_int_equal(seen.n_oversize, 1);
    assert_int_equal(seen.head.type, KMSG_DISPLAY_DATA);
    assert_int_equal(seen.n_messages, 0);
    add_huge(r, "{\"content\":", "[", 1000, "");
    assert_int_equal(seen.n_oversize, 2);
    assert_int_equal(seen.head.type, KMSG_OTHER);
    done(r, &seen);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_execute_request), cmocka_unit_test(t_info_request),
        cmocka_unit_test(t_every_boundary),  cmocka_unit_test(t_boundary_in_whole_message),
        cmocka_unit_test(t_member_order),    cmocka_unit_test(t_no_message),
        cmocka_unit_test(t_wrong_types),     cmocka_unit_test(t_piece_boundary),
        cmocka_unit_test(t_huge_stream),     cmocka_unit_test(t_huge_other),
        cmocka_unit_test(t_huge_error),      cmocka_unit_test(t_too_deep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
