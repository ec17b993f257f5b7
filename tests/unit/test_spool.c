/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "spool/spool.h"

#define EID "0a1b2c3d-0000-4000-8000-000000000001"

static char dir[] = "/tmp/husk-spool-XXXXXX";

static int
setup(void **state)
{
    (void)state;
    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
    return mkdtemp(dir) ? 0 : -1;
}

static int
teardown(void **state)
{
    (void)state;
    spool_remove(dir, EID);
    return rmdir(dir); /* fails when anything was left behind */
}

static struct spool_writer *
writer(int64_t max)
{
    struct spool_writer *w = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(spool_create(dir, EID, max, &w, &err), 0);
    return w;
}

static struct spool_reader *
reader(int64_t after)
{
    struct spool_reader *r = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(spool_open(dir, EID, after, &r, &err), 0);
    return r;
}

static int64_t
put(struct spool_writer *w, enum exec_event_type type, const char *text)
{
    int64_t seq = 0;
    struct exec_event ev = {type, text, strlen(text)};
    assert_int_equal(spool_append(w, &ev, &seq), 0);
    return seq;
}

static void
expect(struct spool_reader *r, enum exec_event_type type, const char *text, int64_t seq)
{
    struct exec_event ev;
    int64_t got = 0;
    struct err err = ERR_INIT;
    assert_int_equal(spool_next(r, &ev, &got, &err), 1);
    assert_int_equal(ev.type, type);
    assert_int_equal(ev.n, strlen(text));
    assert_memory_equal(ev.p, text, ev.n);
    assert_int_equal(got, seq);
}

static int
next(struct spool_reader *r)
{
    struct exec_event ev;
    int64_t seq;
    struct err err = ERR_INIT;
    return spool_next(r, &ev, &seq, &err);
}

static void
events_path(char out[100])
{
    snprintf(out, 100, "%s/%s.events", dir, EID);
}

static void
t_a_reader_follows_the_writer(void **state)
{
    (void)state;
    struct spool_writer *w = writer(1 << 20);
    struct spool_reader *r = reader(0);
    assert_int_equal(next(r), 0);
    assert_int_equal(put(w, EVENT_EXECUTION, "{}"), 1);
    assert_int_equal(put(w, EVENT_STDOUT, ""), 2);
    expect(r, EVENT_EXECUTION, "{}", 1);
    expect(r, EVENT_STDOUT, "", 2);
    assert_int_equal(next(r), 0);
    assert_int_equal(put(w, EVENT_RESULT, "{\"ok\":1}"), 3);
    assert_int_equal(next(r), 0); /* not before it is said how the run ended */
    (void)spool_finish(w, NULL, NULL, 0, NULL);
    expect(r, EVENT_RESULT, "{\"ok\":1}", 3);
    assert_int_equal(next(r), 2);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
    /* Later, and from the middle, and from beyond the end. */
    r = reader(2);
    expect(r, EVENT_RESULT, "{\"ok\":1}", 3);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
    r = reader(99);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
}

