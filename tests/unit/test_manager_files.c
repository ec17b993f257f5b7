/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/manager_fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "manager/internal.h"

FIXTURE_SESSION(f, "ttl=1000")

static void
put(const char *name, const char *text)
{
    struct file_lease l;
    struct upload *u = NULL;
    struct file_info info;
    struct err err = ERR_INIT;
    bool created;

    assert_int_equal(manager_files_begin(f.m, &f.ann, "s", &l, &err), 0);
    assert_int_equal(upload_begin(&l.ws, name, strlen(name), &u, &err), 0);
    assert_int_equal(upload_write(u, text, strlen(text), &err), 0);
    assert_int_equal(upload_commit(u, UPLOAD_REPLACE, NULL, &created, &info, &err), 0);
    manager_files_end(f.m, &l, true);
}

static bool
has(const char *name)
{
    struct file_lease l;
    struct file_info info;
    struct err err = ERR_INIT;
    bool found;

    assert_int_equal(manager_files_begin(f.m, &f.ann, "s", &l, &err), 0);
    found = workspace_stat(&l.ws, name, strlen(name), &info, &err) == 0;
    manager_files_end(f.m, &l, false);
    return found;
}

static void
test_files_outlive_the_runtime(void **state)
{
    (void)state;
    put("a.txt", "hello");
    assert_null(fixture_exec(&f, f.m, "s", "die", NULL));
    assert_true(has("a.txt"));
}

static void
test_files_are_found_after_expiry_and_gone_after_close(void **state)
{
    struct session s = {0};

    (void)state;
    put("a.txt", "hello");
    (void)poll(NULL, 0, 1100);
    assert_null(fixture_open(&f, f.m, "s", &s, NULL));
    assert_true(s.files_kept);
    session_done(&s);
    assert_true(has("a.txt"));
    assert_null(fixture_close(&f, f.m, "s", NULL));
    assert_null(fixture_open(&f, f.m, "s", &s, NULL));
    assert_false(s.files_kept);
    session_done(&s);
    assert_false(has("a.txt"));
}

static bool
is_held(struct fixture *x)
{
    return lock_is_held(x->m->lock_fd, fixture_sql(x, "SELECT sid FROM sessions")) == 1;
}

static void
test_a_transfer_keeps_the_session(void **state)
{
    struct child c;
    struct sweep_report r;
    struct session s = {0};
    struct err err = ERR_INIT;

    (void)state;
    (void)fixture_sql(&f, "UPDATE sessions SET ttl_ms = 60000");
    c = fixture_spawn(&f, "files", "s", "1500");
    assert_true(fixture_until(is_held, &f));
    (void)fixture_sql(&f, "UPDATE sessions SET last_work_boot_ms = 0, ttl_ms = 20000");
    assert_int_equal(manager_sweep(f.m, deadline_in(5000), &r, &err), 0);
    assert_int_equal(r.expired, 0);
    assert_int_equal(manager_get(f.m, &f.ann, "s", false, &s, &err), 0);
    session_done(&s);
    assert_int_equal(fixture_wait(&c, NULL, 0), 0);
    /* The whole TTL from the end of the transfer on. */
    assert_null(fixture_exec(&f, f.m, "s", "print 1", NULL));
}

static void
test_looking_is_no_work(void **state)
{
    struct session s = {0};
    struct session *list = NULL;
    const struct session_filter all = {.state = -1, .limit = 10};
    struct err err = ERR_INIT;
    size_t n = 0;
    bool more;

    (void)state;
    for (int i = 0; i < 6; i++) {
        (void)poll(NULL, 0, 200);
        if (manager_get(f.m, &f.ann, "s", true, &s, &err) == 0)
            session_done(&s);
    }
    assert_int_equal(manager_list(f.m, &f.ann, &all, &list, &n, &more, &err), 0);
    assert_int_equal(n, 0);
    free(list);
    assert_string_equal(fixture_exec(&f, f.m, "s", "print 1", NULL), "session_not_found");
}

static void
test_a_removed_folder_is_made_again(void **state)
{
    char command[PATH_MAX + 32];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'/*", f.workspaces);
    assert_int_equal(system(command), 0);
    put("b.txt", "again");
    assert_true(has("b.txt"));
}

static void
test_patch_and_labels(void **state)
{
    struct session s = {0};
    struct session *list = NULL;
    struct session_filter by = {
        .state = -1, .label_key = "team", .label_value = "red", .limit = 10};
    struct err err = ERR_INIT;
    size_t n = 0;
    bool more;

    (void)state;
    assert_int_equal(manager_patch(f.m, &f.ann, "s", true, 30000, "{\"team\":\"red\"}", &s, &err),
                     0);
    assert_int_equal(s.ttl_ms, 30000);
    session_done(&s);
    assert_int_equal(manager_patch(f.m, &f.ann, "s", true, 20000, NULL, &s, &err), 0);
    assert_int_equal(s.ttl_ms, 20000);
    assert_string_equal(s.labels, "{\"team\":\"red\"}");
    session_done(&s);
    assert_null(fixture_open(&f, f.m, "t", NULL, NULL));
    assert_int_equal(manager_list(f.m, &f.ann, &by, &list, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].name, "s");
    session_done(&list[0]);
    free(list);
    by = (struct session_filter){.state = -1, .limit = 1};
    assert_int_equal(manager_list(f.m, &f.ann, &by, &list, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_true(more);
    assert_string_equal(list[0].name, "t");
    session_done(&list[0]);
    free(list);
}

/* A page of which all have expired is not the last one. */
static void
test_list_passes_over_expired_ones(void **state)
{
    const struct session_filter one = {.state = -1, .limit = 1};
    struct session *list = NULL;
    struct err err = ERR_INIT;
    size_t n = 0;
    bool more = true;

    (void)state;
    assert_null(fixture_open(&f, f.m, "t", NULL, NULL));
    (void)fixture_sql(&f, "UPDATE sessions SET last_work_boot_ms = 0, ttl_ms = 1000,"
                          " created_at = created_at + 1 WHERE name = 't'");
    assert_int_equal(manager_list(f.m, &f.ann, &one, &list, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].name, "s");
    assert_false(more);
    session_done(&list[0]);
    free(list);
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_files_outlive_the_runtime),
        T(test_files_are_found_after_expiry_and_gone_after_close),
        T(test_a_transfer_keeps_the_session),
        T(test_looking_is_no_work),
        T(test_a_removed_folder_is_made_again),
        T(test_patch_and_labels),
        T(test_list_passes_over_expired_ones),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
