/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "support/api_fixture.h"

#define FILES "/v1/sessions/s/files"

static void
begin_put(struct api_fixture *a, const char *path, const char *body)
{
    static char target[8192];

    (void)snprintf(target, sizeof(target), FILES "/%s", path);
    api_begin(a, "PUT", target);
    fake_body(&a->f, body, strlen(body));
}

static void
put(struct api_fixture *a, const char *path, const char *body, int status)
{
    begin_put(a, path, body);
    api_finish_expect(a, status, NULL);
}

static void
get(struct api_fixture *a, const char *path, const char *header, const char *value)
{
    static char target[8192];

    (void)snprintf(target, sizeof(target), FILES "/%s", path);
    api_begin(a, "GET", target);
    if (header != NULL)
        fake_header(&a->f, header, value);
}

static void
expect_body(struct api_fixture *a, const char *want)
{
    size_t n;
    const char *got = api_body(a, &n);

    assert_int_equal(n, strlen(want));
    assert_memory_equal(got, want, n);
}

/* A file's tag is strong once it has been left alone for two seconds; nothing makes it older. */
static void
let_it_rest(void)
{
    (void)usleep(2100 * 1000);
}

static void
test_round_trip(void **state)
{
    struct api_fixture *a = *state;

    put(a, "in/data.csv", "a,b\n", 201);
    assert_string_equal(api_text(a, "path"), "in/data.csv");
    assert_string_equal(api_header(a, "Location"), FILES "/in/data.csv");
    assert_string_equal(api_header(a, "ETag"), api_text(a, "etag"));
    get(a, "in/data.csv", NULL, NULL);
    api_finish_expect(a, 200, NULL);
    expect_body(a, "a,b\n");
    assert_string_equal(api_header(a, "Content-Length"), "4");
    assert_string_equal(api_header(a, "Cache-Control"), "private, no-cache");
    assert_string_equal(api_header(a, "Accept-Ranges"), "bytes");
    assert_non_null(strstr(api_header(a, "Content-Security-Policy"), "sandbox"));
    assert_non_null(strstr(api_header(a, "Content-Disposition"), "data.csv"));
    api_expect(a, "HEAD", FILES "/in/data.csv", NULL, 200, NULL);
    expect_body(a, "");
    assert_string_equal(api_header(a, "Content-Length"), "4");
    put(a, "in/data.csv", "", 200);
    get(a, "in/data.csv", NULL, NULL);
    api_finish_expect(a, 200, NULL);
    expect_body(a, "");
    api_expect(a, "DELETE", FILES "/in", NULL, 409, "folder_not_empty");
    api_expect(a, "DELETE", FILES "/in?recursive=true", NULL, 204, NULL);
    api_expect(a, "GET", FILES "/in/data.csv", NULL, 404, "file_not_found");
    api_expect(a, "DELETE", FILES "/in", NULL, 404, "file_not_found");
}

static void
test_names(void **state)
{
    static const char *const good[][2] = {{"a+b.txt", "a+b.txt"},
                                          {"a%2Bc.txt", "a+c.txt"},
                                          {"a%20b", "a b"},
                                          {"100%25.txt", "100%.txt"},
                                          {"%252e%252e%252fx", "%2e%2e%2fx"},
                                          {"a%3Fb", "a?b"},
                                          {"%C3%BC", "ü"}};
    static const char *const bad[] = {"../x",     "..%2f..%2fetc/passwd",
                                      "a//b",     "./a",
                                      "a/./b",    "dir/",
                                      "/etc/x",   "a%00b",
                                      "%2e%2e/x", "a%0ab",
                                      ".husk-tmp"};
    struct api_fixture *a = *state;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        put(a, good[i][0], "1", 201);
        assert_string_equal(api_text(a, "path"), good[i][1]);
        get(a, good[i][0], NULL, NULL);
        api_finish_expect(a, 200, NULL);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin_put(a, bad[i], "1");
        api_finish_expect(a, 400, "bad_path");
    }
    api_expect(a, "GET", FILES "/", NULL, 400, "bad_path");
    api_expect(a, "PUT", FILES "/a%zz", NULL, 400, "bad_request_target");
    api_expect(a, "GET", FILES "?recursive=true", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "files")), sizeof(good) / sizeof(good[0]));
}

