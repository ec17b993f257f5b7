/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/sig.h"
#include "json/json.h"
#include "sandbox/transport/rest.h"
#include "support/peer.h"
#include "support/runtime.h"

/* The backend against the stand-in for Daytona, which runs code for real. */

#define KEY "00000000000000ab"
#define API_KEY "dtn_unit"

/* libwebsockets keeps the TLS context of a context that was destroyed (4.1.6): one a process. */
const char *__lsan_default_suppressions(void);

const char *
__lsan_default_suppressions(void)
{
    return "leak:libwebsockets\nleak:libcrypto\nleak:libssl\n";
}

static struct peer daytona;
static struct runtime t;
static struct rest *control;

static void
steer(const char *body)
{
    struct rest_reply r;
    struct err err = ERR_INIT;

    if (rest_call(control, "POST", "/_control", body, deadline_in(20000), &r, &err) < 0 ||
        r.status != 200)
        fail_msg("control: %s", err.msg);
}

/* A number that the stand-in tells. */
static int64_t
told(const char *group, const char *name)
{
    struct rest_reply r;
    struct json_doc *doc = NULL;
    int64_t n = 0;
    json_val v;

    assert_int_equal(rest_call(control, "GET", "/_control", NULL, deadline_in(5000), &r, NULL), 0);
    assert_int_equal(json_parse(r.body, r.body_len, 30, 0, &doc, NULL), 0);
    v = group != NULL ? json_member(json_root(doc), group) : json_root(doc);
    if (json_i64(json_member(v, name), 0, INT64_MAX, &n) != 1)
        n = 0;
    json_free(doc);
    return n;
}

static int
backend(struct runtime *x, const char *url, const char *key)
{
    static char api[200];
    struct sandbox_options o = {.daytona_url = api,
                                .daytona_key = key,
                                .daytona_auto_stop_min = 15,
                                .daytona_auto_delete_min = 60,
                                .deployment = "unit",
                                .http_timeout_ms = 1500,
                                .start_timeout_ms = 20000,
                                .max_output_bytes = 65536,
                                .flood_bytes = 1024 * 1024};

    memset(x, 0, sizeof *x);
    (void)snprintf(api, sizeof api, "%s/api", url);
    execution_result_init(&x->r);
    return sandbox_new("daytona", &o, &x->sb, &x->err);
}

static int
group_begin(void **state)
{
    const char *const argv[] = {SRCDIR "/tests/support/fake_daytona", "--key", API_KEY, NULL};
    struct rest_options ro = {.max_body = 1 << 24};

    (void)state;
    if (peer_start(&daytona, argv) < 0)
        return -1;
    ro.base_url = daytona.url;
    return rest_new(&ro, &control, NULL);
}

static int
group_end(void **state)
{
    (void)state;
    rest_free(control);
    peer_stop(&daytona);
    return 0;
}

static int
begin(void **state)
{
    (void)state;
    steer("{\"reset\": true, \"forget\": true}");
    return backend(&t, daytona.url, API_KEY);
}

static int
end(void **state)
{
    (void)state;
    steer("{\"reset\": true}");
    if (t.sb != NULL)
        (void)t.sb->ops->discard(t.sb, KEY, deadline_in(10000), NULL);
    t.made.handle[0] = '\0';
    runtime_done(&t);
    return 0;
}

static void
open_it(void)
{
    t.err = (struct err)ERR_INIT;
    if (t.sb->ops->open(t.sb, KEY, &t.made, deadline_in(20000), &t.err) < 0)
        fail_msg("open: %s", t.err.msg);
}

static void
test_state_is_kept(void **state)
{
    (void)state;
    open_it();
    assert_false(t.made.found);
    runtime_expect(&t, "x = 41\nprint('hello')", 5000, REASON_COMPLETED, "hello\n");
    assert_true(t.r.ok);
    assert_int_equal(t.r.exit_code, 0);
    runtime_expect(&t, "import sys\nprint(x + 1)\nsys.stderr.write('warned')", 5000,
                   REASON_COMPLETED, "42\n");
    assert_string_equal(t.r.err, "warned");
    runtime_expect(&t, "import os\nprint(os.getcwd())", 5000, REASON_COMPLETED,
                   "/home/daytona/docsgpt-sandbox\n");
}

