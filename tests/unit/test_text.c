/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "sandbox/output/text.h"

/* What comes out when p is added in chunks of `chunk` bytes (0: at once). */
static char *
through(size_t max, const char *p, size_t n, size_t chunk, bool *cut)
{
    struct text *t = malloc(sizeof(*t));
    size_t len = 0;
    char *s;

    assert_non_null(t);
    text_init(t, max);
    for (size_t i = 0; i < n; i += chunk ? chunk : n)
        text_add(t, p + i, !chunk || n - i < chunk ? n - i : chunk);
    s = text_take(t, &len, cut);
    assert_non_null(s);
    assert_true(len <= max + TEXT_MARKER_MAX);
    assert_true(utf8_valid(s, len));
    assert_int_equal(strlen(s), len);
    free(t);
    return s;
}

static void
t_terminal(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", ""},
        {"plain\ntext", "plain\ntext"},
        {"1%\r2%\r100%\n", "100%\n"},
        {"abcdef\rXY\n", "XYcdef\n"},     /* the rest of the line stays */
        {"abc\r\ndef\r\n", "abc\ndef\n"}, /* \r\n is a line's end */
        {"abc\r", "abc"},
        {"\r\r\rabc", "abc"},
        {"abc\b\bX\n", "aXc\n"},
        {"\b\bx", "x"},
        {"abc\b \b", "ab "},
        {"aé€😀b\rXYZ\n", "XYZ😀b\n"}, /* a place is a character, not a byte */
        {"abc\ré€\n", "é€c\n"},
        {"é\bx", "x"},
        {"\033[31mred\033[0m\n", "\033[31mred\033[0m\n"},
        {"\033[31mabc\033[0m\rX\n", "Xbc\033[0m\n"},
        {"abc\r\033[1mX\n", "\033[1mXbc\n"}, /* a sequence takes no place */
        {"Downloading\r\033[KDone\n", "Done\n"},
        {"Downloading\r\033[2KDone\n", "Done\n"},
        {"Downloading\r\033[0KDone\n", "Done\n"},
        {"\033[K", "\033[K"}, /* nothing to erase: kept */
        {"abcdef\r\033]0;title\aX\n", "\033]0;title\aXbcdef\n"},
        {"abcdef\r\033]0;title\033\\X\n", "\033]0;title\033\\Xbcdef\n"},
        {"abcdef\r\033\033[1mX\n", "\033\033[1mXbcdef\n"},
        {"a\033[0m\bX", "X\033[0m"},
        {"first\nab\rX\nlast", "first\nXb\nlast"},
        {"\x1b[2J\x1b]0;t\x07", "\x1b[2J\x1b]0;t\x07"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool cut = true;
        char *s = through(4096, rows[i].in, strlen(rows[i].in), 0, &cut);

        assert_string_equal(s, rows[i].out);
        assert_false(cut);
        free(s);
    }
}

/* ASCII can be cut anywhere, and it must not matter. */
static void
t_chunks(void **state)
{
    static const char in[] = "a\rbc\r\n\033[31mred\033[0m\r\033[Kx\by\n10%\r\033[1m20%\033[0m\r30%";
    bool cut;
    char *whole = through(4096, in, sizeof(in) - 1, 0, &cut);

    (void)state;
    for (size_t chunk = 1; chunk < sizeof(in); chunk++) {
        char *s = through(4096, in, sizeof(in) - 1, chunk, &cut);

        assert_string_equal(s, whole);
        free(s);
    }
    free(whole);
}

