/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"
#include "support/tmpdir.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "super/scoreboard.h"

static char dir[PATH_MAX], path[PATH_MAX];

static int
set_up(void **state)
{
    (void)state;
    tmpdir_make(dir);
    (void)tmpdir_path(path, dir, "scoreboard");
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    tmpdir_remove(dir);
    return 0;
}

static void
lanes(void **state)
{
    (void)state;
    enum lane l;

    for (int i = 0; i < LANE_COUNT; i++) {
        assert_int_equal(lane_parse(lane_name((enum lane)i), &l), 1);
        assert_int_equal(l, i);
    }
    assert_int_equal(lane_parse("exe", &l), 0);
    assert_string_equal(lane_name((enum lane)17), "unknown");
}

static void
another_process_writes(void **state)
{
    (void)state;
    struct scoreboard *b = NULL, *reader = NULL;

    assert_int_equal(scoreboard_create(path, 3, &b, NULL), 0);
    assert_int_equal(scoreboard_slots(b), 3);
    assert_null(scoreboard_slot(b, 3));
    assert_null(scoreboard_slot(b, -1));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct scoreboard *mine = NULL;

        if (scoreboard_attach(path, true, &mine, NULL) < 0)
            _exit(1);
        struct score_slot *s = scoreboard_slot(mine, 2);
        atomic_store(&s->lane, LANE_BULK);
        score_set(s, SLOT_WORKING, (struct deadline){12345});
        score_observe(&s->exec_time, 2500000);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(scoreboard_attach(path, false, &reader, NULL), 0);
    assert_int_equal(scoreboard_count(reader, LANE_BULK, SLOT_WORKING), 1);
    assert_int_equal(scoreboard_count(reader, LANE_EXEC, SLOT_EMPTY), 2);
    struct score_slot *s = scoreboard_slot(reader, 2);
    assert_int_equal(atomic_load(&s->deadline_ms), 12345);
    assert_true(atomic_load(&s->since_ms) > 0);
    scoreboard_free(reader);
    score_set(scoreboard_slot(b, 2), SLOT_IDLE, DEADLINE_NEVER);
    assert_int_equal(atomic_load(&scoreboard_slot(b, 2)->deadline_ms), 0);
    scoreboard_free(b);
    scoreboard_free(NULL);
}

static void
buckets(void **state)
{
    (void)state;
    struct score_histogram h = {.sum_us = 0};
    const int64_t samples[] = {-1, 0, 5000, 5001, 2500000, 300000000, 300000001, INT64_C(1) << 50};
    const int bucket[] = {0, 0, 0, 1, 8, 12, 13, 13};
    uint64_t want[SCORE_BUCKETS] = {0};

    for (int i = 1; i < SCORE_BUCKETS - 1; i++)
        assert_true(score_bucket_s[i] > score_bucket_s[i - 1]);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        score_observe(&h, samples[i]);
        want[bucket[i]]++;
    }
    for (int i = 0; i < SCORE_BUCKETS; i++)
        assert_int_equal(atomic_load(&h.count[i]), want[i]);
}

static void
replaced_and_refused(void **state)
{
    (void)state;
    struct scoreboard *old = NULL, *b = NULL;
    struct err err = ERR_INIT;

    assert_int_equal(scoreboard_create(path, 0, &b, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(scoreboard_create("/nonexistent/x", 1, &b, &err), -1);
    assert_int_equal(scoreboard_create(path, 1, &old, NULL), 0);
    score_set(scoreboard_slot(old, 0), SLOT_WORKING, DEADLINE_NEVER);
    assert_int_equal(scoreboard_create(path, 2, &b, NULL), 0);
    score_set(scoreboard_slot(old, 0), SLOT_DRAINING, DEADLINE_NEVER); /* still mapped, apart */
    assert_int_equal(atomic_load(&scoreboard_slot(b, 0)->state), SLOT_EMPTY);
    scoreboard_free(old);
    scoreboard_free(b);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(scoreboard_attach(path, false, &b, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, 100000), 0);
    assert_int_equal(scoreboard_attach(path, false, &b, &err), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(scoreboard_attach(path, false, &b, &err), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes),
        cmocka_unit_test(another_process_writes),
        cmocka_unit_test(buckets),
        cmocka_unit_test(replaced_and_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
