/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "model/execution.h"

static void
t_a_fresh_result_is_not_completed(void **state)
{
    (void)state;
    struct execution_result r;
    memset(&r, 0xff, sizeof(r));
    execution_result_init(&r);
    assert_int_equal(r.exit_code, -1);
    assert_int_equal(r.execution_count, -1);
    assert_int_equal(r.reason, REASON_NONE);
    assert_false(r.ok);
    assert_null(r.out);
    execution_result_done(&r);
    execution_result_done(&r); /* twice does no harm */
}

/* Under ASan a member that is not freed fails the test. */
static void
t_done_frees_everything(void **state)
{
    (void)state;
    struct execution_result r;
    execution_result_init(&r);
    r.out = xstrdup("out");
    r.err = xstrdup("err");
    r.error_name = xstrdup("NameError");
    r.error_value = xstrdup("x");
    r.traceback = xcalloc(2, sizeof(*r.traceback));
    r.n_traceback = 2;
    r.traceback[0] = xstrdup("a");
    r.traceback[1] = xstrdup("b");
    r.results = xcalloc(1, sizeof(*r.results));
    r.n_results = 1;
    r.results[0].data = xstrdup("{}");
    r.results[0].metadata = xstrdup("{}");
    r.displays = xcalloc(1, sizeof(*r.displays));
    r.n_displays = 1;
    r.displays[0].data = xstrdup("{}");
    r.plots = xcalloc(1, sizeof(*r.plots));
    r.n_plots = 1;
    r.plots[0].content_base64 = xstrdup("AA==");
    execution_result_done(&r);
    assert_null(r.plots);
    assert_int_equal(r.n_results, 0);
    assert_int_equal(r.exit_code, -1);
}

static void
t_reasons_have_names_both_ways(void **state)
{
    (void)state;
    assert_null(exec_reason_name(REASON_NONE));
    for (int r = REASON_COMPLETED; r <= REASON_ABORTED; r++) {
        enum exec_reason back;
        assert_non_null(exec_reason_name((enum exec_reason)r));
        assert_int_equal(exec_reason_parse(exec_reason_name((enum exec_reason)r), &back), 1);
        assert_int_equal((int)back, r);
    }
    enum exec_reason back;
    assert_int_equal(exec_reason_parse("", &back), 0);
    assert_int_equal(exec_reason_parse("running", &back), 0);
    for (int e = EVENT_EXECUTION; e <= EVENT_RESULT; e++)
        assert_non_null(exec_event_name((enum exec_event_type)e));
    assert_string_equal(exec_event_name(EVENT_RESULT), "result");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_a_fresh_result_is_not_completed),
        cmocka_unit_test(t_done_frees_everything),
        cmocka_unit_test(t_reasons_have_names_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
