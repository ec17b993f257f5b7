/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <ctype.h>
#include <string.h>

#include "base/digest.h"
#include "base/id.h"

static void
sha256_vectors(void **state)
{
    (void)state;
    const char *abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    char hex[SHA256_HEX_SIZE];
    uint8_t raw[SHA256_SIZE];
    struct sha256 *s = sha256_new();

    sha256_hex_of("abc", 3, hex);
    assert_string_equal(hex, abc);
    sha256_hex_of("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_add(s, "a", 1);
    sha256_add(s, "bc", 2);
    sha256_finish(s, raw);
    hex_encode(raw, sizeof raw, hex);
    assert_string_equal(hex, abc);
    sha256_free(sha256_new());
    sha256_free(NULL);
}

static void
hex(void **state)
{
    (void)state;
    const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        assert_int_equal(hex_value(digits[i]), i);
        assert_int_equal(hex_value((char)toupper(digits[i])), i);
    }
    for (const char *p = "g/:@G` "; *p; p++)
        assert_int_equal(hex_value(*p), -1);
    assert_int_equal(hex_value('\0'), -1);
}

static void
base64_vectors(void **state)
{
    (void)state;
    const char *pairs[][2] = {/* RFC 4648 10 */
                              {"", ""},
                              {"f", "Zg=="},
                              {"fo", "Zm8="},
                              {"foo", "Zm9v"},
                              {"foob", "Zm9vYg=="},
                              {"fooba", "Zm9vYmE="},
                              {"foobar", "Zm9vYmFy"}};
    struct buf b = BUF_INIT(100);

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        buf_clear(&b);
        assert_int_equal(base64_encode(&b, pairs[i][0], strlen(pairs[i][0])), 0);
        assert_string_equal(buf_str(&b), pairs[i][1]);
        buf_clear(&b);
        assert_int_equal(base64_decode(&b, pairs[i][1], strlen(pairs[i][1]), false), 1);
        assert_string_equal(buf_str(&b), pairs[i][0]);
    }
    buf_done(&b);
}

static void
base64_refusals(void **state)
{
    (void)state;
    const char *bad[] = {"Z",          "Zg",   "Zg=",        "Zh==", "Zm9=", "Zg==Zg==", "=Zg=",
                         "Zm9vYg==\n", "Zm 9", "Zm9v\nZg==", "====", "Z===", "Zm9-",     "Zg=A"};
    struct buf b = BUF_INIT(6);

    buf_puts(&b, "pre");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(base64_decode(&b, bad[i], strlen(bad[i]), false), 0);
    assert_string_equal(buf_str(&b), "pre");
    assert_int_equal(base64_decode(&b, "Zm9v\r\n", 6, true), 1); /* exactly fits */
    assert_string_equal(buf_str(&b), "prefoo");
    assert_int_equal(base64_decode(&b, "Zg==", 4, false), -1);
    buf_done(&b);
}

static void
equality_and_ids(void **state)
{
    (void)state;
    char a[ID_UUID_SIZE], b[ID_UUID_SIZE], hex5[11];

    assert_true(digest_equal("ab", "ab", 2));
    assert_false(digest_equal("ab", "ac", 2));
    id_uuid4(a);
    id_uuid4(b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
    id_random_hex(hex5, 5);
    assert_int_equal(strlen(hex5), 10);
    for (int i = 0; i < 100; i++) {
        int64_t v = id_random_i64();
        assert_true(v >= 1 && v < INT64_C(1) << 62);
    }
    assert_true(id_in_alphabet("aZ0_-", 5, 1, 5));
    assert_false(id_in_alphabet("aZ0_-x", 6, 1, 5));
    assert_false(id_in_alphabet("", 0, 1, 5));
    assert_false(id_in_alphabet("a.b", 3, 1, 5));
    assert_false(id_in_alphabet("a\0b", 3, 1, 5));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_vectors),   cmocka_unit_test(hex),
        cmocka_unit_test(base64_vectors),   cmocka_unit_test(base64_refusals),
        cmocka_unit_test(equality_and_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
