/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "super/affinity.h"

static struct scoreboard *board;
static char path[] = "/tmp/husk-affinity-XXXXXX";

static int
set_up(void **state)
{
    struct err err = ERR_INIT;
    int fd = mkstemp(path);
    (void)state;
    (void)close(fd);
    assert_int_equal(scoreboard_create(path, 4, &board, &err), 0);
    for (int i = 0; i < 4; i++)
        score_set(scoreboard_slot(board, i), SLOT_IDLE, DEADLINE_NEVER);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    scoreboard_free(board);
    return unlink(path);
}

static void
test_one_keeper_a_tag(void **state)
{
    struct score_slot *a = scoreboard_slot(board, 0), *b = scoreboard_slot(board, 1);
    uint64_t tag = affinity_tag("one", 3);
    (void)state;
    affinity_keep(board, a, tag);
    assert_true(affinity_keeps(a, tag));
    affinity_keep(board, b, tag);
    assert_false(affinity_keeps(a, tag));
    assert_true(affinity_keeps(b, tag));
    affinity_clear(b);
    assert_false(affinity_keeps(b, tag));
}

static void
test_the_oldest_falls_out(void **state)
{
    struct score_slot *a = scoreboard_slot(board, 0);
    (void)state;
    for (uint64_t t = 1; t <= SCORE_KEPT + 1; t++)
        affinity_keep(board, a, t);
    assert_false(affinity_keeps(a, 1));
    assert_true(affinity_keeps(a, 2));
    assert_true(affinity_keeps(a, SCORE_KEPT + 1));
    affinity_clear(a);
}

static void
test_a_claim_is_exclusive(void **state)
{
    struct score_slot *a = scoreboard_slot(board, 0), *b = scoreboard_slot(board, 1);
    (void)state;
    affinity_keep(board, b, 7);
    assert_int_equal(affinity_claim(board, a, LANE_EXEC, 7), 1);
    assert_int_equal(affinity_claim(board, a, LANE_EXEC, 7), -1);
    assert_false(affinity_leave_idle(b, SLOT_WORKING));
    affinity_unclaim(b);
    assert_true(affinity_leave_idle(b, SLOT_WORKING));
    assert_int_equal(affinity_claim(board, a, LANE_EXEC, 7), -1);
    score_set(b, SLOT_IDLE, DEADLINE_NEVER);
    assert_int_equal(affinity_claim(board, a, LANE_API, 7), -1);
    assert_int_equal(affinity_claim(board, b, LANE_EXEC, 7), -1);
    int any = affinity_claim(board, a, LANE_EXEC, 0);
    assert_true(any > 0);
    affinity_unclaim(scoreboard_slot(board, any));
}

static void
test_who_ends_can_be_claimed(void **state)
{
    struct score_slot *a = scoreboard_slot(board, 0), *b = scoreboard_slot(board, 1);
    (void)state;
    affinity_keep(board, b, 7);
    affinity_ending(b); /* not while it is idle */
    assert_int_equal(b->state, SLOT_IDLE);
    score_set(b, SLOT_WORKING, (struct deadline){12345});
    assert_int_equal(affinity_claim(board, a, LANE_EXEC, 7), -1);
    affinity_ending(b);
    assert_int_equal(b->state, SLOT_ENDING);
    assert_int_equal(affinity_claim(board, a, LANE_EXEC, 8), -1);
    assert_int_not_equal(affinity_claim(board, a, LANE_EXEC, 0), 1);
    assert_int_equal(affinity_claim(board, a, LANE_EXEC, 7), 1);
    affinity_become_idle(b); /* the claim stays */
    assert_int_equal(b->state, SLOT_CLAIMED);
    assert_int_equal(b->deadline_ms, 0);
    affinity_unclaim(b);
    score_set(b, SLOT_WORKING, (struct deadline){12345});
    affinity_ending(b);
    affinity_become_idle(b);
    assert_int_equal(b->state, SLOT_IDLE);
    affinity_clear(b);
}

/* Exactly one of the two gets it: who takes it, or who withdraws it because nobody did. */
static void
test_an_offer_is_taken_or_withdrawn(void **state)
{
    (void)state;
    uint64_t offer = affinity_offer(board, 2);
    assert_true(affinity_take(board, offer));
    assert_false(affinity_take(board, offer));
    assert_true(affinity_await(board, offer, 1000)); /* at once, since it is taken */
    uint64_t next = affinity_offer(board, 2);
    assert_true(next != offer);
    assert_false(affinity_take(board, offer));
    assert_false(affinity_await(board, next, 5));
    assert_false(affinity_take(board, next));
    assert_false(affinity_take(board, (uint64_t)99 << 32 | 1)); /* no such slot */
    assert_false(affinity_take(board, 0));
    uint64_t lost = affinity_offer(board, 2);
    affinity_clear(scoreboard_slot(board, 2)); /* its worker died, another is there */
    assert_false(affinity_take(board, lost));
}

/* What was kept for one is kept for another, and by nobody else. */
static void
test_a_tag_is_renamed(void **state)
{
    struct score_slot *a = scoreboard_slot(board, 0), *b = scoreboard_slot(board, 1);
    (void)state;
    affinity_keep(board, a, 20); /* an earlier session of that name */
    affinity_rename(board, 10, 20);
    assert_true(affinity_keeps(a, 20));
    affinity_keep(board, b, 10);
    assert_true(affinity_kept(board, 10));
    affinity_rename(board, 10, 20);
    assert_false(affinity_kept(board, 10));
    assert_false(affinity_keeps(a, 20));
    assert_true(affinity_keeps(b, 20));
    affinity_drop(a, 20);
    assert_true(affinity_kept(board, 20));
    affinity_drop(b, 20);
    assert_false(affinity_kept(board, 20));
}

static void
test_the_first_idle_ones(void **state)
{
    struct score_slot *c = scoreboard_slot(board, 2);
    (void)state;
    for (int i = 0; i < 4; i++)
        score_set(scoreboard_slot(board, i), SLOT_IDLE, DEADLINE_NEVER);
    assert_true(affinity_among_first(board, c, LANE_EXEC, 3));
    assert_false(affinity_among_first(board, c, LANE_EXEC, 2));
    score_set(scoreboard_slot(board, 0), SLOT_WORKING, DEADLINE_NEVER);
    assert_true(affinity_among_first(board, c, LANE_EXEC, 2));
    atomic_store(&scoreboard_slot(board, 1)->lane, LANE_API);
    assert_true(affinity_among_first(board, c, LANE_EXEC, 1));
    assert_false(affinity_among_first(board, c, LANE_EXEC, 0));
    atomic_store(&scoreboard_slot(board, 1)->lane, LANE_EXEC);
    score_set(scoreboard_slot(board, 0), SLOT_IDLE, DEADLINE_NEVER);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_keeper_a_tag),
        cmocka_unit_test(test_the_oldest_falls_out),
        cmocka_unit_test(test_a_claim_is_exclusive),
        cmocka_unit_test(test_who_ends_can_be_claimed),
        cmocka_unit_test(test_an_offer_is_taken_or_withdrawn),
        cmocka_unit_test(test_a_tag_is_renamed),
        cmocka_unit_test(test_the_first_idle_ones),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down) != 0;
}
