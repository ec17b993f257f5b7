/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sig.h"
#include "sandbox/transport/ws.h"
#include "support/peer.h"

static struct peer gateway;

struct heard {
    size_t bytes, messages, pieces;
    bool begun_right;
    char text[64];
};

static void
on_piece(void *ctx, const char *p, size_t n, bool first, bool final)
{
    struct heard *h = ctx;

    if (first)
        h->begun_right = true;
    if (h->bytes < sizeof h->text)
        memcpy(h->text + h->bytes, p,
               n < sizeof h->text - h->bytes ? n : sizeof h->text - h->bytes);
    h->bytes += n;
    h->pieces++;
    h->messages += final;
}

static int
setup(void **state)
{
    struct ws_pool *p;

    if (fake_gateway_start(&gateway, "{}") < 0 || ws_pool_new(NULL, &p, NULL) < 0)
        return -1;
    sig_ignore_pipe();
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    ws_pool_free(*state);
    peer_stop(&gateway);
    return 0;
}

static void
wait_state(struct ws_pool *p, struct ws *w, enum ws_state not_this)
{
    struct deadline d = deadline_in(5000);

    while (ws_state(w) == not_this && !deadline_passed(d))
        ws_wait(p, NULL, 0, 100);
}

static struct ws *
dial(struct ws_pool *p, const char *path, struct heard *h)
{
    char url[200];
    struct ws *w = NULL;
    struct err err = ERR_INIT;

    memset(h, 0, sizeof *h);
    (void)snprintf(url, sizeof url, "ws://127.0.0.1:%d%s", gateway.port, path);
    assert_int_equal(ws_connect(p, url, "token sesame", on_piece, h, &w, &err), 0);
    wait_state(p, w, WS_CONNECTING);
    return w;
}

static void
wait_messages(struct ws_pool *p, const struct heard *h, size_t n)
{
    struct deadline d = deadline_in(20000);

    while (h->messages < n && !deadline_passed(d))
        ws_wait(p, NULL, 0, 100);
}

static void
test_echo_is_quick(void **state)
{
    struct heard h;
    struct ws *w = dial(*state, "/echo", &h);
    int64_t t;

    assert_int_equal(ws_state(w), WS_OPEN);
    t = clock_mono_ms();
    for (size_t i = 1; i <= 20; i++) {
        assert_int_equal(ws_send(w, "hello", 5, NULL), 0);
        wait_messages(*state, &h, i);
    }
    assert_int_equal(h.messages, 20);
    assert_memory_equal(h.text, "hellohello", 10);
    assert_in_range(clock_mono_ms() - t, 0, 600); /* 20 delayed ACKs would be 800 */
    ws_close(w);
}

static void
test_large_messages_stream(void **state)
{
    const size_t n = 12u * 1024 * 1024;
    struct heard h;
    struct ws *w = dial(*state, "/echo", &h);
    _cleanup_free_ char *p = xcalloc(1, n);

    memset(p, 'x', n);
    assert_int_equal(ws_send(w, p, n, NULL), 0);
    assert_int_equal(p[n - 1], 'x'); /* the caller's bytes stay as they were */
    wait_messages(*state, &h, 1);
    assert_int_equal(h.bytes, n);
    assert_int_equal(h.messages, 1);
    assert_in_range(h.pieces, 2, 100000);
    assert_true(h.begun_right);
    assert_false(ws_sending(w));
    ws_close(w);
}

static void
test_too_large_to_send(void **state)
{
    struct heard h;
    struct ws *w = dial(*state, "/echo", &h);
    _cleanup_free_ char *p = xcalloc(1, WS_SEND_MAX + 1);
    struct err err = ERR_INIT;

    assert_int_equal(ws_send(w, p, WS_SEND_MAX + 1, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(ws_state(w), WS_OPEN);
    ws_close(w);
}

static void
test_several_at_once(void **state)
{
    struct heard a, b;
    struct ws *w = dial(*state, "/echo", &a);
    struct ws *v = dial(*state, "/echo", &b);

    assert_int_equal(ws_send(w, "2a", 2, NULL), 0);
    assert_int_equal(ws_send(v, "2b", 2, NULL), 0);
    wait_messages(*state, &a, 2);
    wait_messages(*state, &b, 2);
    assert_memory_equal(a.text, "2a2a", 4);
    assert_memory_equal(b.text, "2b2b", 4);
    ws_close(w);
    assert_int_equal(ws_send(v, "b", 1, NULL), 0);
    wait_messages(*state, &b, 3);
    assert_int_equal(b.messages, 3);
    ws_close(v);
}

static void
test_refused_upgrade(void **state)
{
    struct heard h;
    struct ws *w = dial(*state, "/nothing/here", &h);

    assert_int_equal(ws_state(w), WS_CLOSED);
    assert_true(strlen(ws_reason(w)) > 0);
    ws_close(w);
}

static void
test_nobody_there(void **state)
{
    struct heard h = {0};
    struct ws *w = NULL;
    struct err err = ERR_INIT;

    if (ws_connect(*state, "ws://127.0.0.1:1/x", NULL, on_piece, &h, &w, &err) == 0) {
        wait_state(*state, w, WS_CONNECTING);
        assert_int_equal(ws_state(w), WS_CLOSED);
        ws_close(w);
        return;
    }
    assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static void
test_bad_urls(void **state)
{
    static const char *const bad[] = {"http://127.0.0.1/", "127.0.0.1", ""};
    struct heard h = {0};
    struct ws *w = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = ERR_INIT;
        assert_int_equal(ws_connect(*state, bad[i], NULL, on_piece, &h, &w, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void
test_close_while_connecting(void **state)
{
    struct heard h = {0};
    struct ws *w = NULL;
    char url[100];

    (void)snprintf(url, sizeof url, "ws://127.0.0.1:%d/echo", gateway.port);
    assert_int_equal(ws_connect(*state, url, NULL, on_piece, &h, &w, NULL), 0);
    ws_close(w);
    ws_service(*state);
}

static void
test_waiting_has_an_end(void **state)
{
    struct heard h;
    struct ws *w = dial(*state, "/echo", &h);
    int64_t t = clock_mono_ms();

    ws_wait(*state, NULL, 0, 50);
    assert_in_range(clock_mono_ms() - t, 0, 500);
    ws_close(w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo_is_quick),      cmocka_unit_test(test_large_messages_stream),
        cmocka_unit_test(test_too_large_to_send),  cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_refused_upgrade),    cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_bad_urls),           cmocka_unit_test(test_close_while_connecting),
        cmocka_unit_test(test_waiting_has_an_end),
    };

    return cmocka_run_group_tests(tests, setup, teardown) != 0;
}
