/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <math.h>
#include <string.h>

#include "json/writer.h"

static void
commas_and_names(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    struct json_writer w;

    jw_init(&w, &b);
    jw_object(&w, NULL);
    jw_object(&w, "empty");
    jw_end_object(&w);
    jw_array(&w, "list");
    jw_i64(&w, NULL, INT64_MIN);
    jw_array(&w, NULL);
    jw_end_array(&w);
    jw_bool(&w, NULL, true);
    jw_null(&w, NULL);
    jw_end_array(&w);
    jw_string(&w, "none", NULL);
    jw_raw(&w, "raw", "[1]", 3);
    jw_time(&w, "at", 1);
    jw_time(&w, "never", 0);
    jw_end_object(&w);
    assert_string_equal(buf_str(&b), "{\"empty\":{},\"list\":[-9223372036854775808,[],true,null],"
                                     "\"none\":null,\"raw\":[1],"
                                     "\"at\":\"1970-01-01T00:00:00.001Z\",\"never\":null}");
    buf_done(&b);
}

static void
strings(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    struct json_writer w;

    jw_init(&w, &b);
    jw_array(&w, NULL);
    jw_string(&w, NULL,
              "q\" b\\ n\n r\r t\t \b\f \x01 \x7f </ \xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa");
    jw_string_n(&w, NULL, "a\0b", 3);
    jw_string(&w, NULL, "bad \xff\xe2\x80");
    jw_string(&w, NULL, "");
    jw_end_array(&w);
    assert_string_equal(buf_str(&b), "[\"q\\\" b\\\\ n\\n r\\r t\\t \\b\\f \\u0001 \\u007f </ "
                                     "\\u2028\\u2029\xe2\x80\xaa\",\"a\\u0000b\","
                                     "\"bad \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",\"\"]");
    buf_done(&b);
}

static void
doubles_are_shortest(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1000);
    struct json_writer w;

    jw_init(&w, &b);
    jw_array(&w, NULL);
    jw_double(&w, NULL, 0.1);
    jw_double(&w, NULL, 1.0 / 3);
    jw_double(&w, NULL, 0.1 + 0.2);
    jw_double(&w, NULL, 3);
    jw_double(&w, NULL, -0.0);
    jw_double(&w, NULL, 1e300);
    jw_double(&w, NULL, NAN);
    jw_double(&w, NULL, -INFINITY);
    jw_end_array(&w);
    assert_string_equal(buf_str(&b), "[0.1,0.3333333333333333,0.30000000000000004,3.0,-0.0,1e+300,"
                                     "null,null]");
    buf_done(&b);
}

static void
values_come_back(void **state)
{
    (void)state;
    const char *text = "{\"a\":[1,2.5,\"x\\u0000\\ny\",null,true,false,{}],\"b\":{\"c\":[]}}";
    struct buf b = BUF_INIT(1000);
    struct json_writer w;
    struct json_doc *doc = NULL;

    assert_int_equal(json_parse(text, strlen(text), 8, 0, &doc, NULL), 0);
    jw_init(&w, &b);
    jw_value(&w, NULL, json_root(doc));
    assert_string_equal(buf_str(&b), text);
    buf_clear(&b);
    jw_init(&w, &b);
    jw_value(&w, NULL, NULL); /* absent */
    assert_string_equal(buf_str(&b), "null");
    json_free(doc);
    buf_done(&b);
}

static void
no_room_and_too_deep_stick(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(10);
    struct json_writer w;

    jw_init(&w, &b);
    jw_array(&w, NULL);
    jw_string(&w, NULL, "0123456789");
    jw_end_array(&w);
    assert_int_equal(buf_check(&b, "answer", NULL), -1);
    buf_done(&b);

    buf_init(&b, 1000);
    jw_init(&w, &b);
    for (int i = 0; i < 100; i++)
        jw_array(&w, NULL);
    for (int i = 0; i < 200; i++)
        jw_end_array(&w);
    assert_int_equal(buf_check(&b, "answer", NULL), -1);
    buf_done(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_and_names),           cmocka_unit_test(strings),
        cmocka_unit_test(doubles_are_shortest),       cmocka_unit_test(values_come_back),
        cmocka_unit_test(no_room_and_too_deep_stick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
