/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "base/sig.h"
#include "sandbox/transport/rest.h"
#include "support/peer.h"
#include "support/runtime.h"

/* The backend against a gateway that misbehaves by script. */

static struct peer gateway;
static struct runtime t;

static void
begin(const char *script)
{
    assert_int_equal(fake_gateway_start(&gateway, script), 0);
    assert_int_equal(runtime_backend(&t, gateway.url, "sesame"), 0);
    t.sb->ops->forget(t.sb, "nothing");
}

static void
begin_open(const char *script)
{
    begin(script);
    if (runtime_open(&t) < 0)
        fail_msg("open: %s", t.err.msg);
    assert_string_equal(t.made.kernel_session, "k1");
}

static int
end(void **state)
{
    (void)state;
    peer_stop(&gateway);
    t.made.handle[0] = '\0';
    t.dir = NULL;
    runtime_done(&t);
    return 0;
}

static void
test_either_order(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"reply\"], [\"sleep\", 300], [\"stream\", \"late\"],"
               " [\"idle\"]], [[\"busy\"], [\"stream\", \"x\"], [\"idle\"], [\"sleep\", 100],"
               " [\"reply\"]]]}");
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "late");
    assert_true(t.r.ok);
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "x");
    assert_true(t.r.ok);
    assert_false(t.r.incomplete);
}

static void
test_one_missing(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"stream\", \"a\"], [\"idle\"]],"
               " [[\"busy\"], [\"stream\", \"b\"], [\"reply\"]]]}");
    runtime_expect(&t, "1", 20000, REASON_COMPLETED, "a");
    assert_true(t.r.incomplete);
    assert_false(t.r.ok);
    assert_in_range(t.took_ms, 900, 6000);
    runtime_expect(&t, "1", 20000, REASON_COMPLETED, "b");
    assert_true(t.r.incomplete);
    assert_in_range(t.took_ms, 2900, 9000);
}

/* The grace for what is missing does not run while the gateway as a whole stands still. */
static void
test_a_gateway_that_stands_still_loses_nothing(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"reply\"], [\"freeze\", 4500], [\"sleep\", 500],"
               " [\"stream\", \"late\"], [\"idle\"]],"
               " [[\"busy\"], [\"stream\", \"a\"], [\"idle\"], [\"freeze\", 2500],"
               " [\"sleep\", 200], [\"reply\"]]]}");
    runtime_expect(&t, "1", 20000, REASON_COMPLETED, "late");
    assert_false(t.r.incomplete);
    runtime_expect(&t, "1", 20000, REASON_COMPLETED, "a");
    assert_false(t.r.incomplete);
}

static void
test_other_parents_do_not_count(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"reply\"], [\"idle\"]],"
               " [[\"earlier\"], [\"stream\", \"stray\"], [\"idle\"], [\"reply\"]]]}");
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "");
    /* The second one is answered for the first only: nothing of it is ours. */
    runtime_expect(&t, "2", 1000, REASON_TIMEOUT, "");
    assert_true(t.r.runtime_invalidated);
}

static void
test_fragments_garbage_nan(void **state)
{
    (void)state;
    begin_open(
        "{\"exec\": [[[\"fragment\", 1, true], [\"busy\"], [\"stream\", \"in pieces\"], "
        "[\"reply\"],"
        " [\"idle\"]], [[\"fragment\", 0], [\"garbage\"], [\"raw\", \"[]\"], [\"raw\", "
        "\"nonsense\"],"
        " [\"nan\"], [\"input_request\"], [\"stream\", \"lives\"], [\"reply\"], [\"idle\"]]]}");
    runtime_expect(&t, "1", 20000, REASON_COMPLETED, "in pieces");
    runtime_expect(&t, "1", 20000, REASON_COMPLETED, "lives");
    assert_int_equal(t.r.n_displays, 1);
    assert_null(strstr(t.r.displays[0].data, "NaN"));
}

static void
test_restart_notice(void **state)
{
    (void)state;
    begin_open(
        "{\"exec\": [[[\"busy\"], [\"stream\", \"so far\"], [\"sleep\", 200], [\"restarting\"]]]}");
    runtime_expect(&t, "1", 30000, REASON_KERNEL_DIED, "so far");
    assert_true(t.r.runtime_invalidated);
    assert_in_range(t.took_ms, 0, 3000);
}

