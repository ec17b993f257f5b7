/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/digest.h"
#include "support/peer.h"
#include "support/runtime.h"

/* Files through a kernel that answers by script: nothing but what fits together is taken. */

static struct peer gateway;
static struct runtime t;
static int fd = -1;

/* What the kernel answers, call after call; each is one JSON action list. */
static void
begin(const char *answers)
{
    char script[8192];

    assert_in_range(snprintf(script, sizeof script, "{\"exec\": [%s]}", answers), 1,
                    sizeof script - 1);
    assert_int_equal(fake_gateway_start(&gateway, script), 0);
    assert_int_equal(runtime_backend(&t, gateway.url, "sesame"), 0);
    if (runtime_open(&t) < 0)
        fail_msg("open: %s", t.err.msg);
    fd = memfd_create("file", MFD_CLOEXEC);
    assert_true(fd >= 0);
    t.err = (struct err)ERR_INIT;
}

static int
end(void **state)
{
    (void)state;
    peer_stop(&gateway);
    t.made.handle[0] = '\0';
    runtime_done(&t);
    if (fd >= 0)
        (void)close(fd);
    fd = -1;
    return 0;
}

#define OK(words) "[[\"busy\"],[\"value\",\"ok " words "\"],[\"idle\"]]"
#define NO(words) "[[\"busy\"],[\"value\",\"no " words "\"],[\"idle\"]]"
/* sha-256 of "hello" */
#define HELLO "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define FOUND OK("f 7 5 1000 2000 " HELLO)

static int
get(struct file_info *info)
{
    struct runtime_ref rt = {.handle = t.made.handle, .kernel_session = t.made.kernel_session};

    return t.sb->ops->get_file(t.sb, &rt, "f", 1, 1000, fd, info, deadline_in(10000), &t.err);
}

static void
get_fails(const char *answers, const char *slug)
{
    struct file_info info;

    begin(answers);
    assert_int_equal(get(&info), -1);
    if (t.err.slug == NULL || strcmp(t.err.slug, slug) != 0)
        fail_msg("not %s but %s: %s", slug, t.err.slug ? t.err.slug : "none", t.err.msg);
}

static void
test_get(void **state)
{
    struct file_info info;
    char bytes[6] = "";

    (void)state;
    begin(FOUND "," OK("aGU=") "," OK("bGxv"));
    if (get(&info) < 0)
        fail_msg("get: %s", t.err.msg);
    assert_int_equal(pread(fd, bytes, 6, 0), 5);
    assert_string_equal(bytes, "hello");
    assert_true(info.type == FILE_REGULAR && info.inode == 7 && info.size == 5);
    assert_true(info.mtime_ns == 1000 && info.ctime_ns == 2000);
}

static void
test_a_cut_file(void **state)
{
    (void)state;
    get_fails(FOUND "," OK("aGU=") "," OK(""), "file_busy");
}

static void
test_other_bytes(void **state)
{
    (void)state;
    get_fails(FOUND "," OK("SEVMTE8="), "transfer_failed");
}

static void
test_more_bytes_than_said(void **state)
{
    (void)state;
    get_fails(FOUND "," OK("aGVsbG8h"), "transfer_failed");
}

static void
test_no_base64(void **state)
{
    (void)state;
    get_fails(FOUND "," OK("a!=="), "transfer_failed");
}

static void
test_an_answer_to_something_else(void **state)
{
    (void)state;
    get_fails("[[\"value\",\"ok f 7 0 1 2 " HELLO
              "\",\"00000000000000000000000000000000\"],[\"idle\"]]",
              "transfer_failed");
}

static void
test_words_that_make_no_sense(void **state)
{
    (void)state;
    get_fails(OK("f 7 -5 1 2 " HELLO), "transfer_failed");
    end(NULL);
    get_fails(OK("x 7 5 1 2 " HELLO), "transfer_failed");
    end(NULL);
    get_fails(OK("f 7 5 1 2 00"), "transfer_failed");
    end(NULL);
    get_fails(OK("f 7 5"), "transfer_failed");
    end(NULL);
    get_fails(OK("f 7 1001 1 2 " HELLO), "transfer_failed"); /* over the maximum that was asked */
    end(NULL);
    get_fails("[[\"reply\"],[\"idle\"]]", "transfer_failed"); /* no value at all */
}

static void
test_refusals(void **state)
{
    (void)state;
    get_fails(NO("file_not_found it is not there"), "file_not_found");
    assert_int_equal(t.err.code, ERR_NOT_FOUND);
    assert_string_equal(t.err.msg, "it is not there");
    end(NULL);
    get_fails(NO("unauthorized I say so"), "transfer_failed");
}

