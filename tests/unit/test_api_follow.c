/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "spool/spool.h"
#include "support/api_fixture.h"

/* Runs that another process has: followed to their end, and what becomes of them when it dies. */

static int
setup(void **state)
{
    struct api_fixture *a;

    (void)api_setup(state);
    a = *state;
    a->o.auth = API_AUTH_PROXY;
    api_fixture_restart(a);
    assert_null(fixture_open(&a->base, a->base.m, "s", NULL, NULL));
    return 0;
}

static void
begin_as_ann(struct api_fixture *a, const char *method, const char *target)
{
    api_begin(a, method, target);
    a->f.user = "ann";
}

static bool
runs(struct fixture *f)
{
    return fixture_sql(f, "SELECT count(*) FROM executions WHERE reason IS NULL") == 1;
}

/* The target of the events of the execution that a child runs. */
static void
events_of(struct api_fixture *a, char out[128])
{
    assert_true(fixture_until(runs, &a->base));
    begin_as_ann(a, "GET", "/v1/sessions/s/executions");
    api_finish_expect(a, 200, NULL);
    (void)snprintf(out, 128, "/v1/executions/%s/events", api_text(a, "executions.0.execution_id"));
}

static void
test_followed_to_its_end(void **state)
{
    struct api_fixture *a = *state;
    struct child c = fixture_spawn(&a->base, "exec", "s", "sleep 700");
    const char *text;
    char target[128], out[200];
    size_t n;

    events_of(a, target);
    a->o.keepalive_ms = 100;
    api_fixture_restart(a);
    begin_as_ann(a, "GET", target);
    api_finish_expect(a, 200, NULL);
    text = api_body(a, &n);
    assert_non_null(strstr(text, "id: 1\nevent: execution\n"));
    assert_non_null(strstr(text, ": keep-alive\n\n"));
    assert_non_null(strstr(text, "event: result\n"));
    assert_int_equal(fixture_wait(&c, out, sizeof(out)), 0);
    assert_memory_equal(out, "completed", 9);
}

/* The execution id in "/v1/executions/<eid>/events". */
static const char *
eid_of(const char *target, char ret[ID_UUID_SIZE])
{
    static const char prefix[] = "/v1/executions/";

    memcpy(ret, target + sizeof(prefix) - 1, ID_UUID_SIZE - 1);
    ret[ID_UUID_SIZE - 1] = '\0';
    return ret;
}

static void
test_runner_dies(void **state)
{
    struct api_fixture *a = *state;
    struct child c = fixture_spawn(&a->base, "exec", "s", "sleep 60000");
    const char *at;
    char target[128], out[200], eid[ID_UUID_SIZE];
    size_t n;

    events_of(a, target);
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(fixture_wait(&c, out, sizeof(out)), 1000 + SIGKILL);
    begin_as_ann(a, "GET", target);
    api_finish_expect(a, 200, NULL);
    at = strstr(api_body(a, &n), "event: result\n");
    assert_non_null(at);
    assert_non_null(strstr(at, "\"reason\":\"aborted\""));
    /* as if it had died before it made the spool */
    spool_remove(a->o.spool_dir, eid_of(target, eid));
    begin_as_ann(a, "GET", target);
    api_finish_expect(a, 200, NULL);
    at = strstr(api_body(a, &n), "event: result\n");
    assert_non_null(at);
    assert_non_null(strstr(at, "\"reason\":\"aborted\""));
    begin_as_ann(a, "GET", "/v1/sessions/s");
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_text(a, "state"), "ready");
}

static void
leave_at_keep_alive(void *ctx, size_t total)
{
    struct api_fixture *a = ctx;

    (void)total;
    if (strstr(buf_str(&a->f.out), ": keep-alive") != NULL)
        a->f.gone = true;
}

static void
test_reader_leaves(void **state)
{
    struct api_fixture *a = *state;
    struct child c = fixture_spawn(&a->base, "exec", "s", "sleep 3000");
    int64_t since;
    char target[128], out[200];

    events_of(a, target);
    a->o.keepalive_ms = 50;
    api_fixture_restart(a);
    begin_as_ann(a, "GET", target);
    a->f.on_write = leave_at_keep_alive;
    a->f.ctx = a;
    since = clock_mono_ms();
    (void)api_finish(a);
    assert_true(clock_mono_ms() - since < 2500);
    assert_true(a->f.x.broken);
    (void)fixture_wait(&c, out, sizeof(out));
    assert_memory_equal(out, "completed", 9);
}

/* A reader that takes nothing is given up, and its worker is free again. */
static void
test_reader_stalls(void **state)
{
    struct api_fixture *a = *state;
    struct child c = fixture_spawn(&a->base, "exec", "s", "sleep 2500");
    int64_t since;
    char target[128], out[200];

    events_of(a, target);
    a->o.stall_ms = 300;
    api_fixture_restart(a);
    begin_as_ann(a, "GET", target);
    a->f.takes = 5;
    since = clock_mono_ms();
    (void)api_finish(a);
    assert_true(clock_mono_ms() - since < 1500);
    assert_true(a->f.broken_off);
    (void)fixture_wait(&c, out, sizeof(out));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_followed_to_its_end, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_runner_dies, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_reader_leaves, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_reader_stalls, setup, api_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