static void
test_death_without_notice(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"die\"]]]}");
    runtime_expect(&t, "1", 30000, REASON_KERNEL_DIED, "");
    assert_in_range(t.took_ms, 0, 6000);
}

static void
test_gateway_lost(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"rest\", \"show\", \"close\"], [\"drop\"]]]}");
    runtime_expect(&t, "1", 30000, REASON_GATEWAY_LOST, "");
    assert_true(t.r.runtime_invalidated);
    assert_in_range(t.took_ms, 0, 8000);
}

static void
test_dropped_channel_is_found_again(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"stream\", \"a\"], [\"sleep\", 100], [\"drop\"],"
               " [\"sleep\", 1500], [\"stream\", \"b\"], [\"reply\"], [\"idle\"]]]}");
    runtime_expect(&t, "1", 30000, REASON_COMPLETED, NULL);
    assert_true(t.r.incomplete);
}

/* How it ended was perhaps among what is lost. */
static void
test_no_reply_by_a_dropped_channel(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"sleep\", 100], [\"drop\"], [\"sleep\", 1500],"
               " [\"idle\"]]]}");
    runtime_expect(&t, "1", 30000, REASON_GATEWAY_LOST, "");
    assert_true(t.r.incomplete);
    assert_false(t.r.ok);
}

static void
test_new_process_is_noticed(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"reply\"], [\"idle\"], [\"session\", \"k2\"]]]}");
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "");
    t.sb->ops->forget(t.sb, t.made.handle);
    assert_int_equal(runtime_run(&t, "2", 5000), -1);
    assert_int_equal(t.err.code, ERR_CONFLICT);
    assert_string_equal(t.err.slug, "runtime_gone");
}

/* Opened, without a channel, and with a directory that it does not know yet. */
static void
begin_unbound(const char *script)
{
    begin_open(script);
    t.sb->ops->forget(t.sb, t.made.handle);
    t.dir = "/work\\space";
}

static void
test_directory_goes_ahead_of_the_code(void **state)
{
    (void)state;
    begin_unbound("{\"exec\": [[[\"busy\"], [\"stream\", \"not shown\"], [\"reply\"], [\"idle\"]],"
                  " [[\"busy\"], [\"stream\", \"a\"], [\"reply\"], [\"idle\"]]]}");
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "a");
    t.dir = NULL;
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "a");
}

/* A gateway lets the first requests of a channel through before it hears what the kernel publishes:
 * the code is not sent before that. */
static void
test_no_code_before_its_output_would_come(void **state)
{
    const char *script = "{\"deaf\": 3, \"exec\": [[[\"busy\"], [\"reply\"], [\"idle\"]],"
                         " [[\"busy\"], [\"stream\", \"heard\"], [\"reply\"], [\"idle\"]]]}";

    (void)state;
    begin_unbound(script);
    runtime_expect(&t, "1", 10000, REASON_COMPLETED, "heard");
    assert_false(t.r.incomplete);
    assert_in_range(t.took_ms, 200, 2500);
}

/* One that never publishes its status is used all the same. */
static void
test_a_kernel_that_publishes_nothing(void **state)
{
    (void)state;
    begin_open("{\"deaf\": 1000000, \"exec\": [[[\"reply\"]]]}");
    runtime_expect(&t, "1", 20000, REASON_COMPLETED, "");
    assert_true(t.r.incomplete);
    assert_in_range(t.took_ms, 0, 9000);
}

static void
test_no_directory_no_code(void **state)
{
    (void)state;
    begin_unbound("{\"exec\": [[[\"busy\"], [\"reply\", \"error\"], [\"idle\"]],"
                  " [[\"sleep\", 800], [\"reply\"]],"
                  " [[\"busy\"], [\"stream\", \"third\"], [\"reply\"], [\"idle\"]]]}");
    assert_int_equal(runtime_run(&t, "1", 5000), -1);
    assert_int_equal(t.err.code, ERR_INTERNAL);
    assert_int_equal(runtime_run(&t, "1", 5000), -1);
    assert_int_equal(t.err.code, ERR_TIMEOUT);
    assert_in_range(t.took_ms, 400, 3000);
    t.dir = NULL;
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "third"); /* the first code that was sent */
}

static void
test_directory_of_another_process(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"reply\"], [\"idle\"], [\"session\", \"k2\"]]]}");
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "");
    t.sb->ops->forget(t.sb, t.made.handle);
    t.dir = "/w";
    assert_int_equal(runtime_run(&t, "2", 5000), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
}

