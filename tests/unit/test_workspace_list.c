/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "unit/workspace_fixture.h"

/* The paths of a list, ',' between them, '+' behind when there is more. */
static const char *
listed(const struct fixture *f, const char *folder, const char *glob, bool recursive,
       const char *after, size_t max)
{
    static char text[4096];
    struct file_list l;
    struct err err = ERR_INIT;
    size_t at = 0;

    if (workspace_list(&f->w, folder, strlen(folder), glob, recursive, after,
                       after ? strlen(after) : 0, max, DEADLINE_NEVER, &l, &err) < 0)
        return err.slug ? err.slug : "error";
    text[0] = '\0';
    for (size_t i = 0; i < l.n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", i ? "," : "",
                               (int)l.entries[i].path_len, l.entries[i].path);
    if (l.more)
        (void)snprintf(text + at, sizeof(text) - at, "+");
    file_list_done(&l);
    return text;
}

static void
make_tree(const struct fixture *f)
{
    static const char *const folders[] = {"a", "a/c", "e", ".husk-x"};
    static const char *const files[] = {"a-b",     "a/b.png",   "a/c/d.png", "z.png",
                                        ".husk-1", ".husk-x/y", "a/.husk-2"};

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        assert_int_equal(mkdir(fixture_path(f, folders[i]), 0770), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        fixture_write(f, files[i], "x");
    assert_int_equal(symlink("../outside", fixture_path(f, "ln")), 0);
}

static void
t_order_filters_and_links(void **state)
{
    struct fixture *f = *state;

    make_tree(f);
    assert_string_equal(listed(f, "", NULL, false, NULL, 100), "a,a-b,e,ln,z.png");
    assert_string_equal(listed(f, "", NULL, true, NULL, 100),
                        "a,a-b,a/b.png,a/c,a/c/d.png,e,ln,z.png");
    assert_string_equal(listed(f, "a", NULL, true, NULL, 100), "a/b.png,a/c,a/c/d.png");
    assert_string_equal(listed(f, "e", NULL, true, NULL, 100), "");
    assert_string_equal(listed(f, "", "**/*.png", true, NULL, 100), "a/b.png,a/c/d.png,z.png");
    assert_string_equal(listed(f, "a", "*.png", true, NULL, 100), "a/b.png");
    assert_string_equal(listed(f, "z.png", NULL, true, NULL, 100), "not_a_folder");
    assert_string_equal(listed(f, "none", NULL, true, NULL, 100), "file_not_found");
    assert_string_equal(listed(f, "ln", NULL, true, NULL, 100), "outside_workspace");
    assert_string_equal(listed(f, "../outside", NULL, true, NULL, 100), "bad_path");
    char long_glob[GLOB_MAX + 2];
    memset(long_glob, '*', sizeof(long_glob));
    long_glob[sizeof(long_glob) - 1] = '\0';
    assert_string_equal(listed(f, "", long_glob, true, NULL, 100), "bad_value");
}

/* Every page size and every way of cutting gives the same whole. */
static void
t_pages_add_up(void **state)
{
    struct fixture *f = *state;
    char name[32], whole[4096], joined[4096];

    make_tree(f);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof(name), "%s%c%d", i % 3 ? "a/" : "", 'a' + i * 7 % 26, i);
        fixture_write(f, name, "x");
    }
    (void)snprintf(whole, sizeof(whole), "%s", listed(f, "", NULL, true, NULL, 1000));
    for (size_t max = 1; max <= 50; max = max * 2 + 1) {
        char after[4096] = "";
        size_t at = 0;

        for (;;) {
            const char *page = listed(f, "", NULL, true, after[0] ? after : NULL, max);
            size_t n = strlen(page);
            bool more = n > 0 && page[n - 1] == '+';
            int len = (int)(n - (more ? 1 : 0));
            const char *last;

            at += (size_t)snprintf(joined + at, sizeof(joined) - at, "%s%.*s", at ? "," : "", len,
                                   page);
            if (!more)
                break;
            last = strrchr(joined, ',');
            (void)snprintf(after, sizeof(after), "%s", last ? last + 1 : joined);
        }
        assert_string_equal(joined, whole);
    }
    assert_string_equal(listed(f, "", NULL, true, NULL, 0), "+");
}

static void
t_any_bytes_and_infos(void **state)
{
    struct fixture *f = *state;
    struct file_list l;

    fixture_write(f, "\xff\xfe\n", "12345");
    assert_int_equal(
        workspace_list(&f->w, "", 0, NULL, true, NULL, 0, 10, DEADLINE_NEVER, &l, NULL), 0);
    assert_int_equal(l.n, 1);
    assert_int_equal(l.entries[0].path_len, 3);
    assert_memory_equal(l.entries[0].path, "\xff\xfe\n", 3);
    assert_int_equal(l.entries[0].info.size, 5);
    assert_int_equal(l.entries[0].info.type, FILE_REGULAR);
    file_list_done(&l);
}

static void
t_deep_trees_and_deadlines_end(void **state)
{
    struct fixture *f = *state;
    struct file_list l;
    struct err err = ERR_INIT;
    int64_t bytes;
    char cwd[PATH_MAX];

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(chdir(f->dir), 0);
    for (int i = 0; i < 3000; i++)
        assert_true(mkdir("d", 0770) == 0 && chdir("d") == 0);
    assert_int_equal(chdir(cwd), 0);
    assert_int_equal(
        workspace_list(&f->w, "", 0, NULL, true, NULL, 0, 10000, DEADLINE_NEVER, &l, &err), 0);
    assert_int_equal(l.n, 512); /* what a path of 1024 bytes can name */
    file_list_done(&l);
    assert_int_equal(workspace_usage(&f->w, 100000, &bytes, &err), 0);
    assert_int_equal(workspace_unlink(&f->w, "d", 1, true, &err), 0);
    assert_int_equal(fixture_count(f->dir), 0);

    fixture_write(f, "x", "x");
    assert_int_equal(mkdir(fixture_path(f, "y"), 0770), 0);
    assert_int_equal(
        workspace_list(&f->w, "", 0, NULL, true, NULL, 0, 10, deadline_in(-1), &l, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
}

static void
t_usage_counts_blocks(void **state)
{
    struct fixture *f = *state;
    char block[65536];
    int64_t before, after;
    struct upload *u;

    memset(block, 'x', sizeof(block));
    assert_int_equal(workspace_usage(&f->w, 1000, &before, NULL), 0);
    assert_int_equal(upload_begin(&f->w, "d/f", 3, &u, NULL), 0);
    for (int i = 0; i < 16; i++)
        assert_int_equal(upload_write(u, block, sizeof(block), NULL), 0);
    assert_int_equal(upload_commit(u, UPLOAD_REPLACE, NULL, NULL, NULL, NULL), 0);
    sync(); /* delayed allocation */
    assert_int_equal(workspace_usage(&f->w, 1000, &after, NULL), 0);
    assert_true(after - before >= 1 << 20 && after - before < 2 << 20);
    assert_int_equal(workspace_usage(&f->w, 0, &after, NULL), 0);
    assert_int_equal(after, 0);
}

int
main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(t_order_filters_and_links),      T(t_pages_add_up),        T(t_any_bytes_and_infos),
        T(t_deep_trees_and_deadlines_end), T(t_usage_counts_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
