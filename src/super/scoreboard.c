/* SPDX-License-Identifier: MIT */
#include "super/scoreboard.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SCORE_MAGIC UINT32_C(0x4b535548) /* "HUSK" */
#define SCORE_VERSION 1
#define SCORE_SLOTS_MAX 32768

const double score_bucket_s[SCORE_BUCKETS - 1] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                  1,     2.5,  5,     10,   60,  300};

static const char *const lane_names[LANE_COUNT] = {"exec", "api", "bulk", "ctl"};

/* The file: this, then the slots.  A reader of another build refuses it by version and sizes. */
struct score_file {
    uint32_t magic;
    uint32_t version;
    uint32_t slot_size;
    uint32_t n_slots;
    _Alignas(64) struct score_slot slots[];
};

struct scoreboard {
    struct score_file *file;
    size_t size;
};

const char *
lane_name(enum lane l)
{
    return (unsigned)l < LANE_COUNT ? lane_names[l] : "unknown";
}

int
lane_parse(const char *s, enum lane *ret)
{
    for (int i = 0; i < LANE_COUNT; i++) {
        if (strcmp(s, lane_names[i]) == 0) {
            *ret = (enum lane)i;
            return 1;
        }
    }
    return 0;
}

static size_t
file_size(uint32_t n_slots)
{
    return sizeof(struct score_file) + n_slots * sizeof(struct score_slot);
}

static struct scoreboard *
wrap(void *map, size_t size)
{
    struct scoreboard *b = xcalloc(1, sizeof *b);

    b->file = map;
    b->size = size;
    return b;
}

/*
 * A new file every time, renamed over the old one: workers of an earlier master that still run keep
 * their mapping and cannot disturb ours.
 */
int
scoreboard_create(const char *path, int n_slots, struct scoreboard **ret, struct err *err)
{
    char fresh[4096];
    size_t size;
    void *map;

    if (n_slots < 1 || n_slots > SCORE_SLOTS_MAX)
        return err_set(err, ERR_INVALID, "a scoreboard has 1 to %d slots, not %d", SCORE_SLOTS_MAX,
                       n_slots);
    if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
        return err_set(err, ERR_INVALID, "the scoreboard's path is too long: %.100s…", path);
    size = file_size((uint32_t)n_slots);
    (void)unlink(fresh);
    _cleanup_close_ int fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
    if (fd < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot make the scoreboard %s", fresh);
    /* Allocated, not sparse: a full disk must show here and not as SIGBUS in a worker. */
    int e = posix_fallocate(fd, 0, (off_t)size);
    if (e == 0 && fchmod(fd, 0660) < 0)
        e = errno;
    map = e == 0 ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (e == 0 && map == MAP_FAILED)
        e = errno;
    if (e == 0 && rename(fresh, path) < 0) {
        e = errno;
        (void)munmap(map, size);
    }
    if (e != 0) {
        (void)unlink(fresh);
        return err_sys(err, ERR_UNAVAILABLE, e, "cannot make the scoreboard %s", path);
    }
    *ret = wrap(map, size);
    (*ret)->file->magic = SCORE_MAGIC;
    (*ret)->file->version = SCORE_VERSION;
    (*ret)->file->slot_size = sizeof(struct score_slot);
    (*ret)->file->n_slots = (uint32_t)n_slots;
    return 0;
}

int
scoreboard_attach(const char *path, bool writable, struct scoreboard **ret, struct err *err)
{
    _cleanup_close_ int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW);
    const struct score_file *file;
    struct stat st;
    size_t size;
    void *map;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot open the scoreboard %s", path);
    if (st.st_size < (off_t)file_size(1) || st.st_size > (off_t)file_size(SCORE_SLOTS_MAX))
        return err_set(err, ERR_UNAVAILABLE, "%s is no scoreboard", path);
    size = (size_t)st.st_size;
    map = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return err_sys(err, ERR_UNAVAILABLE, errno, "cannot map the scoreboard %s", path);
    file = map;
    if (file->magic != SCORE_MAGIC || file->version != SCORE_VERSION ||
        file->slot_size != sizeof(struct score_slot) || file->n_slots < 1 ||
        file->n_slots > SCORE_SLOTS_MAX || file_size(file->n_slots) != size) {
        (void)munmap(map, size);
        return err_set(err, ERR_UNAVAILABLE, "%s is not a scoreboard of this version", path);
    }
    *ret = wrap(map, size);
    return 0;
}

void
scoreboard_free(struct scoreboard *b)
{
    if (!b)
        return;
    (void)munmap(b->file, b->size);
    free(b);
}

int
scoreboard_slots(const struct scoreboard *b)
{
    return (int)b->file->n_slots;
}

struct score_slot *
scoreboard_slot(struct scoreboard *b, int i)
{
    if (i < 0 || i >= scoreboard_slots(b))
        return NULL;
    return &b->file->slots[i];
}

int
scoreboard_count(const struct scoreboard *b, enum lane l, enum slot_state s)
{
    int n = 0;

    for (uint32_t i = 0; i < b->file->n_slots; i++) {
        const struct score_slot *slot = &b->file->slots[i];

        n += atomic_load_explicit(&slot->state, memory_order_relaxed) == (int)s &&
             atomic_load_explicit(&slot->lane, memory_order_relaxed) == (int)l;
    }
    return n;
}

void
score_observe(struct score_histogram *h, int64_t us)
{
    int i = 0;

    if (us < 0)
        us = 0;
    while (i < SCORE_BUCKETS - 1 && (double)us > score_bucket_s[i] * 1e6)
        i++;
    atomic_fetch_add_explicit(&h->count[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_us, (uint64_t)us, memory_order_relaxed);
}

void
score_set(struct score_slot *s, enum slot_state state, struct deadline d)
{
    /* The deadline first when it goes up, so that no reader sees "working" with an old one. */
    atomic_store(&s->deadline_ms, d.at_ms == INT64_MAX ? 0 : d.at_ms);
    atomic_store(&s->since_ms, clock_mono_ms());
    atomic_store(&s->state, (int32_t)state);
}
