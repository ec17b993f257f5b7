/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <string.h>

#include "json/json.h"

static int
parses(const char *text, unsigned flags, struct err *err)
{
    struct json_doc *doc = NULL;
    int r = json_parse(text, strlen(text), 8, flags, &doc, err);

    json_free(doc);
    return r;
}

static void
accepted(void **state)
{
    (void)state;
    const char *good[] = {"null",
                          " 1 ",
                          "-0",
                          "true",
                          "\"\\ud83d\\ude00\"",
                          "\"\\\\ud800 \\uD83D\\uDE00\\uffff\"",
                          "{\"a\":{\"a\":1},\"b\":{\"a\":2}}",
                          "[[[[[[[[1]]]]]]]]",
                          "\"it's {:} NaN\"",
                          "{}\n"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(parses(good[i], 0, NULL), 0);
}

static void
refused(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         " ",
                         "{\"a\":1,}",
                         "[1,]",
                         "{'a':1}",
                         "[NaN]",
                         "[Infinity]",
                         "-Infinity",
                         "[1.]",
                         "[01]",
                         "[.5]",
                         "[1e]",
                         "[+1]",
                         "-",
                         "[1] x",
                         "1 2",
                         "tru",
                         "TRUE",
                         "\"\xff\"",
                         "\"\xe0\x80\xaa\"",
                         "{\"\xed\xa0\x80\":1}",
                         "[1,2",
                         "\"abc",
                         "[1 2]",
                         "/*c*/1",
                         "[\"\\x\"]",
                         "{\"a\" 1}",
                         "\"\t\"",
                         "{1:2}",
                         "\xef\xbb\xbf{}",
                         "\"\\",
                         "{\"a\":1,\"\\u0061\":2}",
                         "[{\"a\":1,\"b\":{},\"a\":2}]",
                         "{\"a\\u0000b\":1}",
                         "]",
                         "{\"a\"}",
                         "\"\\ud800\"",
                         "\"\\udc00\\ud800\"",
                         "\"\\uD800\\uD800\\uDC00\"",
                         "\"\\ud800\\u0041\"",
                         "\"\\ud800\\\\udc00\"",
                         "{\"\\udfff\":1}",
                         "\v1"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = ERR_INIT;

        assert_int_equal(parses(bad[i], 0, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_string_equal(err.slug, "invalid_json");
    }
    struct json_doc *doc;
    assert_int_equal(json_parse("1\0", 2, 8, 0, &doc, NULL), -1);
    assert_int_equal(json_parse("12", 1, 8, 0, &doc, NULL), 0); /* n ends it */
    json_free(doc);
}

static void
depth(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    static char deep[200001];

    assert_int_equal(parses("[[[[[[[[[]]]]]]]]]", 0, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(parses("[[[[{\"a\":[[[{}]]]}]]]]", 0, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    memset(deep, '[', sizeof deep - 1);
    assert_int_equal(parses(deep, 0, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
}

static void
lax(void **state)
{
    (void)state;
    const char *text = "{\"a\":1,\"a\":NaN,\"n\":[-Infinity,Infinity]}";
    struct json_doc *doc = NULL;
    double d = 5;

    assert_int_equal(parses(text, JSON_LAX_NUMBERS, NULL), -1);
    assert_int_equal(parses(text, JSON_LAX_KEYS, NULL), -1);
    assert_int_equal(
        json_parse(text, strlen(text), 4, JSON_LAX_NUMBERS | JSON_LAX_KEYS, &doc, NULL), 0);
    json_val a = json_member(json_root(doc), "a");
    assert_int_equal(json_type(a), JSON_DOUBLE);
    assert_false(json_double(a, &d));
    assert_true(d == 5);
    json_free(doc);
    assert_int_equal(json_parse("\"\\ud800\"", 8, 4, JSON_LAX, &doc, NULL), 0);
    assert_string_equal(json_cstring(json_root(doc)), "\xef\xbf\xbd");
    json_free(doc);
    assert_int_equal(parses("[infinity]", JSON_LAX_NUMBERS, NULL), -1);
    assert_int_equal(parses("[Inf]", JSON_LAX_NUMBERS, NULL), -1);
}

static void
getters(void **state)
{
    (void)state;
    const char *text = "{\"s\":\"a\\u0000b\",\"t\":\"x\",\"e\":\"\",\"n\":null,\"b\":true,"
                       "\"i\":-7,\"d\":2.5,\"w\":3.0,\"l\":[1,null],\"o\":{}}";
    struct json_doc *doc = NULL;
    size_t len = 0;
    int64_t i = 0;
    double d = 0;

    assert_int_equal(json_parse(text, strlen(text), 4, 0, &doc, NULL), 0);
    json_val root = json_root(doc);
    assert_memory_equal(json_string(json_member(root, "s"), &len), "a\0b", 4);
    assert_int_equal(len, 3);
    assert_null(json_cstring(json_member(root, "s")));
    assert_string_equal(json_cstring(json_member(root, "t")), "x");
    assert_string_equal(json_cstring(json_member(root, "e")), "");
    assert_null(json_string(json_member(root, "i"), &len));
    assert_int_equal(json_type(json_member(root, "n")), JSON_NULL);
    assert_int_equal(json_type(json_member(root, "missing")), JSON_ABSENT);
    assert_int_equal(json_type(json_member(json_member(root, "n"), "x")), JSON_ABSENT);
    assert_true(json_bool(json_member(root, "b"), false));
    assert_true(json_bool(json_member(root, "i"), true));
    assert_true(json_i64(json_member(root, "i"), -7, 7, &i));
    assert_int_equal(i, -7);
    assert_false(json_i64(json_member(root, "i"), -6, 7, &i));
    assert_false(json_i64(json_member(root, "d"), 0, 9, &i));
    assert_true(json_i64(json_member(root, "w"), 0, 9, &i));
    assert_int_equal(i, 3);
    assert_false(json_i64(json_member(root, "t"), 0, 9, &i));
    assert_true(json_double(json_member(root, "i"), &d) && d == -7);
    assert_int_equal(json_length(root), 10);
    json_val list = json_member(root, "l");
    assert_int_equal(json_length(list), 2);
    assert_int_equal(json_type(json_item(list, 1)), JSON_NULL);
    assert_int_equal(json_type(json_item(list, 2)), JSON_ABSENT);
    assert_int_equal(json_type(json_item(root, 0)), JSON_ABSENT);
    assert_int_equal(json_length(json_member(root, "o")), 0);
    json_free(doc);
    json_free(NULL);
}

static void
walking(void **state)
{
    (void)state;
    const char *text = "{\"x\":1,\"y\":null,\"z\":{}}";
    struct json_doc *doc = NULL;
    const char *name;
    char names[8] = "";
    size_t iter = 0, len, n = 0;
    json_val v;

    assert_int_equal(json_parse(text, strlen(text), 4, 0, &doc, NULL), 0);
    while (json_next_member(json_root(doc), &iter, &name, &len, &v)) {
        assert_int_equal(len, 1);
        names[n++] = *name;
    }
    assert_string_equal(names, "xyz");
    assert_false(json_next_member(json_root(doc), &iter, &name, &len, &v));
    iter = 0;
    assert_false(json_next_member(v, &iter, &name, &len, &v)); /* {} */
    iter = 0;
    assert_false(json_next_member(NULL, &iter, &name, &len, &v));
    json_free(doc);
}

static void
big_integers_become_doubles(void **state)
{
    (void)state;
    const char *text = "[9223372036854775807,-9223372036854775808,9223372036854775808,"
                       "18446744073709551616,-9223372036854775809,1e400]";
    struct json_doc *doc = NULL;
    int64_t i;
    double d;

    assert_int_equal(json_parse(text, strlen(text), 4, 0, &doc, NULL), 0);
    json_val root = json_root(doc);
    assert_true(json_i64(json_item(root, 0), 0, INT64_MAX, &i) && i == INT64_MAX);
    assert_true(json_i64(json_item(root, 1), INT64_MIN, 0, &i) && i == INT64_MIN);
    for (size_t k = 2; k < 5; k++) {
        assert_int_equal(json_type(json_item(root, k)), JSON_DOUBLE);
        assert_false(json_i64(json_item(root, k), INT64_MIN, INT64_MAX, &i));
    }
    assert_true(json_double(json_item(root, 3), &d) && d == 18446744073709551616.0);
    assert_false(json_double(json_item(root, 5), &d));
    json_free(doc);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),
        cmocka_unit_test(refused),
        cmocka_unit_test(depth),
        cmocka_unit_test(lax),
        cmocka_unit_test(getters),
        cmocka_unit_test(walking),
        cmocka_unit_test(big_integers_become_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