static void
test_errors_are_told(void **state)
{
    (void)state;
    open_it();
    runtime_expect(&t, "def f():\n    raise ValueError('no good')\nf()", 5000, REASON_EXCEPTION,
                   "");
    assert_int_equal(t.r.exit_code, 1);
    assert_string_equal(t.r.error_name, "ValueError");
    assert_string_equal(t.r.error_value, "no good");
    assert_true(t.r.n_traceback > 1);
    runtime_expect(&t, "print('after')", 5000, REASON_COMPLETED, "after\n");
}

static void
test_deadline_keeps_the_state(void **state)
{
    (void)state;
    open_it();
    runtime_expect(&t, "y = 7", 5000, REASON_COMPLETED, "");
    runtime_expect(&t, "import time\nprint('begun', flush=True)\ntime.sleep(60)", 1000,
                   REASON_TIMEOUT, "begun\n");
    assert_false(t.r.runtime_invalidated);
    assert_true(t.took_ms < 6000);
    runtime_expect(&t, "print(y)", 5000, REASON_COMPLETED, "7\n");
}

static void
test_deadline_against_all_odds(void **state)
{
    (void)state;
    open_it();
    runtime_expect(&t,
                   "import time, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                   "for _ in range(100):\n    time.sleep(1)",
                   500, REASON_TIMEOUT, NULL);
    assert_true(t.r.runtime_invalidated);
    assert_true(t.took_ms < 11000);
    assert_int_equal(runtime_run(&t, "print(1)", 5000), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
    open_it(); /* the same sandbox with another interpreter */
    assert_true(t.made.found);
    runtime_expect(&t, "print(2)", 5000, REASON_COMPLETED, "2\n");
}

static void
test_interrupts(void **state)
{
    (void)state;
    open_it();
    t.verdict_after_ms = 300;
    t.verdict = HOOK_INTERRUPT;
    runtime_expect(&t, "z = 3\nimport time\ntime.sleep(60)", 30000, REASON_INTERRUPTED, "");
    assert_string_equal(t.r.error_name, "KeyboardInterrupt");
    t.verdict_after_ms = 0;
    runtime_expect(&t, "print(z)", 5000, REASON_COMPLETED, "3\n");
    t.verdict_after_ms = 300;
    t.verdict = HOOK_CLIENT_GONE;
    runtime_expect(&t, "time.sleep(60)", 30000, REASON_CLIENT_GONE, "");
    t.verdict_after_ms = 0;
}

static void
test_output_streams_and_is_bounded(void **state)
{
    (void)state;
    open_it();
    runtime_expect(&t,
                   "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(.1)",
                   9000, REASON_COMPLETED, "0\n1\n2\n3\n4\n");
    assert_true(t.events >= 3);
    runtime_expect(&t, "for i in range(3000):\n    print('x' * 99)", 20000, REASON_COMPLETED, NULL);
    assert_int_equal(t.r.bytes_stdout, 300000);
    assert_true(t.r.truncated);
    assert_true(t.r.out_len <= 65536 + 100);
    runtime_expect(&t, "while True:\n    print('y' * 1000)", 30000, REASON_OUTPUT_LIMIT, NULL);
}

static void
test_dead_interpreter(void **state)
{
    (void)state;
    open_it();
    runtime_expect(&t, "import os\nos._exit(3)", 20000, REASON_KERNEL_DIED, NULL);
    assert_true(t.r.runtime_invalidated);
    assert_true(t.took_ms < 6000);
    open_it();
    assert_true(t.made.found);
    runtime_expect(&t, "x = 1", 5000, REASON_COMPLETED, "");
    steer("{\"auto\": {\"id\": \"*\", \"do\": \"kill_interpreter\"}}");
    assert_int_equal(runtime_run(&t, "print(x)", 5000), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
}

static void
test_one_sandbox_a_key(void **state)
{
    char first[HANDLE_MAX + 1];
    int64_t created = told(NULL, "created");

    (void)state;
    open_it();
    memcpy(first, t.made.handle, sizeof first);
    open_it(); /* as by another process that knows the key alone */
    assert_true(t.made.found);
    assert_string_equal(t.made.handle, first);
    assert_int_equal(told(NULL, "created"), created + 1);
    assert_int_equal(t.sb->ops->close(t.sb, first, deadline_in(5000), &t.err), 0);
    assert_int_equal(t.sb->ops->close(t.sb, first, deadline_in(5000), &t.err), 0);
    assert_int_equal(told(NULL, "alive"), 0);
    open_it();
    assert_false(t.made.found);
    assert_string_not_equal(t.made.handle, first);
}

static void
test_lost_creation_is_found(void **state)
{
    int64_t created = told(NULL, "created");

    (void)state;
    steer("{\"set\": {\"lose\": {\"create\": 1}}}");
    t.err = (struct err)ERR_INIT;
    if (t.sb->ops->open(t.sb, KEY, &t.made, deadline_in(8000), &t.err) < 0)
        fail_msg("open: %s", t.err.msg);
    assert_int_equal(told(NULL, "created"), created + 1);
    runtime_expect(&t, "print('there')", 5000, REASON_COMPLETED, "there\n");
}

static void
test_failed_open_leaves_nothing(void **state)
{
    (void)state;
    steer("{\"set\": {\"create_state\": \"error\"}}");
    assert_int_equal(t.sb->ops->open(t.sb, KEY, &t.made, deadline_in(5000), &t.err), -1);
    assert_string_equal(t.err.slug, "start_failed");
    assert_int_equal(told(NULL, "alive"), 0);
    steer("{\"set\": {\"create_state\": \"started\", \"create_ms\": 60000}}");
    assert_int_equal(t.sb->ops->open(t.sb, KEY, &t.made, deadline_in(1500), &t.err), -1);
    assert_int_equal(told(NULL, "alive"), 0);
}

static void
test_parked_keeps_files(void **state)
{
    (void)state;
    open_it();
    runtime_expect(&t, "open('kept.txt', 'w').write('still here')\nv = 1", 5000, REASON_COMPLETED,
                   "");
    assert_int_equal(t.sb->ops->park(t.sb, t.made.handle, deadline_in(5000), &t.err), 0);
    assert_int_equal(t.sb->ops->park(t.sb, t.made.handle, deadline_in(5000), &t.err), 0);
    assert_int_equal(runtime_run(&t, "print(v)", 5000), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
    open_it();
    assert_true(t.made.found);
    runtime_expect(&t, "print(open('kept.txt').read())", 5000, REASON_COMPLETED, "still here\n");
    runtime_expect(&t, "print(v)", 5000, REASON_EXCEPTION, "");
}

static void
test_gone_and_away_are_told_apart(void **state)
{
    enum alive a = ALIVE_UNKNOWN;

    (void)state;
    open_it();
    steer("{\"set\": {\"fail\": {\"*\": [503, -1]}}}");
    assert_int_equal(runtime_run(&t, "1", 5000), -1);
    assert_string_equal(t.err.slug, "gateway_unavailable");
    assert_int_equal(t.sb->ops->alive(t.sb, t.made.handle, deadline_in(2000), &a, &t.err), -1);
    assert_int_equal(a, ALIVE_UNKNOWN);
    steer("{\"reset\": true}");
    runtime_expect(&t, "print(1)", 5000, REASON_COMPLETED, "1\n");
    steer("{\"set\": {\"hang\": {\"toolbox\": -1}}}");
    assert_int_equal(runtime_run(&t, "1", 5000), -1);
    assert_string_equal(t.err.slug, "gateway_unavailable");
    assert_true(t.took_ms < 8000);
    steer("{\"reset\": true, \"force\": {\"id\": \"*\", \"state\": \"archived\"}}");
    assert_int_equal(runtime_run(&t, "1", 5000), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
    assert_int_equal(t.sb->ops->alive(t.sb, t.made.handle, deadline_in(2000), &a, &t.err), 0);
    assert_int_equal(a, ALIVE_NO);
    assert_int_equal(t.sb->ops->close(t.sb, t.made.handle, deadline_in(2000), &t.err), 0);
    assert_int_equal(runtime_run(&t, "1", 5000), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
}

static void
test_slow_toolbox_is_waited_for(void **state)
{
    (void)state;
    steer("{\"set\": {\"hang\": {\"folder\": 1}, \"fail\": {\"context\": [502, 1]}}}");
    open_it();
    runtime_expect(&t, "print('at last')", 5000, REASON_COMPLETED, "at last\n");
}

static void
test_without_interpreter(void **state)
{
    (void)state;
    steer("{\"set\": {\"interpreter\": false}}");
    open_it();
    assert_string_equal(t.made.kernel_session, RUNTIME_STATELESS);
    runtime_expect(
        &t,
        "from __future__ import annotations\nimport os\nx = 1\nprint(os.getcwd(), '\\u00fc\\t\"')",
        5000, REASON_COMPLETED, "/home/daytona/docsgpt-sandbox \xc3\xbc\t\"\n");
    runtime_expect(&t, "print(x)", 5000, REASON_EXCEPTION, NULL);
    assert_string_equal(t.r.error_name, "NameError");
    assert_string_equal(t.r.error_value, "name 'x' is not defined");
    runtime_expect(&t, "import time\ntime.sleep(60)", 700, REASON_TIMEOUT, NULL);
    assert_true(t.took_ms < 10700);
    t.verdict_after_ms = 300;
    t.verdict = HOOK_INTERRUPT;
    runtime_expect(&t, "import time\ntime.sleep(60)", 30000, REASON_INTERRUPTED, NULL);
    t.verdict_after_ms = 0;
}

static void
test_redirects_and_wrong_keys(void **state)
{
    struct runtime wrong;

    (void)state;
    steer("{\"set\": {\"redirect\": {\"*\": -1}}}");
    assert_int_equal(t.sb->ops->open(t.sb, KEY, &t.made, deadline_in(3000), &t.err), -1);
    assert_string_equal(t.err.slug, "gateway_error");
    assert_int_equal(t.sb->ops->ping(t.sb, deadline_in(3000), &t.err), -1);
    steer("{\"reset\": true}");
    assert_int_equal(backend(&wrong, daytona.url, "dtn_other"), 0);
    assert_int_equal(wrong.sb->ops->ping(wrong.sb, deadline_in(3000), &wrong.err), -1);
    assert_string_equal(wrong.err.slug, "gateway_error");
    assert_null(strstr(wrong.err.msg, "dtn_other"));
    wrong.sb->ops->free(wrong.sb);
    assert_int_equal(t.sb->ops->ping(t.sb, deadline_in(3000), &t.err), 0);
}

/* ---- files ---- */

static int
content(const char *bytes, size_t n)
{
    char path[] = "/tmp/husk-daytona-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    (void)unlink(path);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    return fd;
}

static int
put(const char *path, const char *bytes, bool create, const struct file_info *expected,
    struct file_info *ret)
{
    struct runtime_ref rt = {t.made.handle, t.made.kernel_session};
    int fd = content(bytes, strlen(bytes));
    struct file_put p = {.path = path,
                         .path_len = strlen(path),
                         .fd = fd,
                         .size = (int64_t)strlen(bytes),
                         .create = create,
                         .expected = expected};
    bool created = false;
    int rc;

    t.err = (struct err)ERR_INIT;
    rc = t.sb->ops->put_file(t.sb, &rt, &p, &created, ret, deadline_in(10000), &t.err);
    (void)close(fd);
    return rc < 0 ? -1 : created;
}

static int
get(const char *path, int64_t max, char *out, size_t size)
{
    struct runtime_ref rt = {t.made.handle, t.made.kernel_session};
    struct file_info info;
    int fd = content("", 0);
    ssize_t n;
    int rc;

    t.err = (struct err)ERR_INIT;
    rc = t.sb->ops->get_file(t.sb, &rt, path, strlen(path), max, fd, &info, deadline_in(10000),
                             &t.err);
    n = pread(fd, out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    (void)close(fd);
    return rc;
}

static void
listed(const char *folder, bool recursive, const char *glob, size_t max, const char *expected)
{
    struct runtime_ref rt = {t.made.handle, t.made.kernel_session};
    struct file_query q = {.folder = folder,
                           .folder_len = strlen(folder),
                           .glob = glob,
                           .recursive = recursive,
                           .max_entries = max};
    struct file_list list;
    struct buf all = BUF_INIT(4096);

    if (t.sb->ops->list_files(t.sb, &rt, &q, &list, deadline_in(10000), &t.err) < 0)
        fail_msg("list: %s", t.err.msg);
    for (size_t i = 0; i < list.n; i++)
        (void)buf_printf(&all, "%s%s ", list.entries[i].path,
                         list.entries[i].info.type == FILE_DIRECTORY ? "/" : "");
    if (list.more)
        (void)buf_puts(&all, "…");
    assert_string_equal(buf_str(&all), expected);
    buf_done(&all);
    file_list_done(&list);
}

static int
removed(const char *path, bool recursive)
{
    struct runtime_ref rt = {t.made.handle, t.made.kernel_session};

    t.err = (struct err)ERR_INIT;
    return t.sb->ops->remove_path(t.sb, &rt, path, strlen(path), recursive, deadline_in(10000),
                                  &t.err);
}

static void
check_files(void)
{
    struct file_info info, other;
    char text[64];

    assert_int_equal(put("a b/ü.txt", "one", false, NULL, &info), 1);
    assert_int_equal(info.size, 3);
    assert_true(info.mtime_ns > INT64_C(1600000000000000000));
    assert_int_equal(get("a b/ü.txt", 100, text, sizeof text), 0);
    assert_string_equal(text, "one");
    assert_int_equal(put("a b/ü.txt", "two!", false, &info, &other), 0);
    assert_int_equal(put("a b/ü.txt", "3", false, &info, &other), -1);
    assert_string_equal(t.err.slug, "precondition_failed");
    assert_int_equal(put("a b/ü.txt", "3", true, NULL, &other), -1);
    assert_string_equal(t.err.slug, "precondition_failed");
    assert_int_equal(put("a b/ü.txt/x", "3", false, NULL, &other), -1);
    assert_string_equal(t.err.slug, "not_a_folder");
    assert_int_equal(get("a b/ü.txt", 3, text, sizeof text), -1);
    assert_string_equal(t.err.slug, "file_too_large");
    assert_int_equal(get("none", 3, text, sizeof text), -1);
    assert_string_equal(t.err.slug, "file_not_found");
    assert_int_equal(get("a b", 3, text, sizeof text), -1);
    assert_string_equal(t.err.slug, "not_a_file");
    assert_int_equal(put("a b/deep/er/f", "", false, NULL, &info), 1);
    assert_int_equal(put("top", "t", false, NULL, &info), 1);
    listed("", false, NULL, 10, "a b/ top ");
    listed("", true, NULL, 10, "a b/ a b/deep/ a b/deep/er/ a b/deep/er/f a b/ü.txt top ");
    listed("", true, "**/*.txt", 10, "a b/ü.txt ");
    listed("a b", true, NULL, 2, "a b/deep/ a b/deep/er/ …");
    assert_int_equal(removed("a b/deep", false), -1);
    assert_string_equal(t.err.slug, "folder_not_empty");
    assert_int_equal(removed("a b/deep", true), 0);
    assert_int_equal(removed("a b/deep", true), -1);
    assert_string_equal(t.err.slug, "file_not_found");
    assert_int_equal(removed("a b/ü.txt", false), 0);
    assert_int_equal(removed("a b", false), 0);
    assert_int_equal(removed("top", false), 0);
    listed("", true, NULL, 10, "");
}

static void
test_files(void **state)
{
    (void)state;
    open_it();
    check_files();
}

static void
test_files_of_other_servers(void **state)
{
    (void)state;
    steer("{\"set\": {\"uploads\": [\"upload-v2\"], \"depth\": false}}");
    open_it();
    check_files();
    steer("{\"set\": {\"uploads\": [\"upload\"]}}");
    check_files();
}

static void
test_files_wake_it(void **state)
{
    struct file_info info;
    char text[64];

    (void)state;
    open_it();
    assert_int_equal(put("f", "asleep", false, NULL, &info), 1);
    assert_int_equal(t.sb->ops->park(t.sb, t.made.handle, deadline_in(5000), &t.err), 0);
    assert_int_equal(get("f", 100, text, sizeof text), 0);
    assert_string_equal(text, "asleep");
    steer("{\"set\": {\"cut\": {\"download\": 1}}}");
    assert_int_equal(get("f", 100, text, sizeof text), -1);
    assert_int_equal(t.sb->ops->close(t.sb, t.made.handle, deadline_in(5000), &t.err), 0);
    assert_int_equal(get("f", 100, text, sizeof text), -1);
    assert_string_equal(t.err.slug, "runtime_gone");
}

/* A file of some size goes both ways in bounded memory. */
static void
test_large_file(void **state)
{
    struct runtime_ref rt = {.handle = ""};
    char path[] = "/tmp/husk-daytona-XXXXXX";
    int fd = mkstemp(path), out = content("", 0);
    struct file_put p = {.path = "big", .path_len = 3, .fd = fd, .size = 24 << 20};
    struct file_info info;
    bool created;

    (void)state;
    (void)unlink(path);
    open_it();
    rt = (struct runtime_ref){t.made.handle, t.made.kernel_session};
    assert_int_equal(ftruncate(fd, p.size), 0);
    assert_int_equal(pwrite(fd, "end", 3, p.size - 3), 3);
    if (t.sb->ops->put_file(t.sb, &rt, &p, &created, &info, deadline_in(30000), &t.err) < 0 ||
        t.sb->ops->get_file(t.sb, &rt, "big", 3, p.size, out, &info, deadline_in(30000), &t.err) <
            0)
        fail_msg("%s", t.err.msg);
    assert_int_equal(lseek(out, 0, SEEK_END), p.size);
    {
        char last[4] = "";

        assert_int_equal(pread(out, last, 3, p.size - 3), 3);
        assert_string_equal(last, "end");
    }
    (void)close(fd);
    (void)close(out);
}

int
main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(test_state_is_kept),
        T(test_errors_are_told),
        T(test_deadline_keeps_the_state),
        T(test_deadline_against_all_odds),
        T(test_interrupts),
        T(test_output_streams_and_is_bounded),
        T(test_dead_interpreter),
        T(test_one_sandbox_a_key),
        T(test_lost_creation_is_found),
        T(test_failed_open_leaves_nothing),
        T(test_parked_keeps_files),
        T(test_gone_and_away_are_told_apart),
        T(test_slow_toolbox_is_waited_for),
        T(test_without_interpreter),
        T(test_redirects_and_wrong_keys),
        T(test_files),
        T(test_files_of_other_servers),
        T(test_files_wake_it),
        T(test_large_file),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    sig_ignore_pipe();
    return cmocka_run_group_tests(tests, group_begin, group_end) != 0;
}