static void
test_foreign_run_lets_go_of_the_channel(void **state)
{
    struct pollfd fds[4];

    (void)state;
    begin_open(
        "{\"exec\": [[[\"busy\"], [\"reply\"], [\"idle\"], [\"sleep\", 100], [\"foreign\"]]]}");
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "");
    assert_int_equal(t.sb->ops->idle_fds(t.sb, fds, 4), 1);
    assert_true(poll(fds, 1, 3000) == 1);
    for (int i = 0; i < 20 && t.sb->ops->idle_fds(t.sb, fds, 4) == 1; i++) {
        (void)poll(NULL, 0, 50);
        t.sb->ops->idle(t.sb);
    }
    assert_int_equal(t.sb->ops->idle_fds(t.sb, fds, 4), 0);
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "");
}

static void
test_stubborn_cell_is_killed(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"stream\", \"kept\"]]], \"interrupt\": []}");
    runtime_expect(&t, "1", 500, REASON_TIMEOUT, "kept");
    assert_true(t.r.runtime_invalidated);
    assert_in_range(t.took_ms, 5000, 7500);
    assert_in_range(t.longest_pause_ms, 0, 300);
}

static void
test_nothing_answers_at_the_deadline(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"rest\", \"interrupt\", \"hang\"], [\"rest\", "
               "\"delete\", \"hang\"],"
               " [\"rest\", \"show\", \"hang\"]]]}");
    runtime_expect(&t, "1", 500, REASON_TIMEOUT, "");
    assert_true(t.r.runtime_invalidated);
    assert_in_range(t.took_ms, 5000, 10400);
    assert_in_range(t.longest_pause_ms, 0, 300);
}

static void
test_refused_unrun_is_sent_again(void **state)
{
    (void)state;
    begin_open("{\"exec\": [[[\"busy\"], [\"reply\", \"aborted\"], [\"idle\"]],"
               " [[\"busy\"], [\"stream\", \"ran\"], [\"reply\"], [\"idle\"]]]}");
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "ran");
}

static void
test_hook_before_the_code_is_sent(void **state)
{
    (void)state;
    begin("{\"info\": \"silent\"}");
    (void)snprintf(t.made.handle, sizeof t.made.handle, "11111111-2222-3333-4444-555555555555");
    t.verdict_after_ms = 300;
    t.verdict = HOOK_CLIENT_GONE;
    assert_int_equal(runtime_run(&t, "1", 20000), -1);
    assert_int_equal(t.err.code, ERR_ABORTED);
    t.verdict_after_ms = 0;
    assert_int_equal(runtime_run(&t, "1", 700), -1);
    assert_int_equal(t.err.code, ERR_TIMEOUT);
}

static void
expect_ping(const char *how, const char *slug, const char *word)
{
    char script[100];

    (void)snprintf(script, sizeof script, "{\"rest\": {\"specs\": %s}}", how);
    begin(script);
    assert_int_equal(t.sb->ops->ping(t.sb, deadline_in(1000), &t.err), -1);
    assert_int_equal(t.err.code, ERR_UNAVAILABLE);
    assert_string_equal(t.err.slug, slug);
    if (strstr(t.err.msg, word) == NULL)
        fail_msg("no \"%s\" in: %s", word, t.err.msg);
    (void)end(NULL);
}

static void
test_ping_says_why(void **state)
{
    (void)state;
    expect_ping("\"html\"", "gateway_error", "JSON");
    expect_ping("\"redirect\"", "gateway_error", "redirect");
    expect_ping("\"badjson\"", "gateway_error", "JSON");
    expect_ping("\"hang\"", "gateway_unavailable", "answer");
    expect_ping("403", "gateway_error", "token");
    expect_ping("503", "gateway_unavailable", "503");
}

static void
test_failed_open_leaves_nothing(void **state)
{
    enum alive a = ALIVE_UNKNOWN;

    (void)state;
    begin("{\"info\": \"silent\"}");
    assert_int_equal(t.sb->ops->open(t.sb, NULL, &t.made, deadline_in(1500), &t.err), -1);
    assert_int_equal(t.err.code, ERR_TIMEOUT);
    assert_int_equal(t.sb->ops->alive(t.sb, "11111111-2222-3333-4444-555555555555",
                                      deadline_in(2000), &a, &t.err),
                     0);
    assert_int_equal(a, ALIVE_NO);
}