static void
test_uploads_that_fail(void **state)
{
    struct api_fixture *a = *state;

    put(a, "f", "old", 201);
    begin_put(a, "f", "new");
    a->f.x.req.content_length = 10;
    api_finish_expect(a, 400, "body_incomplete");
    begin_put(a, "f", "new");
    a->f.x.req.content_length = -1;
    api_finish_expect(a, 411, "length_required");
    begin_put(a, "f", "new");
    a->f.x.req.content_length = (4 << 20) + 1;
    api_finish_expect(a, 413, "file_too_large");
    assert_non_null(strstr(api_text(a, "detail"), "SANDBOX_MAX_FILE_BYTES"));
    begin_put(a, "f", "new");
    fake_header(&a->f, "content-range", "bytes 0-2/3");
    api_finish_expect(a, 400, "bad_header");
    get(a, "f", NULL, NULL);
    api_finish_expect(a, 200, NULL);
    expect_body(a, "old");
    api_expect(a, "GET", FILES, NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "files")), 1);
}

static void
test_digests(void **state)
{
    static const char *const malformed[] = {"sha-256=abc",
                                            "sha-256=:abc:", "sha-256=:!!!!:", "sha-256="};
    struct api_fixture *a = *state;
    struct buf base64 = BUF_INIT(100);
    uint8_t digest[SHA256_SIZE];
    char header[128];

    sha256_of("data", 4, digest);
    assert_int_equal(base64_encode(&base64, digest, sizeof(digest)), 0);
    (void)snprintf(header, sizeof(header), "md5=:AAAA:, sha-256=:%s:", base64.data);
    begin_put(a, "d", "data");
    fake_header(&a->f, "repr-digest", header);
    api_finish_expect(a, 201, NULL);
    assert_string_equal(api_header(a, "Repr-Digest"), header + strlen("md5=:AAAA:, "));
    begin_put(a, "d", "DATA");
    fake_header(&a->f, "repr-digest", header);
    api_finish_expect(a, 400, "digest_mismatch");
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        begin_put(a, "d", "DATA");
        fake_header(&a->f, "repr-digest", malformed[i]);
        api_finish_expect(a, 400, "bad_header");
    }
    get(a, "d", "want-repr-digest", "sha-512=3, sha-256=10");
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_header(a, "Repr-Digest"), header + strlen("md5=:AAAA:, "));
    expect_body(a, "data");
    get(a, "d", "want-repr-digest", "sha-256=0");
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_header(a, "Repr-Digest"), "");
    buf_done(&base64);
}

static void
test_ranges(void **state)
{
    struct api_fixture *a = *state;
    size_t n;

    put(a, "r", "0123456789", 201);
    get(a, "r", "range", "bytes=2-4");
    api_finish_expect(a, 206, NULL);
    expect_body(a, "234");
    assert_string_equal(api_header(a, "Content-Range"), "bytes 2-4/10");
    get(a, "r", "range", "bytes=-3");
    api_finish_expect(a, 206, NULL);
    expect_body(a, "789");
    get(a, "r", "range", "bytes=7-99");
    api_finish_expect(a, 206, NULL);
    assert_string_equal(api_header(a, "Content-Range"), "bytes 7-9/10");
    get(a, "r", "range", "bytes=10-");
    api_finish_expect(a, 416, "range_not_satisfiable");
    assert_string_equal(api_header(a, "Content-Range"), "bytes */10");
    get(a, "r", "range", "lines=1-2");
    api_finish_expect(a, 200, NULL);
    get(a, "r", "range", "bytes=0-1,5-6");
    api_finish_expect(a, 206, NULL);
    assert_memory_equal(api_header(a, "Content-Type"), "multipart/byteranges; boundary=", 31);
    assert_non_null(strstr(api_body(a, &n), "Content-Range: bytes 5-6/10\r\n\r\n56\r\n--"));
    assert_int_equal(n, strtol(api_header(a, "Content-Length"), NULL, 10));
    /* A weak tag proves nothing: the whole file. */
    get(a, "r", "range", "bytes=0-1");
    fake_header(&a->f, "if-range", "W/\"x\"");
    api_finish_expect(a, 200, NULL);
}

