/* SPDX-License-Identifier: MIT */
#include "super/affinity.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t
affinity_tag(const void *p, size_t n)
{
    const unsigned char *s = p;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ s[i]) * UINT64_C(0x100000001b3);
    return h != 0 ? h : 1;
}

bool
affinity_keeps(const struct score_slot *s, uint64_t tag)
{
    for (int i = 0; i < SCORE_KEPT; i++) {
        if (atomic_load_explicit(&s->kept[i], memory_order_relaxed) == tag)
            return true;
    }
    return false;
}

bool
affinity_kept(struct scoreboard *b, uint64_t tag)
{
    for (int k = 0; k < scoreboard_slots(b); k++) {
        if (affinity_keeps(scoreboard_slot(b, k), tag))
            return true;
    }
    return false;
}

void
affinity_drop(struct score_slot *own, uint64_t tag)
{
    for (int i = 0; i < SCORE_KEPT; i++) {
        uint64_t had = tag;
        (void)atomic_compare_exchange_strong(&own->kept[i], &had, 0);
    }
}

static void
drop_everywhere(struct scoreboard *b, uint64_t tag)
{
    for (int k = 0; k < scoreboard_slots(b); k++)
        affinity_drop(scoreboard_slot(b, k), tag);
}

void
affinity_rename(struct scoreboard *b, uint64_t from, uint64_t to)
{
    if (!affinity_kept(b, from))
        return;
    drop_everywhere(b, to);
    for (int k = 0; k < scoreboard_slots(b); k++) {
        struct score_slot *s = scoreboard_slot(b, k);

        for (int i = 0; i < SCORE_KEPT; i++) {
            uint64_t had = from;
            (void)atomic_compare_exchange_strong(&s->kept[i], &had, to);
        }
    }
}

bool
affinity_among_first(struct scoreboard *b, const struct score_slot *own, enum lane lane, int n)
{
    for (int k = 0; n > 0 && k < scoreboard_slots(b); k++) {
        const struct score_slot *s = scoreboard_slot(b, k);

        if (s == own)
            return true;
        if (atomic_load(&s->lane) == (int32_t)lane && atomic_load(&s->state) == SLOT_IDLE)
            n--;
    }
    return false;
}

void
affinity_keep(struct scoreboard *b, struct score_slot *own, uint64_t tag)
{
    if (affinity_keeps(own, tag))
        return;
    drop_everywhere(b, tag);
    /* The newest first; the oldest falls out, as its channel did. */
    for (int i = SCORE_KEPT - 1; i > 0; i--)
        atomic_store(&own->kept[i], atomic_load(&own->kept[i - 1]));
    atomic_store(&own->kept[0], tag);
}

void
affinity_clear(struct score_slot *s)
{
    for (int i = 0; i < SCORE_KEPT; i++)
        atomic_store(&s->kept[i], 0);
    atomic_store(&s->offered, 0);
}

int
affinity_claim(struct scoreboard *b, const struct score_slot *own, enum lane lane, uint64_t tag)
{
    for (int k = 0; k < scoreboard_slots(b); k++) {
        struct score_slot *s = scoreboard_slot(b, k);
        int32_t idle = SLOT_IDLE, ending = SLOT_ENDING;

        if (s == own || (tag != 0 && !affinity_keeps(s, tag)) ||
            atomic_load(&s->lane) != (int32_t)lane)
            continue;
        /* Once more for idle: it may have become so between the two. */
        if (atomic_compare_exchange_strong(&s->state, &idle, SLOT_CLAIMED) ||
            (tag != 0 && atomic_compare_exchange_strong(&s->state, &ending, SLOT_CLAIMED)) ||
            atomic_compare_exchange_strong(&s->state, &(int32_t){SLOT_IDLE}, SLOT_CLAIMED)) {
            atomic_store(&s->since_ms, clock_mono_ms());
            return k;
        }
    }
    return -1;
}

/* An offer is the slot of who makes it and, below, its number among this slot's. */
static struct score_slot *
offering(struct scoreboard *b, uint64_t offer)
{
    uint64_t slot = offer >> 32;

    return slot < INT_MAX ? scoreboard_slot(b, (int)slot) : NULL;
}

uint64_t
affinity_offer(struct scoreboard *b, int own)
{
    struct score_slot *s = scoreboard_slot(b, own);
    uint32_t n = atomic_fetch_add(&s->offers, 1) + 1;

    if (n == 0) /* which says "none" */
        n = atomic_fetch_add(&s->offers, 1) + 1;
    atomic_store(&s->offered, n);
    return (uint64_t)own << 32 | n;
}

static bool
settle(struct score_slot *s, uint64_t offer)
{
    uint32_t n = (uint32_t)offer;

    return n != 0 && atomic_compare_exchange_strong(&s->offered, &n, 0);
}

bool
affinity_await(struct scoreboard *b, uint64_t offer, int wait_ms)
{
    struct score_slot *s = offering(b, offer);
    struct deadline d = deadline_in(wait_ms);

    while (atomic_load(&s->offered) == (uint32_t)offer && !deadline_passed(d)) {
        int ms = deadline_poll_ms(d, wait_ms);
        struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

        (void)syscall(SYS_futex, &s->offered, FUTEX_WAIT, (uint32_t)offer, &t, NULL, 0);
    }
    return !settle(s, offer);
}

bool
affinity_take(struct scoreboard *b, uint64_t offer)
{
    struct score_slot *s = offering(b, offer);

    if (!s || !settle(s, offer))
        return false;
    (void)syscall(SYS_futex, &s->offered, FUTEX_WAKE, 1, NULL, NULL, 0);
    return true;
}

void
affinity_unclaim(struct score_slot *s)
{
    int32_t claimed = SLOT_CLAIMED;

    (void)atomic_compare_exchange_strong(&s->state, &claimed, SLOT_IDLE);
}

bool
affinity_leave_idle(struct score_slot *own, enum slot_state state)
{
    int32_t idle = SLOT_IDLE;

    return atomic_compare_exchange_strong(&own->state, &idle, (int32_t)state);
}

void
affinity_ending(struct score_slot *own)
{
    int32_t working = SLOT_WORKING;

    (void)atomic_compare_exchange_strong(&own->state, &working, SLOT_ENDING);
}

void
affinity_become_idle(struct score_slot *own)
{
    int32_t was = atomic_load(&own->state);

    atomic_store(&own->deadline_ms, 0);
    atomic_store(&own->since_ms, clock_mono_ms());
    while (was != SLOT_CLAIMED && !atomic_compare_exchange_weak(&own->state, &was, SLOT_IDLE))
        ;
}
