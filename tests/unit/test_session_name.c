/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/session.h"

static int
name(enum session_binding how, const char *value, char *ret, struct err *err)
{
    return session_name_of(how, value, value ? strlen(value) : 0, ret, err);
}

static void
t_own_names_are_taken_unchanged(void **state)
{
    (void)state;
    char ret[SESSION_NAME_MAX + 1], longest[SESSION_NAME_MAX + 2];
    struct err err = ERR_INIT;
    static const char *const good[] = {"a", "A-b_9", "-", "c", "w", "ch", "C-x", "cx-1", "_c-x"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(name(BIND_SESSION, good[i], ret, &err), 0);
        assert_string_equal(ret, good[i]);
    }
    memset(longest, 'x', sizeof(longest));
    longest[SESSION_NAME_MAX] = '\0';
    assert_int_equal(name(BIND_SESSION, longest, ret, &err), 0);
    assert_string_equal(ret, longest);
}

static void
t_own_names_outside_the_alphabet_are_refused(void **state)
{
    (void)state;
    char too_long[SESSION_NAME_MAX + 2];
    memset(too_long, 'x', sizeof(too_long));
    too_long[SESSION_NAME_MAX + 1] = '\0';
    const char *bad[] = {"",      "a b", "a/b",   "..",    "a.b", "\xc3\xa4", "a\n",
                         "c-abc", "w-1", "ch-00", "wh-00", "c-",  too_long};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char ret[SESSION_NAME_MAX + 1] = "untouched";
        struct err err = ERR_INIT;
        assert_int_equal(name(BIND_SESSION, bad[i], ret, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_string_equal(err.slug, "bad_session_id");
        assert_non_null(strstr(err.msg, "session_id"));
        assert_string_equal(ret, "untouched");
    }
    char ret[SESSION_NAME_MAX + 1];
    struct err err = ERR_INIT;
    assert_int_equal(session_name_of(BIND_SESSION, "a\0b", 3, ret, &err), -1);
}

static void
t_bindings_give_names_that_fit(void **state)
{
    (void)state;
    char ret[SESSION_NAME_MAX + 1], value[SESSION_BINDING_MAX + 2];
    struct err err = ERR_INIT;
    assert_int_equal(name(BIND_CONVERSATION, "42", ret, &err), 0);
    assert_string_equal(ret, "c-42");
    assert_int_equal(name(BIND_WORKFLOW_RUN, "42", ret, &err), 0);
    assert_string_equal(ret, "w-42");
    /* Out of the alphabet: the digest (of "a b" by sha256sum). */
    assert_int_equal(name(BIND_CONVERSATION, "a b", ret, &err), 0);
    assert_string_equal(ret, "ch-c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65");
    assert_int_equal(name(BIND_WORKFLOW_RUN, "a b", ret, &err), 0);
    assert_string_equal(ret, "wh-c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65");
    /* The longest that fits, one more, the longest at all, one more. */
    memset(value, 'x', sizeof(value));
    assert_int_equal(session_name_of(BIND_CONVERSATION, value, 126, ret, &err), 0);
    assert_int_equal(strlen(ret), 128);
    assert_int_equal(session_name_of(BIND_CONVERSATION, value, 127, ret, &err), 0);
    assert_memory_equal(ret, "ch-", 3);
    assert_int_equal(session_name_of(BIND_CONVERSATION, value, 512, ret, &err), 0);
    assert_int_equal(session_name_of(BIND_CONVERSATION, value, 513, ret, &err), -1);
    assert_string_equal(err.slug, "bad_value");
    assert_non_null(strstr(err.msg, "conversation_id"));
    assert_int_equal(session_name_of(BIND_WORKFLOW_RUN, "", 0, ret, &err), -1);
    assert_non_null(strstr(err.msg, "workflow_run_id"));
    assert_int_equal(session_name_of(BIND_WORKFLOW_RUN, "a\0b", 3, ret, &err), -1);
}

static void
t_no_binding_gives_a_fresh_name(void **state)
{
    (void)state;
    char one[SESSION_NAME_MAX + 1], two[SESSION_NAME_MAX + 1], again[SESSION_NAME_MAX + 1];
    struct err err = ERR_INIT;
    assert_int_equal(name(BIND_NONE, NULL, one, &err), 0);
    assert_int_equal(name(BIND_NONE, NULL, two, &err), 0);
    assert_string_not_equal(one, two);
    assert_int_equal(name(BIND_SESSION, one, again, &err), 0); /* usable as a session_id */
}

static void
t_states_have_names_both_ways(void **state)
{
    (void)state;
    for (int s = SESSION_OPENING; s <= SESSION_COLD; s++) {
        enum session_state back;
        assert_int_equal(session_state_parse(session_state_name((enum session_state)s), &back), 1);
        assert_int_equal((int)back, s);
    }
    enum session_state back;
    assert_int_equal(session_state_parse("Ready", &back), 0);
    assert_string_equal(session_end_name(SESSION_END_LOST), "lost");
    struct session s = {.labels = strdup("{}"), .sid = 1};
    session_done(&s);
    assert_null(s.labels);
    assert_int_equal(s.sid, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_own_names_are_taken_unchanged),
        cmocka_unit_test(t_own_names_outside_the_alphabet_are_refused),
        cmocka_unit_test(t_bindings_give_names_that_fit),
        cmocka_unit_test(t_no_binding_gives_a_fresh_name),
        cmocka_unit_test(t_states_have_names_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