static void
test_conditions(void **state)
{
    struct api_fixture *a = *state;
    char etag[128];

    put(a, "c", "one", 201);
    assert_memory_equal(api_header(a, "ETag"), "W/\"", 3);
    let_it_rest();
    get(a, "c", NULL, NULL);
    api_finish_expect(a, 200, NULL);
    (void)snprintf(etag, sizeof(etag), "%s", api_header(a, "ETag"));
    assert_int_equal(etag[0], '"');
    assert_non_null(strstr(api_header(a, "Last-Modified"), " GMT"));
    get(a, "c", "if-none-match", etag);
    api_finish_expect(a, 304, NULL);
    assert_string_equal(api_header(a, "ETag"), etag);
    get(a, "c", "if-none-match", "bad");
    api_finish_expect(a, 400, "bad_header");
    get(a, "c", "if-match", "\"other\"");
    api_finish_expect(a, 412, "precondition_failed");
    get(a, "c", "range", "bytes=0-0");
    fake_header(&a->f, "if-range", etag);
    api_finish_expect(a, 206, NULL);
    begin_put(a, "c", "two");
    fake_header(&a->f, "if-none-match", "*");
    api_finish_expect(a, 412, "precondition_failed");
    begin_put(a, "c", "two");
    fake_header(&a->f, "if-match", "\"other\"");
    api_finish_expect(a, 412, "precondition_failed");
    begin_put(a, "new", "two");
    fake_header(&a->f, "if-match", "*");
    api_finish_expect(a, 412, "precondition_failed");
    begin_put(a, "c", "two");
    fake_header(&a->f, "if-match", etag);
    api_finish_expect(a, 200, NULL);
    begin_put(a, "new", "1");
    fake_header(&a->f, "if-none-match", "*");
    api_finish_expect(a, 201, NULL);
    api_begin(a, "DELETE", FILES "/c");
    fake_header(&a->f, "if-match", etag);
    api_finish_expect(a, 412, "precondition_failed");
    get(a, "c", NULL, NULL);
    api_finish_expect(a, 200, NULL);
    expect_body(a, "two");
}

/* What a browser would run is handed out as bytes to keep. */
static void
test_nothing_to_run(void **state)
{
    static const char *const names[] = {"x.html", "x.svg", "x.js", "x.xml", "quo%22te.html"};
    struct api_fixture *a = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        begin_put(a, names[i], "<script>1</script>");
        fake_header(&a->f, "content-type", "text/html");
        api_finish_expect(a, 201, NULL);
        get(a, names[i], NULL, NULL);
        api_finish_expect(a, 200, NULL);
        assert_string_equal(api_header(a, "Content-Type"), "application/octet-stream");
        assert_memory_equal(api_header(a, "Content-Disposition"), "attachment", 10);
    }
}

static void
cut_file(void *ctx, size_t total)
{
    struct api_fixture *a = ctx;
    struct file_lease lease;
    struct err err = ERR_INIT;
    struct caller c = fixture_caller("anonymous");
    int fd;

    if (total > 2000 || manager_files_begin(a->base.m, &c, "s", &lease, &err) < 0)
        return;
    fd = openat(lease.ws.root_fd, "big", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 300000), 0);
    (void)close(fd);
    manager_files_end(a->base.m, &lease, false);
}

