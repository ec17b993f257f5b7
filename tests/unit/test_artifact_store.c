/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/artifact_store.h"
#include "unit/store_fixture.h"

#define EID "00000000-0000-4000-8000-000000000000"

static bool blob_is_there = true;

static bool
there(void *ctx, const char *sha256)
{
    (void)ctx;
    assert_int_equal(strlen(sha256), 64);
    return blob_is_there;
}

/* The digest of a content that is one character. */
static const char *
sha(char c)
{
    static char text[4][SHA256_HEX_SIZE];
    static int at;
    char *out = text[at++ % 4];

    sha256_hex_of(&c, 1, out);
    return out;
}

static enum artifact_add
add_as(const struct store_fixture *f, const char *owner, const char *session, const char *path,
       char c, struct artifact *ret)
{
    struct artifact_add_args a = {.owner = owner,
                                  .session_name = session,
                                  .eid = EID,
                                  .path = path,
                                  .path_len = strlen(path),
                                  .sha256 = sha(c),
                                  .size = 10,
                                  .max_versions = 4,
                                  .max_bytes = 35,
                                  .now_wall_ms = f->now.wall_ms,
                                  .there = there};
    enum artifact_add how;
    struct artifact dummy;
    struct err err = ERR_INIT;

    if (artifact_store_add(f->db, &a, &how, ret ? ret : &dummy, &err) < 0)
        fail_msg("artifact_store_add: %s", err.msg);
    return how;
}

static enum artifact_add
add(const struct store_fixture *f, const char *path, char c, struct artifact *ret)
{
    return add_as(f, "o", "s", path, c, ret);
}

static void
t_versions_and_references(void **state)
{
    struct store_fixture *f = *state;
    struct artifact a, b, got, *list;
    struct err err = ERR_INIT;
    size_t n;
    bool more;

    assert_int_equal(add(f, "a", '1', &a), ARTIFACT_ADDED);
    assert_int_equal(a.ref, 1);
    assert_int_equal(a.version, 1);
    assert_string_equal(a.path, "a");
    assert_string_equal(a.eid, EID);
    assert_int_equal(add(f, "a", '1', &got), ARTIFACT_SAME);
    assert_string_equal(got.artifact_id, a.artifact_id);
    assert_int_equal(add(f, "a", '2', &got), ARTIFACT_ADDED);
    assert_int_equal(got.version, 2);
    assert_int_equal(got.ref, 1);
    assert_int_equal(add(f, "a\xff", '1', &b), ARTIFACT_ADDED); /* not UTF-8 */
    assert_int_equal(b.ref, 2);
    assert_string_equal(b.path, "a\xff");

    assert_int_equal(artifact_store_get(f->db, "o", a.artifact_id, 0, &got, &err), 1);
    assert_int_equal(got.version, 2);
    assert_int_equal(artifact_store_get(f->db, NULL, a.artifact_id, 1, &got, &err), 1);
    assert_string_equal(got.sha256, sha('1'));
    assert_int_equal(artifact_store_get(f->db, "o", a.artifact_id, 3, &got, &err), 0);
    assert_int_equal(artifact_store_get(f->db, "p", a.artifact_id, 0, &got, &err), 0);
    assert_int_equal(artifact_store_by_ref(f->db, "o", "s", 2, &got, &err), 1);
    assert_string_equal(got.artifact_id, b.artifact_id);
    assert_int_equal(artifact_store_by_ref(f->db, "o", "t", 2, &got, &err), 0);

    assert_int_equal(artifact_store_versions(f->db, a.aid, 0, 1, &list, &n, &more, &err), 0);
    assert_int_equal(n, 1);
    assert_true(more);
    assert_int_equal(list[0].version, 2);
    free(list);
    assert_int_equal(artifact_store_versions(f->db, a.aid, 2, 1, &list, &n, &more, &err), 0);
    assert_int_equal(list[0].version, 1);
    assert_false(more);
    free(list);
    assert_int_equal(artifact_store_list(f->db, "o", NULL, 0, 10, &list, &n, &more, &err), 0);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].artifact_id, b.artifact_id);
    free(list);
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM v_artifacts WHERE latest"), "2");
}

static int blobs_told;

static void
on_blob(void *ctx, const char *sha256)
{
    (void)ctx;
    (void)sha256;
    blobs_told++;
}

