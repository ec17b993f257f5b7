/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Processes of the service are killed wherever they happen to be. Afterwards, and one sweep later,
 * no session is busy or half open or half closed, no kernel runs that no row knows, and every
 * session works. */

FIXTURE_DOWN(f)

static int
setup(void **state)
{
    (void)state;
    fixture_init(&f);
    fixture_restart_with(&f, "sessions=4 per_owner=4");
    return 0;
}

#define IDS 6
#define AT_ONCE 8
#define ROUNDS 12

static struct child
some_call(unsigned *seed)
{
    static const struct {
        const char *verb, *arg;
    } calls[] = {{"open", NULL},         {"open", NULL}, {"exec", "sleep 20"}, {"exec", "die"},
                 {"exec", "print 1"},    {"files", "5"}, {"close", NULL},      {"sweep", NULL},
                 {"exec", "mute 30000"}, {"open", NULL}};
    const size_t i = (size_t)rand_r(seed) % (sizeof calls / sizeof *calls);
    char id[16];

    (void)snprintf(id, sizeof id, "s%d", rand_r(seed) % IDS);
    return fixture_spawn(&f, calls[i].verb, id, calls[i].arg);
}

static void
sweep(void)
{
    struct sweep_report r;
    struct err err = ERR_INIT;

    assert_int_equal(manager_sweep(f.m, deadline_in(10000), &r, &err), 0);
    assert_true(r.ran);
}

static void
one_storm(unsigned *seed)
{
    struct child c[AT_ONCE];

    for (int i = 0; i < AT_ONCE; i++)
        c[i] = some_call(seed);
    (void)poll(NULL, 0, rand_r(seed) % 120);
    for (int i = 0; i < AT_ONCE; i++)
        (void)kill(c[i].pid, SIGKILL);
    for (int i = 0; i < AT_ONCE; i++)
        (void)fixture_wait(&c[i], NULL, 0);
}

static void
check(void)
{
    sweep();
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions WHERE state IN"
                                     " ('opening', 'busy', 'closing')"),
                     0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason IS NULL"), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM turns"), 0);
    (void)fixture_sql(&f, "UPDATE orphans SET first_seen_boot_ms=first_seen_boot_ms-3600000");
    sweep();
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM runtimes WHERE state='live'"),
                     fake_count(f.kernels));
    assert_true(fixture_sql(&f, "SELECT count(*) FROM runtimes") <= 4);
}

static void
test_killed_anywhere(void **state)
{
    unsigned seed = 20260101;

    (void)state;
    atomic_store(&f.world->open_ms, 10);
    for (int i = 0; i < ROUNDS; i++) {
        one_storm(&seed);
        check();
    }
    /* Starts whose opener was killed count against the cap until their time is out. */
    (void)fixture_sql(&f, "UPDATE runtimes SET created_at = created_at - 3600000"
                          " WHERE state = 'starting' AND sid IS NULL");
    check();
    for (int i = 0; i < IDS; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "s%d", i);
        assert_null(fixture_open(&f, f.m, id, NULL, NULL));
        assert_null(fixture_exec(&f, f.m, id, "print 1", NULL));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_anywhere, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