/* A file that becomes shorter while it is sent breaks the answer off, never fills it up. */
static void
test_shrinks_while_sent(void **state)
{
    struct api_fixture *a = *state;
    static char big[1 << 20];
    size_t n;

    api_begin(a, "PUT", FILES "/big");
    fake_body(&a->f, big, sizeof(big));
    api_finish_expect(a, 201, NULL);
    get(a, "big", NULL, NULL);
    a->f.on_write = cut_file;
    a->f.ctx = a;
    assert_int_equal(api_finish(a), 200);
    assert_true(a->f.broken_off);
    (void)api_body(a, &n);
    assert_true(n <= 300000);
    assert_string_equal(api_header(a, "Content-Length"), "1048576");
}

static void
test_reader_leaves(void **state)
{
    struct api_fixture *a = *state;
    static char big[1 << 20];

    api_begin(a, "PUT", FILES "/big");
    fake_body(&a->f, big, sizeof(big));
    api_finish_expect(a, 201, NULL);
    get(a, "big", NULL, NULL);
    a->f.gone_at = 1000;
    assert_int_equal(api_finish(a), 200);
    assert_true(a->f.x.broken);
    api_expect(a, "GET", "/v1/sessions/s", NULL, 200, NULL);
    assert_string_equal(api_text(a, "state"), "ready");
}

static void
test_lists(void **state)
{
    struct api_fixture *a = *state;
    char target[4096];

    put(a, "a/1", "x", 201);
    put(a, "a/2", "x", 201);
    put(a, "b/c/3", "x", 201);
    put(a, "%ff", "x", 201);
    api_expect(a, "GET", FILES, NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "files")), 3);
    assert_string_equal(api_text(a, "files.0.path"), "a");
    assert_string_equal(api_text(a, "files.0.type"), "directory");
    assert_string_equal(api_text(a, "files.2.path_base64"), "/w==");
    assert_int_equal(json_type(api_member(a, "next_cursor")), JSON_NULL);
    api_expect(a, "GET", FILES "?path=a", NULL, 200, NULL);
    assert_string_equal(api_text(a, "files.1.path"), "a/2");
    api_expect(a, "GET", FILES "?path_base64=YQ%3D%3D", NULL, 200, NULL);
    assert_string_equal(api_text(a, "files.1.path"), "a/2");
    api_expect(a, "GET", FILES "?recursive=true&glob=**/%5B12%5D", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "files")), 2);
    api_expect(a, "GET", FILES "?recursive=true&limit=2", NULL, 200, NULL);
    assert_int_equal(json_length(api_member(a, "files")), 2);
    (void)snprintf(target, sizeof(target), FILES "?recursive=true&cursor=%s",
                   api_text(a, "next_cursor"));
    api_expect(a, "GET", target, NULL, 200, NULL);
    assert_string_equal(api_text(a, "files.0.path"), "a/2");
    api_expect(a, "GET", FILES "?path=../x", NULL, 400, "bad_path");
    api_expect(a, "GET", FILES "?path=a&path_base64=YQ", NULL, 400, "bad_value");
    api_expect(a, "GET", FILES "?path_base64=%25", NULL, 400, "bad_value");
    api_expect(a, "GET", FILES "?recursive=maybe", NULL, 400, "bad_value");
    api_expect(a, "GET", FILES "?glob=", NULL, 400, "bad_value");
    api_expect(a, "GET", FILES "/a", NULL, 400, "not_a_file");
    assert_non_null(strstr(api_text(a, "detail"), FILES "?path="));
    api_expect(a, "GET", "/v1/sessions/none/files", NULL, 404, "session_not_found");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_names, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_uploads_that_fail, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_digests, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_ranges, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_conditions, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_to_run, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_shrinks_while_sent, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_reader_leaves, api_setup_session, api_teardown),
        cmocka_unit_test_setup_teardown(test_lists, api_setup_session, api_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
