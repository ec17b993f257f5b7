/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/fake_keeper.h"
#include "support/manager_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "manager/evidence.h"
#include "manager/internal.h"

static struct fixture f;
static struct fake_keeper k;

static int
setup(void **state)
{
    (void)state;
    fake_keeper_start(&k);
    fixture_init(&f);
    f.o.keeper_dir = k.dir;
    f.o.isolation_min = "container";
    fixture_restart(&f);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    fixture_done(&f);
    fake_keeper_done(&k);
    return 0;
}

static const char *
open_s(void)
{
    return fixture_open(&f, f.m, "s", NULL, NULL);
}

static void
test_binding_is_the_keepers(void **state)
{
    (void)state;
    assert_null(open_s());
    assert_int_equal(atomic_load(&k.world->makes), 1);
    assert_int_equal(atomic_load(&k.world->binds), 1);
    assert_int_equal(atomic_load(&f.world->binds), 0); /* no message to the kernel */
    assert_int_equal(fixture_sql(&f, "SELECT workspace_id FROM sessions"),
                     (int64_t)k.world->bound_workspace);
}

static void
test_files_are_the_keepers(void **state)
{
    struct file_lease l;
    struct upload *u = NULL;
    struct file_info info;
    struct err err = ERR_INIT;
    bool created, deferred;
    char path[PATH_MAX], name[64];

    (void)state;
    assert_null(open_s());
    assert_int_equal(manager_files_begin(f.m, &f.ann, "s", &l, &err), 0);
    assert_int_equal(upload_begin(&l.ws, "a", 1, &u, &err), 0);
    assert_int_equal(upload_write(u, "x", 1, &err), 0);
    assert_int_equal(upload_commit(u, UPLOAD_REPLACE, NULL, &created, &info, &err), 0);
    manager_files_end(f.m, &l, true);
    (void)snprintf(name, sizeof name, "w-%016llx/a", (unsigned long long)k.world->bound_workspace);
    assert_int_equal(access(tmpdir_path(path, k.dir, name), F_OK), 0);
    assert_null(fixture_close(&f, f.m, "s", &deferred));
    assert_int_equal(atomic_load(&k.world->removes), 1);
    assert_int_equal(access(path, F_OK), -1);
}

static void
test_no_keeper_no_session(void **state)
{
    (void)state;
    fake_keeper_stop(&k);
    fixture_restart(&f);
    assert_string_equal(open_s(), "keeper_unavailable");
    assert_int_equal(atomic_load(&f.world->opens), 0);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM sessions"), 0);
    assert_string_equal(manager_isolation(f.m)->tier, "unknown");
    assert_false(manager_isolation(f.m)->ready);
    /* As soon as it is there it goes well. */
    fake_keeper_again(&k);
    assert_null(open_s());
    assert_string_equal(manager_isolation(f.m)->tier, "host");
}

static void
test_not_ready(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    k.world->info.ready = 0;
    (void)snprintf(k.world->info.detail, sizeof k.world->info.detail, "user namespaces are off");
    fixture_restart(&f);
    assert_string_equal(open_s(), "isolation_unavailable");
    assert_int_equal(manager_ready(f.m, deadline_in(1000), &err), -1);
    assert_string_equal(err.slug, "isolation_unavailable");
    assert_non_null(strstr(err.msg, "user namespaces are off"));
    k.world->info.ready = 1;
    assert_int_equal(manager_ready(f.m, deadline_in(1000), &err), 0);
    assert_null(open_s());
}

