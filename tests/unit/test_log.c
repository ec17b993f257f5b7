/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/utf8.h"

static char got[8192];

/* Runs what log_… call follows with stderr in a pipe; the record is in got. */
#define CAPTURE(call)                                                                              \
    do {                                                                                           \
        int p_[2], saved_ = dup(STDERR_FILENO);                                                    \
        assert_int_equal(pipe(p_), 0);                                                             \
        assert_int_equal(dup2(p_[1], STDERR_FILENO), STDERR_FILENO);                               \
        (void)close(p_[1]);                                                                        \
        call;                                                                                      \
        assert_int_equal(dup2(saved_, STDERR_FILENO), STDERR_FILENO);                              \
        (void)close(saved_);                                                                       \
        ssize_t n_ = read(p_[0], got, sizeof got - 1);                                             \
        got[n_ < 0 ? 0 : n_] = '\0';                                                               \
        (void)close(p_[0]);                                                                        \
    } while (0)

static void
text_records(void **state)
{
    (void)state;
    log_init("husk-test", LOG_LEVEL_INFO, false);
    log_set_request("r1");
    log_set_session("s1");
    CAPTURE(log_warning("a\nb \x1b[0m \xc3\xa9 \xff \"q\" %d", 5));
    assert_int_equal(got[10], 'T');
    assert_non_null(strstr(got, " husk-test["));
    assert_non_null(strstr(got, "] warning: a\\nb \\x1b[0m \xc3\xa9 \\xff \"q\" 5 request=r1 "
                                "session=s1\n"));
    log_set_request(NULL);
    log_set_session("");
    CAPTURE(log_error("x"));
    assert_non_null(strstr(got, "] error: x\n"));
    CAPTURE(log_debug("hidden"));
    assert_string_equal(got, "");
}

static void
json_records(void **state)
{
    (void)state;
    log_init("husk-test", LOG_LEVEL_DEBUG, true);
    log_set_execution("e\"1");
    CAPTURE(log_debug("say \"hi\" \\ \x01 \xff"));
    assert_memory_equal(got, "{\"time\":\"2", 10);
    assert_non_null(strstr(got, "\"level\":\"debug\",\"program\":\"husk-test\",\"pid\":"));
    assert_non_null(strstr(got, "\"message\":\"say \\\"hi\\\" \\\\ \\u0001 \\ufffd\","
                                "\"execution_id\":\"e\\\"1\"}\n"));
    log_set_execution(NULL);
}

static void
long_records_are_cut_but_whole(void **state)
{
    (void)state;
    char big[6000];

    memset(big, '"', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    log_init("husk-test", LOG_LEVEL_INFO, true);
    log_set_request("r9");
    CAPTURE(log_info("%s", big));
    assert_true(strlen(got) <= 4096);
    assert_non_null(strstr(got, "\\\"\",\"request_id\":\"r9\"}\n"));
    for (size_t i = 0; i + 1 < sizeof big; i++)
        big[i] = "\xe2\x82\xac"[i % 3];
    CAPTURE(log_info("%s", big));
    assert_true(utf8_valid(got, strlen(got)));
    log_set_request(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_records),
        cmocka_unit_test(json_records),
        cmocka_unit_test(long_records_are_cut_but_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