static void
t_a_reference_is_not_given_again(void **state)
{
    struct store_fixture *f = *state;
    struct artifact a, b;
    struct err err = ERR_INIT;

    (void)store_fixture_ready(f, "o", "s");
    (void)add(f, "a", '1', &a);
    (void)add(f, "a", '2', &a);
    blobs_told = 0;
    assert_int_equal(artifact_store_remove(f->db, a.aid, on_blob, NULL, &err), 1);
    assert_int_equal(blobs_told, 2);
    assert_int_equal(artifact_store_remove(f->db, a.aid, on_blob, NULL, &err), 0);
    assert_int_equal(add(f, "a", '1', &b), ARTIFACT_ADDED);
    assert_int_equal(b.ref, 2);
    assert_int_equal(b.version, 1);
    assert_true(b.aid > a.aid);
    assert_string_equal(store_fixture_ask(f, "SELECT versions || ',' || bytes FROM artifact_usage"),
                        "1,10");
}

static const char *
counters(const struct store_fixture *f)
{
    return store_fixture_ask(f, "SELECT count(*) FROM artifact_refs");
}

static void
t_a_counter_goes_with_all_that_tells_of_it(void **state)
{
    struct store_fixture *f = *state;
    struct session_close_args c = {
        .sid = store_fixture_ready(f, "o", "s"), .why = SESSION_END_CLOSED, .now = f->now};
    struct artifact a, b;

    assert_int_equal(add(f, "a", '1', &a), ARTIFACT_ADDED);
    assert_int_equal(artifact_store_remove(f->db, a.aid, on_blob, NULL, NULL), 1);
    assert_string_equal(counters(f), "1"); /* its session */
    assert_int_equal(session_store_begin_close(f->db, &c, NULL, NULL), 1);
    assert_int_equal(
        session_store_finish_close(f->db, c.sid, true, WORKSPACE_REMOVED, &f->now, NULL), 1);
    assert_int_equal(add(f, "a", '1', &a), ARTIFACT_ADDED);
    assert_int_equal(a.ref, 2);
    assert_int_equal(add(f, "b", '1', &b), ARTIFACT_ADDED);
    assert_int_equal(artifact_store_remove(f->db, a.aid, on_blob, NULL, NULL), 1);
    assert_int_equal(session_store_prune_history(f->db, f->now.wall_ms + 1, 10, NULL), 1);
    assert_string_equal(counters(f), "1"); /* an artifact */
    assert_int_equal(artifact_store_remove(f->db, b.aid, on_blob, NULL, NULL), 1);
    assert_string_equal(counters(f), "0");
}

static void
t_quotas_are_of_an_owner(void **state)
{
    struct store_fixture *f = *state;
    struct artifact a;
    struct err err = ERR_INIT;

    assert_int_equal(add(f, "a", '1', &a), ARTIFACT_ADDED);
    assert_int_equal(add(f, "a", '2', NULL), ARTIFACT_ADDED);
    assert_int_equal(add_as(f, "o", "t", "b", '1', NULL), ARTIFACT_ADDED);
    assert_int_equal(add(f, "c", '1', NULL), ARTIFACT_BYTES_FULL);
    assert_int_equal(add(f, "a", '2', NULL), ARTIFACT_SAME); /* takes nothing */
    assert_int_equal(add_as(f, "p", "s", "c", '1', NULL), ARTIFACT_ADDED);
    assert_int_equal(artifact_store_remove(f->db, a.aid, on_blob, NULL, &err), 1);
    assert_int_equal(add(f, "c", '1', NULL), ARTIFACT_ADDED);
}

static void
t_a_row_needs_its_content(void **state)
{
    struct store_fixture *f = *state;

    blob_is_there = false;
    assert_int_equal(add(f, "a", '1', NULL), ARTIFACT_BLOB_GONE);
    blob_is_there = true;
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM artifacts"), "0");
    assert_string_equal(store_fixture_ask(f, "SELECT count(*) FROM artifact_refs"), "0");
}

static int
remove_blob(void *ctx, const char *sha256)
{
    (void)sha256;
    ++*(int *)ctx;
    return 0;
}

static void
t_only_unnamed_contents_are_forgotten(void **state)
{
    struct store_fixture *f = *state;
    struct artifact a;
    struct err err = ERR_INIT;
    int removed = 0;

    (void)add(f, "a", '1', &a);
    assert_int_equal(artifact_store_forget(f->db, sha('1'), remove_blob, &removed, &err), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(artifact_store_forget(f->db, sha('2'), remove_blob, &removed, &err), 1);
    (void)artifact_store_remove(f->db, a.aid, on_blob, NULL, &err);
    assert_int_equal(artifact_store_forget(f->db, sha('1'), remove_blob, &removed, &err), 1);
    assert_int_equal(removed, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, store_fixture_setup, store_fixture_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(t_versions_and_references),
        TEST(t_a_reference_is_not_given_again),
        TEST(t_a_counter_goes_with_all_that_tells_of_it),
        TEST(t_quotas_are_of_an_owner),
        TEST(t_a_row_needs_its_content),
        TEST(t_only_unnamed_contents_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