static void
test_below_the_minimum(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    f.o.isolation_min = "rootless";
    memcpy(k.world->info.tier, "container", sizeof "container");
    fixture_restart(&f);
    assert_string_equal(open_s(), "isolation_unavailable");
    assert_int_equal(manager_ready(f.m, deadline_in(1000), &err), -1);
    assert_non_null(strstr(err.msg, "SANDBOX_ISOLATION_MIN"));
    /* A keeper that says none, or something unheard of, is no isolation at all. */
    f.o.isolation_min = "none";
    memcpy(k.world->info.tier, "none", sizeof "none");
    fixture_restart(&f);
    assert_string_equal(open_s(), "isolation_unavailable");
    memcpy(k.world->info.tier, "magic", sizeof "magic");
    fixture_restart(&f);
    assert_string_equal(open_s(), "isolation_unavailable");
    memcpy(k.world->info.tier, "rootless", sizeof "rootless");
    f.o.isolation_min = "rootless";
    fixture_restart(&f);
    assert_null(open_s());
}

static void
test_a_pooled_kernel_is_bound_the_same_way(void **state)
{
    int64_t again_ms = -1;

    (void)state;
    f.o.pool_size = 1;
    fixture_restart(&f);
    assert_int_equal(manager_refill(f.m, deadline_in(5000), false, &again_ms, NULL), 0);
    assert_int_equal(again_ms, 0);
    assert_int_equal(atomic_load(&k.world->binds), 0);
    assert_null(open_s());
    assert_int_equal(atomic_load(&f.world->opens), 1);
    assert_int_equal(atomic_load(&k.world->binds), 1);
    assert_int_equal(atomic_load(&f.world->binds), 0);
}

static void
test_no_pool_without_isolation(void **state)
{
    int64_t again_ms = -1;

    (void)state;
    f.o.pool_size = 1;
    k.world->info.ready = 0;
    fixture_restart(&f);
    assert_int_equal(manager_refill(f.m, deadline_in(5000), false, &again_ms, NULL), -1);
    assert_int_equal(atomic_load(&f.world->opens), 0);
}

/* The gateway does not know yet: the keeper does. */
static void
test_dead_kernel_is_replaced_at_once(void **state)
{
    struct exec_outcome o;

    (void)state;
    assert_null(open_s());
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_false(o.session.state_lost);
    exec_outcome_done(&o);
    memcpy(k.world->ended, k.world->bound_kernel, sizeof k.world->ended);
    assert_null(fixture_exec(&f, f.m, "s", "print 2", &o));
    assert_true(o.result.ok);
    assert_true(o.session.state_lost);
    exec_outcome_done(&o);
    assert_int_equal(atomic_load(&f.world->opens), 2);
    assert_int_equal(atomic_load(&f.world->execs), 2);  /* nothing was sent to the dead one */
    assert_int_equal(atomic_load(&f.world->closes), 1); /* which the gateway lets go of as well */
}

/* The reaper finds it as well, and the gateway is told. */
static void
test_sweep_finds_dead_kernels(void **state)
{
    struct sweep_report r;
    int64_t again_ms = 0;
    struct session s = {0};

    (void)state;
    f.o.pool_size = 1;
    fixture_restart(&f);
    assert_null(open_s());
    memcpy(k.world->ended, k.world->bound_kernel, sizeof k.world->ended);
    assert_int_equal(manager_sweep(f.m, deadline_in(5000), &r, NULL), 0);
    assert_int_equal(r.lost, 1);
    assert_int_equal(atomic_load(&f.world->closes), 1);
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &s, NULL), 0);
    assert_int_equal(s.state, SESSION_COLD);
    session_done(&s);
    assert_int_equal(manager_refill(f.m, deadline_in(5000), false, &again_ms, NULL), 0);
    k.world->no_kernel = true;
    assert_int_equal(manager_sweep(f.m, deadline_in(5000), &r, NULL), 0);
    assert_int_equal(r.pool_ended, 1);
    assert_int_equal(fake_count(f.kernels), 0);
}

/* Kernels live on without their keeper, and so do sessions. */
static void
test_runs_without_its_keeper(void **state)
{
    struct exec_outcome o;

    (void)state;
    assert_null(open_s());
    fake_keeper_stop(&k);
    assert_null(fixture_exec(&f, f.m, "s", "print 1", &o));
    assert_true(o.result.ok);
    exec_outcome_done(&o);
}

