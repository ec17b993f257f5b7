/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <string.h>

/* Expiry on a clock that the tests move. */
#define YEAR_MS (INT64_C(365) * 24 * 3600 * 1000)
#define TTL_MS 60000

FIXTURE_DOWN(f)
static struct manager_clock now;

static int
setup(void **state)
{
    (void)state;
    fixture_init(&f);
    now = (struct manager_clock){.wall_ms = 2 * YEAR_MS, .boot_ms = 5000, .boot_id = "boot-1"};
    f.o.clock = &now;
    f.o.default_ttl_ms = TTL_MS;
    /* The database knows the machine's own boot by now. */
    (void)fixture_sql(&f, "DELETE FROM clock");
    fixture_restart(&f);
    return 0;
}

FIXTURE_SWEEP(f)

static struct session
look(const char *name)
{
    struct session s = {0}, numbers;
    struct err err = ERR_INIT;

    assert_int_equal(manager_get(f.m, &f.ann, name, false, &s, &err), 0);
    numbers = s;
    numbers.labels = NULL;
    session_done(&s);
    return numbers;
}

static void
test_ends_with_its_ttl_on_the_boot_clock(void **state)
{
    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    now.boot_ms += TTL_MS - 1;
    assert_int_equal(look("a").state, SESSION_READY);
    assert_int_equal(sweep().expired, 0);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL)); /* counts anew from its end */
    now.boot_ms += TTL_MS - 1;
    assert_int_equal(sweep().expired, 0);
    now.boot_ms += 1;
    assert_string_equal(fixture_exec(&f, f.m, "a", "print 1", NULL), "session_not_found");
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
}

static void
test_a_step_of_the_wall_clock_ends_nothing(void **state)
{
    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    now.wall_ms += YEAR_MS;
    assert_int_equal(sweep().expired, 0);
    assert_true(look("a").expires_at == now.wall_ms + TTL_MS);
    now.wall_ms -= 2 * YEAR_MS;
    assert_int_equal(sweep().expired, 0);
    assert_true(look("a").expires_at == now.wall_ms + TTL_MS);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", NULL));
    now.boot_ms += TTL_MS;
    assert_int_equal(sweep().expired, 1);
}

static void
test_another_boot_gives_a_fresh_ttl(void **state)
{
    struct exec_outcome o;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    now.boot_ms += TTL_MS - 1;
    now = (struct manager_clock){.wall_ms = now.wall_ms + 30000, .boot_ms = 7, .boot_id = "boot-2"};
    fixture_restart(&f);
    assert_int_equal(look("a").state, SESSION_COLD);
    assert_true(look("a").expires_at == now.wall_ms + TTL_MS);
    now.boot_ms += TTL_MS - 1;
    assert_int_equal(sweep().expired, 0);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
    assert_true(o.session.state_lost);
    exec_outcome_done(&o);
    assert_null(fixture_exec(&f, f.m, "a", "print 1", &o));
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    now.boot_ms += TTL_MS;
    assert_int_equal(sweep().expired, 1);
    assert_int_equal(fake_count(f.kernels), 0);
}

/* A sweeper that has not noticed the other boot yet ends nothing by a clock that is no more. */
static void
test_the_clock_of_another_boot_ends_nothing(void **state)
{
    struct manager *old = f.m;
    struct sweep_report r;
    struct err err = ERR_INIT;

    (void)state;
    assert_null(fixture_open(&f, f.m, "a", NULL, NULL));
    now = (struct manager_clock){.wall_ms = now.wall_ms, .boot_ms = 7, .boot_id = "boot-2"};
    f.m = fixture_other(&f);
    now.boot_ms = YEAR_MS;
    assert_int_equal(manager_sweep(old, deadline_in(10000), &r, &err), 0);
    assert_int_equal(r.expired, 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state = 'cold'"), 1);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM clock WHERE boot_id = 'boot-2'"), 1);
    manager_free(old);
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_ends_with_its_ttl_on_the_boot_clock),
        T(test_a_step_of_the_wall_clock_ends_nothing),
        T(test_another_boot_gives_a_fresh_ttl),
        T(test_the_clock_of_another_boot_ends_nothing),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
