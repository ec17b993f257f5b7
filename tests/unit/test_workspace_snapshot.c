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
#include <sys/stat.h>
#include <unistd.h>

#include "unit/workspace_fixture.h"
#include "workspace/snapshot.h"

static struct snapshot *
take(const struct fixture *f)
{
    struct snapshot *s = NULL;
    struct err err = ERR_INIT;

    if (snapshot_take(&f->w, DEADLINE_NEVER, &s, &err) < 0)
        fail_msg("snapshot_take: %s", err.msg);
    return s;
}

/* The paths that differ or match, ',' between them. */
static const char *
changed(const struct fixture *f, const struct snapshot *s, const char *glob)
{
    static char text[4096];
    struct file_list l;
    struct err err = ERR_INIT;
    size_t at = 0;

    if (snapshot_changed(&f->w, s, &glob, glob ? 1 : 0, DEADLINE_NEVER, &l, &err) < 0)
        fail_msg("snapshot_changed: %s", err.msg);
    text[0] = '\0';
    for (size_t i = 0; i < l.n; i++)
        at +=
            (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "," : "", l.entries[i].path);
    file_list_done(&l);
    return text;
}

static void
folder(const struct fixture *f, const char *name)
{
    assert_int_equal(mkdir(fixture_path(f, name), 0770), 0);
}

static void
t_what_is_new_or_changed(void **state)
{
    struct fixture *f = *state;
    struct snapshot *s;

    folder(f, "d");
    fixture_write(f, "d/same", "1");
    fixture_write(f, "appended", "1");
    fixture_write(f, "removed", "1");
    fixture_write(f, "replaced", "1");
    s = take(f);
    assert_string_equal(changed(f, s, NULL), "");
    fixture_write(f, "appended", "12");
    assert_int_equal(unlink(fixture_path(f, "removed")), 0);
    fixture_write(f, "new", "1");
    assert_int_equal(rename(fixture_path(f, "new"), fixture_path(f, "replaced")), 0);
    fixture_write(f, "d/deep", "");
    assert_string_equal(changed(f, s, NULL), "appended,d/deep,replaced");
    snapshot_free(s);
}

static void
t_a_time_set_back_hides_nothing(void **state)
{
    struct fixture *f = *state;
    struct timespec times[2];
    struct snapshot *s;
    struct stat st;

    fixture_write(f, "f", "1");
    assert_int_equal(stat(fixture_path(f, "f"), &st), 0);
    s = take(f);
    fixture_write(f, "f", "2");
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    assert_int_equal(utimensat(AT_FDCWD, fixture_path(f, "f"), times, 0), 0);
    assert_string_equal(changed(f, s, NULL), "f");
    snapshot_free(s);
}

static void
t_what_is_left_out(void **state)
{
    struct fixture *f = *state;
    struct snapshot *s = take(f);

    folder(f, "inputs");
    folder(f, "tmp");
    folder(f, ".cache");
    folder(f, "d");
    folder(f, "d/tmp");
    fixture_write(f, "inputs/i", "1");
    fixture_write(f, "tmp/t", "1");
    fixture_write(f, ".cache/c", "1");
    fixture_write(f, "d/.dot", "1");
    fixture_write(f, ".husk-1", "1");
    fixture_write(f, "d/tmp/kept", "1");
    fixture_write(f, "d/a.b", "1");
    assert_int_equal(symlink("d/a.b", fixture_path(f, "link")), 0);
    assert_int_equal(mkfifo(fixture_path(f, "fifo"), 0600), 0);
    assert_string_equal(changed(f, s, NULL), "d/a.b,d/tmp/kept");
    /* what is named is wanted all the same, but for names of ours */
    assert_string_equal(changed(f, s, "inputs/*"), "d/a.b,d/tmp/kept,inputs/i");
    snapshot_free(s);
    assert_string_equal(changed(f, NULL, "**"), ".cache/c,d/.dot,d/a.b,d/tmp/kept,inputs/i,tmp/t");
}

/* A list as a backend makes one: without inodes and ctimes. */
static struct file_list
list_of(const struct file_entry *entries, size_t n, bool more)
{
    struct file_list l = {calloc(n, sizeof(*entries)), n, more};

    for (size_t i = 0; i < n; i++) {
        l.entries[i] = entries[i];
        l.entries[i].path = strdup(entries[i].path);
        l.entries[i].path_len = strlen(entries[i].path);
    }
    return l;
}

#define ENTRY(name, what, bytes, time)                                                             \
    {                                                                                              \
        .path = (char *)(name), .info = {.type = (what), .size = (bytes), .mtime_ns = (time) }     \
    }

static void
t_lists_of_others(void **state)
{
    static const char *const globs[] = {"inputs/w*"};
    const struct file_entry was[] = {ENTRY("a", FILE_REGULAR, 1, 5), ENTRY("b", FILE_REGULAR, 1, 5),
                                     ENTRY("d", FILE_DIRECTORY, 0, 5),
                                     ENTRY("d/c", FILE_REGULAR, 1, 5)};
    const struct file_entry is[] = {
        ENTRY(".dot", FILE_REGULAR, 1, 6),      ENTRY("a", FILE_REGULAR, 2, 5),
        ENTRY("b", FILE_REGULAR, 1, 5),         ENTRY("d", FILE_DIRECTORY, 0, 6),
        ENTRY("d/c", FILE_REGULAR, 1, 6),       ENTRY("fifo", FILE_OTHER, 0, 6),
        ENTRY("inputs/no", FILE_REGULAR, 1, 6), ENTRY("inputs/w", FILE_REGULAR, 1, 6),
        ENTRY("link", FILE_SYMLINK, 1, 6),      ENTRY("new", FILE_REGULAR, 0, 5)};
    struct file_list before = list_of(was, 4, false), after = list_of(is, 10, true);
    struct snapshot *s = NULL;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(snapshot_of_list(&before, &s, &err), 0);
    snapshot_changed_of_list(&after, s, globs, 1);
    assert_int_equal(after.n, 4);
    assert_string_equal(after.entries[0].path, "a");
    assert_string_equal(after.entries[1].path, "d/c");
    assert_string_equal(after.entries[2].path, "inputs/w");
    assert_string_equal(after.entries[3].path, "new");
    assert_true(after.more);
    file_list_done(&after);
    snapshot_free(s);

    after = list_of(is, 10, false);
    snapshot_changed_of_list(&after, NULL, globs, 1);
    assert_int_equal(after.n, 1);
    file_list_done(&after);

    before = list_of(was, 4, true); /* cut short: nothing can be said */
    assert_int_equal(snapshot_of_list(&before, &s, &err), -1);
    assert_string_equal(err.slug, "limit_exceeded");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(t_what_is_new_or_changed),
        TEST(t_a_time_set_back_hides_nothing),
        TEST(t_what_is_left_out),
        TEST(t_lists_of_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