static enum exec_reason
reason_of(const char *code, struct wire_counters later)
{
    struct exec_outcome o;
    enum exec_reason r;

    k.world->later = later;
    k.world->stepped = true;
    atomic_store(&k.world->statuses, 0);
    assert_null(fixture_exec(&f, f.m, "s", code, &o));
    r = o.result.reason;
    exec_outcome_done(&o);
    return r;
}

static void
test_reasons(void **state)
{
    const struct wire_counters none = {.disk_free_bytes = 1 << 20, .disk_free_inodes = 100};
    struct wire_counters c = none;

    (void)state;
    k.world->counters = none;
    assert_null(open_s());
    assert_int_equal(reason_of("error", none), REASON_EXCEPTION);
    c.oom_kills = 1;
    assert_int_equal(reason_of("error", c), REASON_OOM);
    assert_int_equal(reason_of("print 1", c), REASON_COMPLETED);
    c = none;
    c.fork_refusals = 5;
    assert_int_equal(reason_of("error", c), REASON_PIDS);
    c = none;
    c.disk_free_bytes = 0;
    assert_int_equal(reason_of("error", c), REASON_DISK_FULL);
    assert_int_equal(fixture_sql(&f, "SELECT count(*) FROM executions WHERE reason = 'disk_full'"),
                     1);
    c = none;
    c.oom_kills = 1;
    assert_int_equal(reason_of("die", c), REASON_OOM);
}

static void
test_judgement(void **state)
{
    char errno_28[] = "[Errno 28] No space left on device";
    const struct wire_counters plenty = {.disk_free_bytes = 1 << 30, .disk_free_inodes = 9};
    const struct wire_counters no_disk = {.disk_free_bytes = 0, .disk_free_inodes = 9};
    const struct wire_counters no_inodes = {.disk_free_bytes = 1 << 30};
    const struct wire_counters killed = {
        .oom_kills = 2, .disk_free_bytes = -1, .disk_free_inodes = -1};
    const struct wire_counters unknown = {-1, -1, -1, -1, -1, -1};
    struct execution_result r = {.reason = REASON_EXCEPTION};

    (void)state;
    assert_int_equal(evidence_reason(&plenty, &killed, &r), REASON_OOM);
    assert_int_equal(evidence_reason(&killed, &killed, &r), REASON_EXCEPTION);
    assert_int_equal(evidence_reason(&unknown, &unknown, &r), REASON_EXCEPTION);
    assert_int_equal(evidence_reason(&unknown, &killed, &r), REASON_EXCEPTION);
    assert_int_equal(evidence_reason(&plenty, &no_inodes, &r), REASON_DISK_FULL);
    /* It was full before, and this run failed of something else. */
    assert_int_equal(evidence_reason(&no_disk, &no_disk, &r), REASON_EXCEPTION);
    r.error_value = errno_28;
    assert_int_equal(evidence_reason(&no_disk, &no_disk, &r), REASON_DISK_FULL);
    /* Another disk than the workspace's. */
    assert_int_equal(evidence_reason(&plenty, &plenty, &r), REASON_EXCEPTION);
    /* What ended otherwise did not end by a limit. */
    r.reason = REASON_TIMEOUT;
    assert_int_equal(evidence_reason(&plenty, &killed, &r), REASON_TIMEOUT);
    r.reason = REASON_COMPLETED;
    assert_int_equal(evidence_reason(&plenty, &killed, &r), REASON_COMPLETED);
}

#define ONE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(test_binding_is_the_keepers),
        ONE(test_files_are_the_keepers),
        ONE(test_no_keeper_no_session),
        ONE(test_not_ready),
        ONE(test_below_the_minimum),
        ONE(test_a_pooled_kernel_is_bound_the_same_way),
        ONE(test_no_pool_without_isolation),
        ONE(test_dead_kernel_is_replaced_at_once),
        ONE(test_sweep_finds_dead_kernels),
        ONE(test_runs_without_its_keeper),
        ONE(test_reasons),
        cmocka_unit_test(test_judgement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