static void
test_uncertain_open_names_the_handle(void **state)
{
    (void)state;
    begin("{\"info\": \"silent\", \"rest\": {\"delete\": 403}}");
    assert_int_equal(t.sb->ops->open(t.sb, NULL, &t.made, deadline_in(1000), &t.err), -1);
    assert_int_equal(t.err.code, ERR_UNCERTAIN);
    assert_string_equal(t.made.handle, "11111111-2222-3333-4444-555555555555");
}

static void
test_gone_and_refused_channels(void **state)
{
    (void)state;
    begin("{\"upgrade\": \"404\"}");
    (void)snprintf(t.made.handle, sizeof t.made.handle, "11111111-2222-3333-4444-555555555555");
    assert_int_equal(runtime_run(&t, "1", 10000), -1);
    assert_int_equal(t.err.code, ERR_UNAVAILABLE);
    (void)end(NULL);
    begin("{\"upgrade\": \"redirect\", \"rest\": {\"show\": 404}}");
    (void)snprintf(t.made.handle, sizeof t.made.handle, "11111111-2222-3333-4444-555555555555");
    assert_int_equal(runtime_run(&t, "1", 10000), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
}

/* How often the gateway was asked for something, by its own log. */
static int
asked(const char *what)
{
    const struct rest_options o = {.base_url = gateway.url, .max_body = 65536};
    struct rest *r = NULL;
    struct rest_reply reply;
    char word[32];
    int n = 0;

    (void)snprintf(word, sizeof word, "\"%s\"", what);
    assert_int_equal(rest_new(&o, &r, &t.err), 0);
    assert_int_equal(rest_call(r, "GET", "/log", NULL, deadline_in(5000), &reply, &t.err), 0);
    for (const char *p = reply.body; (p = strstr(p, word)) != NULL; p++)
        n++;
    rest_free(r);
    return n;
}

#define KERNEL "11111111-2222-3333-4444-555555555555"
#define ANSWER_MS 1200

/* What a gateway may answer to every question about kernels, and what may be concluded from it. */
static const struct wrong {
    const char *how;
    bool gone;       /* the kernel is not there any more */
    bool unanswered; /* whether a start was carried out is not known */
    int deletes;     /* how often an end is asked for at most */
} wrongs[] = {
    {"404", true, false, 1},          {"\"plain404\"", false, false, 1},
    {"403", false, false, 1},         {"500", false, false, 10},
    {"\"html\"", false, false, 1},    {"\"redirect\"", false, false, 1},
    {"\"badjson\"", false, false, 1}, {"\"hang\"", false, true, 1},
    {"\"close\"", false, true, 2},
};

/* The channel that was opened ahead of need carries the directory and the code. */
static void
test_a_channel_opened_ahead(void **state)
{
    struct runtime_ref rt = {.handle = t.made.handle, .kernel_session = "k1"};
    struct pollfd fds[4];

    (void)state;
    begin_unbound("{\"exec\": [[[\"busy\"], [\"stream\", \"not shown\"], [\"reply\"], [\"idle\"]],"
                  " [[\"busy\"], [\"stream\", \"a\"], [\"reply\"], [\"idle\"]]]}");
    assert_int_equal(t.sb->ops->warm(t.sb, &rt, deadline_in(3000), &t.err), 0);
    assert_int_equal(t.sb->ops->idle_fds(t.sb, fds, 4), 1);
    t.sb->ops->idle(t.sb);
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "a");
    assert_int_equal(asked("upgrade token sesame"), 2); /* of open, and ahead */
    assert_int_equal(t.sb->ops->idle_fds(t.sb, fds, 4), 1);
    rt.kernel_session = "k2";
    assert_int_equal(t.sb->ops->warm(t.sb, &rt, deadline_in(3000), &t.err), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
}

/* When it fails at the directory no code is sent and it is let go of. */
static void
test_no_directory_by_a_channel_opened_ahead(void **state)
{
    struct runtime_ref rt = {.handle = t.made.handle, .kernel_session = "k1"};
    struct pollfd fds[4];

    (void)state;
    begin_unbound("{\"exec\": [[[\"busy\"], [\"reply\", \"error\"], [\"idle\"]],"
                  " [[\"busy\"], [\"stream\", \"a\"], [\"reply\"], [\"idle\"]]]}");
    assert_int_equal(t.sb->ops->warm(t.sb, &rt, deadline_in(3000), &t.err), 0);
    assert_int_equal(runtime_run(&t, "1", 5000), -1);
    assert_int_equal(t.err.code, ERR_INTERNAL);
    assert_int_equal(t.sb->ops->idle_fds(t.sb, fds, 4), 0);
    t.dir = NULL;
    runtime_expect(&t, "1", 5000, REASON_COMPLETED, "a");
}

static int
nothing_listed(void *ctx, const struct runtime_seen *seen)
{
    (void)ctx;
    fail_msg("%s was listed", seen->handle);
    return 1;
}

static void
expect_bounded(const struct wrong *w)
{
    char script[200];
    enum alive a = ALIVE_YES;
    int64_t from;
    int rc;

    (void)snprintf(script, sizeof script,
                   "{\"rest\": {\"start\": %s, \"show\": %s, \"delete\": %s, \"list\": %s}}",
                   w->how, w->how, w->how, w->how);
    begin(script);
    from = clock_mono_ms();
    rc = t.sb->ops->alive(t.sb, KERNEL, deadline_in(ANSWER_MS), &a, &t.err);
    assert_int_equal(rc, w->gone ? 0 : -1);
    assert_int_equal(a, w->gone ? ALIVE_NO : ALIVE_UNKNOWN);
    assert_int_equal(t.sb->ops->list(t.sb, nothing_listed, NULL, deadline_in(ANSWER_MS), &t.err),
                     -1);
    rc = t.sb->ops->close(t.sb, KERNEL, deadline_in(ANSWER_MS), &t.err);
    assert_int_equal(rc, w->gone ? 0 : -1);
    if (rc < 0)
        assert_int_equal(t.err.code, ERR_UNCERTAIN);
    assert_int_equal(t.sb->ops->open(t.sb, NULL, &t.made, deadline_in(ANSWER_MS), &t.err), -1);
    assert_int_equal(t.err.code, w->unanswered ? ERR_UNCERTAIN : ERR_UNAVAILABLE);
    assert_string_equal(t.made.handle, "");
    assert_in_range(clock_mono_ms() - from, 0, 4 * ANSWER_MS + 3000);
    assert_in_range(asked("delete"), 1, w->deletes);
    assert_int_equal(asked("start"), 1); /* never twice */
    assert_in_range(asked("list"), 1, 2);
    assert_in_range(asked("show"), 1, 2);
    assert_int_equal(asked("redirect followed"), 0);
    (void)end(NULL);
}

static void
test_each_wrong_answer_is_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
        expect_bounded(&wrongs[i]);
}