static void
t_the_end_says_how(void **state)
{
    (void)state;
    struct spool_end said = {.ended_at = 1,
                             .duration_ms = 2,
                             .bytes_stdout = 3,
                             .bytes_stderr = 4,
                             .bytes_rich = INT64_MAX,
                             .reason = REASON_EXCEPTION,
                             .truncated = true,
                             .state_lost_told = true,
                             .error_name = "KeyError"};
    struct spool_end got;
    struct err err = ERR_INIT;
    assert_int_equal(spool_get_end(dir, EID, &got, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    struct spool_writer *w = writer(1 << 20);
    put(w, EVENT_STDOUT, "abc");
    put(w, EVENT_RESULT, "{}");
    assert_int_equal(spool_get_end(dir, EID, &got, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(spool_finish(w, &said, "{\"a\":1}", 7, &err), 0);
    memset(&got, 1, sizeof(got));
    assert_int_equal(spool_get_end(dir, EID, &got, &err), 0);
    assert_int_equal(got.ended_at, 1);
    assert_int_equal(got.duration_ms, 2);
    assert_int_equal(got.bytes_stdout, 3);
    assert_int_equal(got.bytes_stderr, 4);
    assert_true(got.bytes_rich == INT64_MAX);
    assert_int_equal(got.reason, REASON_EXCEPTION);
    assert_false(got.ok);
    assert_true(got.truncated);
    assert_false(got.runtime_invalidated);
    assert_true(got.state_lost_told);
    assert_string_equal(got.error_name, "KeyError");
    struct buf whole = BUF_INIT(100);
    assert_int_equal(spool_get_result(dir, EID, &whole, &err), 0);
    assert_string_equal(buf_str(&whole), "{\"a\":1}");
    buf_done(&whole);
    struct spool_reader *r = reader(0);
    expect(r, EVENT_STDOUT, "abc", 1);
    expect(r, EVENT_RESULT, "{}", 2);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
    /* No reason that there is. */
    spool_remove(dir, EID);
    w = writer(1 << 20);
    said.reason = (enum exec_reason)99;
    (void)spool_finish(w, &said, NULL, 0, &err);
    assert_int_equal(spool_get_end(dir, EID, &got, &err), -1);
}

static void
t_a_writer_that_died_leaves_no_end(void **state)
{
    (void)state;
    struct spool_writer *w = writer(1 << 20);
    put(w, EVENT_STDOUT, "x");
    spool_writer_free(w);
    struct spool_reader *r = reader(0);
    expect(r, EVENT_STDOUT, "x", 1);
    assert_int_equal(next(r), 0);
    spool_reader_free(r);
}

static void
t_beyond_the_bound_there_is_one_gap(void **state)
{
    (void)state;
    struct spool_writer *w = writer(24 + 4);
    put(w, EVENT_STDOUT, "abcd"); /* fits exactly */
    put(w, EVENT_STDOUT, "0123456789");
    put(w, EVENT_STDERR, ""); /* would not fit either; nor may it overtake the dropped one */
    put(w, EVENT_STDOUT, "0123");
    assert_int_equal(put(w, EVENT_RESULT, "{}"), 6);
    (void)spool_finish(w, NULL, NULL, 0, NULL);
    struct spool_reader *r = reader(0);
    expect(r, EVENT_STDOUT, "abcd", 1);
    expect(r, EVENT_GAP, "{\"dropped_bytes\":14}", 5);
    expect(r, EVENT_RESULT, "{}", 6);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
    /* Whoever resumes inside the gap is told of it. */
    r = reader(3);
    expect(r, EVENT_GAP, "{\"dropped_bytes\":14}", 5);
    spool_reader_free(r);
}

static void
t_a_run_that_ends_in_a_gap_still_shows_it(void **state)
{
    (void)state;
    struct spool_writer *w = writer(10);
    put(w, EVENT_STDOUT, "abc");
    (void)spool_finish(w, NULL, NULL, 0, NULL);
    struct spool_reader *r = reader(0);
    expect(r, EVENT_GAP, "{\"dropped_bytes\":3}", 2);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
}

static void
t_a_payload_over_the_maximum_is_dropped(void **state)
{
    (void)state;
    size_t n = 16 * 1024 * 1024 + 64 * 1024 + 1;
    _cleanup_free_ char *big = malloc(n);
    assert_non_null(big);
    memset(big, 'x', n);
    struct spool_writer *w = writer(INT64_C(1) << 40);
    struct exec_event ev = {EVENT_STDOUT, big, n};
    assert_int_equal(spool_append(w, &ev, NULL), 0);
    spool_writer_free(w);
    spool_remove(dir, EID);
    w = writer(INT64_C(1) << 40);
    ev.n = n - 1;
    assert_int_equal(spool_append(w, &ev, NULL), 0);
    (void)spool_finish(w, NULL, NULL, 0, NULL);
    struct spool_reader *r = reader(0);
    struct exec_event got;
    int64_t seq;
    struct err err = ERR_INIT;
    assert_int_equal(spool_next(r, &got, &seq, &err), 1);
    assert_int_equal(got.n, n - 1);
    assert_int_equal(got.p[n - 2], 'x');
    spool_reader_free(r);
}

/* RLIMIT_FSIZE stands in for the full disk: a write stops in mid-record. */
static void
t_a_full_disk_is_a_gap_and_no_half_record(void **state)
{
    (void)state;
    struct rlimit was, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    low = was;
    low.rlim_cur = 60; /* one record of 24 + 10, and 26 bytes of the next */
    struct spool_writer *w = writer(1 << 20);
    put(w, EVENT_STDOUT, "0123456789");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    put(w, EVENT_STDOUT, "0123456789");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    put(w, EVENT_STDOUT, "later"); /* there is space again; order would be broken by it */
    put(w, EVENT_RESULT, "{}");
    (void)spool_finish(w, NULL, NULL, 0, NULL);
    struct spool_reader *r = reader(0);
    expect(r, EVENT_STDOUT, "0123456789", 1);
    expect(r, EVENT_GAP, "{\"dropped_bytes\":15}", 4);
    expect(r, EVENT_RESULT, "{}", 5);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
}

/* Not even the gap finds room: then there is no result either that would pass for a whole run's. */
static void
t_a_disk_that_stays_full_shows_no_result(void **state)
{
    (void)state;
    struct rlimit was, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    low = was;
    low.rlim_cur = 60; /* the first record, and a short result would fit too */
    struct spool_writer *w = writer(1 << 20);
    put(w, EVENT_STDOUT, "0123456789");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_int_equal(spool_untold(w), 0);
    put(w, EVENT_STDOUT, "0123456789");
    put(w, EVENT_RESULT, "{}");
    assert_int_equal(spool_untold(w), 10);
    (void)spool_finish(w, NULL, NULL, 0, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    struct spool_reader *r = reader(0);
    expect(r, EVENT_STDOUT, "0123456789", 1);
    assert_int_equal(next(r), 2);
    spool_reader_free(r);
}

static void
t_a_record_that_is_not_whole_is_waited_for(void **state)
{
    (void)state;
    struct spool_writer *w = writer(1 << 20);
    put(w, EVENT_STDOUT, "first");
    put(w, EVENT_STDOUT, "second");
    spool_writer_free(w);
    char path[100];
    events_path(path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (off_t size = st.st_size - 1; size > st.st_size - 30; size--) {
        assert_int_equal(truncate(path, size), 0);
        struct spool_reader *r = reader(0);
        expect(r, EVENT_STDOUT, "first", 1);
        assert_int_equal(next(r), 0);
        spool_reader_free(r);
    }
}

static void
t_damage_is_noticed(void **state)
{
    (void)state;
    char path[100];
    events_path(path);
    for (off_t at = 0; at < 24; at++) {
        struct spool_writer *w = writer(1 << 20);
        put(w, EVENT_STDOUT, "x");
        spool_writer_free(w);
        _cleanup_close_ int fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, "\xfe", 1, at), 1);
        struct spool_reader *r = reader(0);
        int rc = next(r);
        /* A longer length that is allowed looks like a record still to come; a greater number
         * like a gap. Neither gives wrong bytes. */
        if (at >= 8 && at <= 10)
            assert_int_equal(rc, 0);
        else if (at >= 16 && at < 23)
            assert_int_equal(rc, 1);
        else
            assert_int_equal(rc, -1);
        spool_reader_free(r);
        spool_remove(dir, EID);
    }
}

static void
t_names_do_not_lead_out(void **state)
{
    (void)state;
    struct spool_writer *w = NULL;
    struct spool_reader *r = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(spool_create(dir, "../x", 100, &w, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(spool_open(dir, "", 0, &r, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(spool_open(dir, EID, 0, &r, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.slug, "events_gone");
    w = writer(100);
    struct spool_writer *second = NULL;
    assert_int_equal(spool_create(dir, EID, 100, &second, &err), -1);
    spool_writer_free(w);
    spool_writer_free(NULL);
    spool_reader_free(NULL);
}

static void
t_the_result_is_kept_whole(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct exec_event ev;
    int64_t seq;
    _cleanup_buf_ struct buf got = BUF_INIT(100);
    assert_int_equal(spool_get_result(dir, EID, &got, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.slug, "events_gone");
    struct spool_writer *w = writer(1000);
    assert_int_equal(spool_get_result(dir, EID, &got, &err), -1); /* empty */
    put(w, EVENT_STDOUT, "some output that is longer than any header of a record");
    assert_int_equal(spool_get_result(dir, EID, &got, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(spool_finish(w, NULL, "{\"a\":1}", 7, &err), 0);
    assert_int_equal(spool_get_result(dir, EID, &got, &err), 0);
    assert_string_equal(buf_str(&got), "{\"a\":1}");
    _cleanup_buf_ struct buf small = BUF_INIT(3);
    assert_int_equal(spool_get_result(dir, EID, &small, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    struct spool_reader *r = reader(1);
    assert_int_equal(spool_next(r, &ev, &seq, &err), 2);
    spool_reader_free(r);
    spool_remove(dir, EID);
    spool_remove(dir, EID); /* gone already is fine */
}

static void
t_a_run_can_end_without_result(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    _cleanup_buf_ struct buf got = BUF_INIT(100);
    struct spool_writer *w = writer(1000);
    put(w, EVENT_STDOUT, "some output that is longer than any header of a record");
    assert_int_equal(spool_finish(w, NULL, NULL, 0, &err), 0);
    assert_int_equal(spool_get_result(dir, EID, &got, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        T(t_a_reader_follows_the_writer),
        T(t_the_end_says_how),
        T(t_a_writer_that_died_leaves_no_end),
        T(t_beyond_the_bound_there_is_one_gap),
        T(t_a_run_that_ends_in_a_gap_still_shows_it),
        T(t_a_payload_over_the_maximum_is_dropped),
        T(t_a_full_disk_is_a_gap_and_no_half_record),
        T(t_a_disk_that_stays_full_shows_no_result),
        T(t_a_record_that_is_not_whole_is_waited_for),
        T(t_damage_is_noticed),
        T(t_names_do_not_lead_out),
        T(t_the_result_is_kept_whole),
        T(t_a_run_can_end_without_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