static void
t_bound(void **state)
{
    enum { N = 400002 };
    char *in = malloc(N), want[TEXT_MARKER_MAX];

    (void)state;
    assert_non_null(in);
    memset(in, 'x', N);
    in[0] = 'S';
    in[N - 1] = 'E';
    for (size_t chunk = 0; chunk < 70000; chunk = chunk * 9 + 4099) {
        bool cut = false;
        char *s = through(1000, in, N, chunk, &cut);

        assert_true(cut);
        (void)snprintf(want, sizeof(want), "\n… [%d bytes left out] …\n", N - 1000);
        assert_int_equal(strlen(s), 1000 + strlen(want));
        assert_int_equal(s[0], 'S');
        assert_int_equal(s[strlen(s) - 1], 'E');
        assert_memory_equal(s + 500, want, strlen(want));
        free(s);
    }
    for (size_t max = 0; max < 5; max++) {
        bool cut = false;

        free(through(max, in, N, 7, &cut));
        assert_true(cut);
    }
    bool cut = true;
    char *s = through(N, in, N, 0, &cut); /* exactly at the bound nothing is lost */
    assert_false(cut);
    assert_int_equal(strlen(s), N);
    free(s);
    free(in);
}

/* No bound cuts a character. */
static void
t_bound_utf8(void **state)
{
    struct buf in = BUF_INIT(1 << 20);

    (void)state;
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buf_puts(&in, "😀€é"), 0);
    for (size_t max = 0; max < 40; max++) {
        bool cut = false;

        free(through(max, in.data, in.len, 0, &cut)); /* checks that it is UTF-8 */
        assert_true(cut);
    }
    buf_done(&in);
}

/* The last state of a bar stands at the end, and the bar counts once. */
static void
t_bar(void **state)
{
    struct text *t = malloc(sizeof(*t));
    char line[64];
    size_t len = 0;
    bool cut = true;
    char *s;

    (void)state;
    assert_non_null(t);
    text_init(t, 100);
    for (int i = 0; i <= 20000; i++)
        text_add(t, line, (size_t)snprintf(line, sizeof(line), "\r%d%%", i));
    s = text_take(t, &len, &cut);
    assert_string_equal(s, "20000%");
    assert_false(cut);
    free(s);
    text_init(t, 100);
    for (int i = 0; i < 1000; i++)
        text_add(t, "filler\n", 7);
    for (int i = 0; i <= 2000; i++)
        text_add(t, line, (size_t)snprintf(line, sizeof(line), "\r%d%%", i));
    s = text_take(t, &len, &cut);
    assert_true(cut);
    assert_string_equal(s + len - 6, "\n2000%");
    free(s);
    free(t);
}

/* A line longer than what can be overwritten: nothing is lost, memory stays what it is. */
static void
t_long_line(void **state)
{
    enum { N = 3 * TEXT_LINE_MAX };
    char *in = malloc(N + 3);
    bool cut;
    char *s;

    (void)state;
    assert_non_null(in);
    memset(in, 'a', N);
    memcpy(in + N, "\rb", 3);
    s = through(10 * N, in, N + 2, 1000, &cut);
    assert_int_equal(strlen(s) > N - TEXT_LINE_MAX, 1);
    assert_non_null(strchr(s, 'b'));
    free(s);
    for (int i = 0; i < N; i += 4) /* sequences that are inserted again and again */
        memcpy(in + i, "\r\033[m", 4);
    s = through(100, in, N, 0, &cut);
    free(s);
    free(in);
}

static void
t_clear(void **state)
{
    struct text *t = malloc(sizeof(*t));
    bool cut = true;
    size_t len = 0;
    char *s;

    (void)state;
    assert_non_null(t);
    text_init(t, 10);
    text_add(t, "a long line of text\rand more", 28);
    text_clear(t);
    text_add(t, "new", 3);
    s = text_take(t, &len, &cut);
    assert_string_equal(s, "new");
    assert_false(cut);
    free(s);
    text_done(t);
    free(t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_terminal),   cmocka_unit_test(t_chunks), cmocka_unit_test(t_bound),
        cmocka_unit_test(t_bound_utf8), cmocka_unit_test(t_bar),    cmocka_unit_test(t_long_line),
        cmocka_unit_test(t_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
