/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "base/clock.h"
#include "sandbox/ending.h"

static struct ending
begun(int64_t ago_ms)
{
    struct ending e = {.forced = REASON_NONE};

    ending_stop(&e, REASON_TIMEOUT);
    e.stop_ms = clock_mono_ms() - ago_ms;
    return e;
}

static void
test_steps_come_due_one_after_the_other(void **state)
{
    const struct ending none = {.forced = REASON_NONE};
    struct ending e = begun(0);

    (void)state;
    assert_int_equal(ending_due(&none), ENDING_NOTHING);
    assert_int_equal(ending_due(&e), ENDING_INTERRUPT);
    e = begun(2000);
    assert_int_equal(ending_due(&e), ENDING_AGAIN);
    e = begun(5000);
    assert_int_equal(ending_due(&e), ENDING_KILL);
    e = begun(9000);
    assert_int_equal(ending_due(&e), ENDING_GIVE_UP);
}

static void
test_two_interrupts_and_no_more(void **state)
{
    struct ending e = begun(0);

    (void)state;
    assert_true(ending_interrupts(&e, ENDING_INTERRUPT));
    assert_false(ending_interrupts(&e, ENDING_INTERRUPT));
    assert_true(ending_interrupts(&e, ENDING_AGAIN));
    assert_false(ending_interrupts(&e, ENDING_AGAIN));
    e = begun(3000); /* a loop that was held up until the second was due sends both */
    assert_true(ending_interrupts(&e, ENDING_AGAIN));
    assert_true(ending_interrupts(&e, ENDING_AGAIN));
    assert_false(ending_interrupts(&e, ENDING_AGAIN));
}

static void
test_the_first_reason_stays(void **state)
{
    struct ending e = begun(0);

    (void)state;
    ending_stop(&e, REASON_INTERRUPTED);
    ending_died(&e, REASON_KERNEL_DIED);
    assert_int_equal(e.forced, REASON_TIMEOUT);
    assert_true(e.invalid && e.over);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_come_due_one_after_the_other),
        cmocka_unit_test(test_two_interrupts_and_no_more),
        cmocka_unit_test(test_the_first_reason_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