static void
test_the_process_ends(void **state)
{
    (void)state;
    get_fails(FOUND ",[[\"busy\"],[\"restarting\"]]", "runtime_gone");
    assert_int_equal(t.err.code, ERR_CONFLICT);
}

static void
test_the_channel_breaks(void **state)
{
    (void)state;
    get_fails(FOUND ",[[\"busy\"],[\"drop\"]]", "gateway_unavailable");
}

static void
test_refused_unrun_is_sent_again(void **state)
{
    struct file_info info;

    (void)state;
    begin("[[\"reply\",\"aborted\"],[\"idle\"]]," FOUND "," OK("aGVsbG8="));
    assert_int_equal(get(&info), 0);
}

static void
test_put(void **state)
{
    struct runtime_ref rt;
    struct file_put p = {.path = "a'b", .path_len = 3, .size = 5};
    struct file_info info;
    bool created = false;

    (void)state;
    begin(OK("") "," OK("") "," OK("1 f 7 5 1 2") "," OK("") "," OK("") "," OK("0 f 7 4 1 2"));
    assert_int_equal(write(fd, "hello", 5), 5);
    rt = (struct runtime_ref){.handle = t.made.handle, .kernel_session = t.made.kernel_session};
    p.fd = fd;
    if (t.sb->ops->put_file(t.sb, &rt, &p, &created, &info, deadline_in(10000), &t.err) < 0)
        fail_msg("put: %s", t.err.msg);
    assert_true(created && info.size == 5);
    /* what is there now is not what was sent */
    assert_int_equal(
        t.sb->ops->put_file(t.sb, &rt, &p, &created, &info, deadline_in(10000), &t.err), -1);
    assert_string_equal(t.err.slug, "transfer_failed");
}

/* A list as transfer.py would send it, for the first two answers. */
static void
begin_list(const char *lines)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    char sha256[SHA256_HEX_SIZE], answers[4096];

    assert_int_equal(base64_encode(&text, lines, strlen(lines)), 0);
    sha256_hex_of(lines, strlen(lines), sha256);
    (void)snprintf(answers, sizeof answers, OK("%zu %s") "," OK("%s"), strlen(lines), sha256,
                   buf_str(&text));
    begin(answers);
}

static int
list(const char *folder, const char *glob, size_t max, struct file_list *ret)
{
    struct runtime_ref rt = {.handle = t.made.handle, .kernel_session = t.made.kernel_session};
    struct file_query q = {.folder = folder,
                           .folder_len = strlen(folder),
                           .glob = glob,
                           .recursive = true,
                           .after = "",
                           .max_entries = max};

    return t.sb->ops->list_files(t.sb, &rt, &q, ret, deadline_in(10000), &t.err);
}

static void
test_list(void **state)
{
    struct file_list l;

    (void)state;
    begin_list("d 1 4096 1 2 642f61\nf 2 3 1 2 642f622e747874\nf 3 0 1 2 642fff2e747874\n");
    assert_int_equal(list("d", "*.txt", 1, &l), 0);
    assert_int_equal(l.n, 1);
    assert_true(l.more);
    assert_string_equal(l.entries[0].path, "d/b.txt");
    assert_int_equal(l.entries[0].info.size, 3);
    file_list_done(&l);
    end(NULL);
    begin_list("");
    assert_int_equal(list("", NULL, 10, &l), 0);
    assert_int_equal(l.n, 0);
    assert_false(l.more);
    file_list_done(&l);
    end(NULL);
    begin_list("f 2 3 1 2 6\n");
    assert_int_equal(list("", NULL, 10, &l), -1);
    assert_string_equal(t.err.slug, "transfer_failed");
    end(NULL);
    begin_list("f 2 3 1 2 61\nf 2 3 1");
    assert_int_equal(list("", NULL, 10, &l), -1);
    assert_string_equal(t.err.slug, "transfer_failed");
}

int
main(void)
{
#define T(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        T(test_get),
        T(test_a_cut_file),
        T(test_other_bytes),
        T(test_more_bytes_than_said),
        T(test_no_base64),
        T(test_an_answer_to_something_else),
        T(test_words_that_make_no_sense),
        T(test_refusals),
        T(test_the_process_ends),
        T(test_the_channel_breaks),
        T(test_refused_unrun_is_sent_again),
        T(test_put),
        T(test_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