/* One that takes connections and never answers is told from a kernel that does not. */
static void
test_a_silent_gateway_is_no_silent_kernel(void **state)
{
    (void)state;
    begin("{\"upgrade\": \"hang\", \"rest\": {\"show\": \"hang\"}}");
    (void)snprintf(t.made.handle, sizeof t.made.handle, KERNEL);
    assert_int_equal(runtime_run(&t, "1", 3000), -1);
    assert_int_equal(t.err.code, ERR_UNAVAILABLE);
    assert_string_equal(t.err.slug, "gateway_unavailable");
}

int
main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_teardown(f, end)
    const struct CMUnitTest tests[] = {
        T(test_either_order),
        T(test_one_missing),
        T(test_a_gateway_that_stands_still_loses_nothing),
        T(test_other_parents_do_not_count),
        T(test_fragments_garbage_nan),
        T(test_restart_notice),
        T(test_death_without_notice),
        T(test_gateway_lost),
        T(test_dropped_channel_is_found_again),
        T(test_no_reply_by_a_dropped_channel),
        T(test_new_process_is_noticed),
        T(test_directory_goes_ahead_of_the_code),
        T(test_no_code_before_its_output_would_come),
        T(test_a_kernel_that_publishes_nothing),
        T(test_no_directory_no_code),
        T(test_directory_of_another_process),
        T(test_a_channel_opened_ahead),
        T(test_no_directory_by_a_channel_opened_ahead),
        T(test_foreign_run_lets_go_of_the_channel),
        T(test_stubborn_cell_is_killed),
        T(test_nothing_answers_at_the_deadline),
        T(test_refused_unrun_is_sent_again),
        T(test_hook_before_the_code_is_sent),
        T(test_ping_says_why),
        T(test_failed_open_leaves_nothing),
        T(test_uncertain_open_names_the_handle),
        T(test_gone_and_refused_channels),
        T(test_each_wrong_answer_is_bounded),
        T(test_a_silent_gateway_is_no_silent_kernel),
    };

    sig_ignore_pipe();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
