/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "http/http.h"

static void
refused(const char *target)
{
    struct http_request r = {0};
    struct err err = ERR_INIT;

    if (http_parse_target(&r, target, &err) == 0)
        fail_msg("taken: %s", target);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.slug, "bad_request_target");
    assert_null(r.path);
    http_request_done(&r);
}

static void
parse(struct http_request *r, const char *target)
{
    struct err err = ERR_INIT;

    memset(r, 0, sizeof(*r));
    if (http_parse_target(r, target, &err) < 0)
        fail_msg("%s: %s", target, err.msg);
}

static void
t_path_stays_raw(void **state)
{
    struct http_request r;

    (void)state;
    parse(&r, "/v1//a%2Fb/../c+d%00");
    assert_string_equal(r.path, "/v1//a%2Fb/../c+d%00");
    assert_int_equal(r.n_query, 0);
    http_request_done(&r);
    parse(&r, "/\xc3\xa9?");
    assert_string_equal(r.path, "/\xc3\xa9");
    http_request_done(&r);
}

static void
t_query(void **state)
{
    struct http_request r;

    (void)state;
    parse(&r, "/x?a=1+2&b=%2B%3D&flag&&c==&%61b=%2561");
    assert_int_equal(r.n_query, 5);
    assert_string_equal(r.query[0].value, "1 2");
    assert_string_equal(r.query[1].value, "+=");
    assert_string_equal(r.query[2].name, "flag");
    assert_string_equal(r.query[2].value, "");
    assert_string_equal(r.query[3].value, "=");
    assert_string_equal(r.query[4].name, "ab");
    assert_string_equal(r.query[4].value, "%61"); /* decoded once */
    http_request_done(&r);
    /* "?" inside a query is a character like others */
    parse(&r, "/x?a=b?c");
    assert_string_equal(r.query[0].value, "b?c");
    http_request_done(&r);
}

static void
t_refused(void **state)
{
    static const char *const bad[] = {
        "",           "*",          "x",
        "http://h/x", "/%",         "/%4",
        "/%zz",       "/a b",       "/a#b",
        "/a\x01",     "/a\x7f",     "/x?a=%",
        "/x?a=%0",    "/x?%g0=1",   "/x?a=%00",
        "/x?a%00=1",  "/x?a=1&a=2", "/x?=1",
        "/x?a&%61=",  "/x?a=1#f",   "/x?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(bad[i]);
}

static void
t_longest(void **state)
{
    char *s = malloc(HTTP_TARGET_MAX + 2);
    struct http_request r;
    struct err err = ERR_INIT;

    (void)state;
    memset(s, 'a', HTTP_TARGET_MAX + 1);
    s[0] = '/';
    s[HTTP_TARGET_MAX] = '\0';
    parse(&r, s);
    http_request_done(&r);
    s[HTTP_TARGET_MAX] = 'a';
    s[HTTP_TARGET_MAX + 1] = '\0';
    memset(&r, 0, sizeof(r));
    assert_int_equal(http_parse_target(&r, s, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.slug, "uri_too_long");
    free(s);
}

static void
t_decode(void **state)
{
    char *s;
    size_t n;

    (void)state;
    assert_int_equal(http_percent_decode("a%00+%2f", 8, false, &s, &n), 1);
    assert_int_equal(n, 4);
    assert_memory_equal(s, "a\0+/", 5);
    free(s);
    assert_int_equal(http_percent_decode("+", 1, true, &s, &n), 1);
    assert_string_equal(s, " ");
    free(s);
    /* the sequence must lie within the n bytes */
    assert_int_equal(http_percent_decode("a%41", 3, false, &s, &n), 0);
    assert_int_equal(http_percent_decode("", 0, false, &s, &n), 1);
    assert_int_equal(n, 0);
    free(s);
}

enum { R_LIST, R_OPEN, R_GET, R_DELETE, R_FILES, R_FILE, R_PUT, R_HEADED, R_HEAD };
static const struct http_route routes[] = {
    [R_LIST] = {.method = HTTP_GET, .pattern = "/v1/sessions"},
    [R_OPEN] = {.method = HTTP_POST, .pattern = "/v1/sessions"},
    [R_GET] = {.method = HTTP_GET, .pattern = "/v1/sessions/{id}"},
    [R_DELETE] = {.method = HTTP_DELETE, .pattern = "/v1/sessions/{id}"},
    [R_FILES] = {.method = HTTP_GET, .pattern = "/v1/sessions/{id}/files"},
    [R_FILE] = {.method = HTTP_GET, .pattern = "/v1/sessions/{id}/files/{path...}"},
    [R_PUT] = {.method = HTTP_PUT, .pattern = "/v1/sessions/{id}/files/{path...}"},
    [R_HEADED] = {.method = HTTP_GET, .pattern = "/v1/x/{n}/content"},
    [R_HEAD] = {.method = HTTP_HEAD, .pattern = "/v1/x/{n}/content"},
};

/* Returns what http_route_find does; the found route's index in *ret. */
static int
find(struct http_request *r, enum http_method m, const char *path, int *ret, char allow[64])
{
    const struct http_route *found = NULL;

    parse(r, path);
    r->method = m;
    int rc = http_route_find(routes, sizeof(routes) / sizeof(routes[0]), r, &found, allow, 64);
    *ret = found ? (int)(found - routes) : -1;
    return rc;
}

static void
t_routes(void **state)
{
    static const struct {
        enum http_method m;
        const char *path;
        int rc, route;
    } rows[] = {
        {HTTP_GET, "/v1/sessions", 1, R_LIST},
        {HTTP_HEAD, "/v1/sessions", 1, R_LIST},
        {HTTP_POST, "/v1/sessions", 1, R_OPEN},
        {HTTP_PUT, "/v1/sessions", -1, -1},
        {HTTP_GET, "/v1/sessions/", 0, -1},
        {HTTP_GET, "/v1//sessions", 0, -1},
        {HTTP_GET, "/v1/sessions/a", 1, R_GET},
        {HTTP_GET, "/v1/sessions/a/", 0, -1},
        {HTTP_GET, "/v1/sessions//files", 0, -1},
        {HTTP_GET, "/v1/sessions/a/files", 1, R_FILES},
        {HTTP_GET, "/v1/sessions/a/files/", 0, -1},
        {HTTP_GET, "/v1/sessions/a/files//", 1, R_FILE},
        {HTTP_PUT, "/v1/sessions/a/files/b/c", 1, R_PUT},
        {HTTP_HEAD, "/v1/x/1/content", 1, R_HEAD},
        {HTTP_GET, "/v1/x/1/content", 1, R_HEADED},
        {HTTP_GET, "/v1/x/1/contents", 0, -1},
        {HTTP_GET, "/v1/session", 0, -1},
        {HTTP_GET, "/", 0, -1},
        {HTTP_OTHER, "/v1/sessions/a", -1, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_request r;
        char allow[64];
        int route;
        int rc = find(&r, rows[i].m, rows[i].path, &route, allow);
        if (rc != rows[i].rc || route != rows[i].route)
            fail_msg("%s: %d, route %d", rows[i].path, rc, route);
        http_request_done(&r);
    }
}

static void
t_params_decoded_once(void **state)
{
    struct http_request r;
    char allow[64];
    int route;

    (void)state;
    assert_int_equal(
        find(&r, HTTP_GET, "/v1/sessions/a%2Fb%252e/files//x/..%2f/%00+%ff", &route, allow), 1);
    assert_int_equal(r.n_params, 2);
    assert_string_equal(r.params[0].value, "a/b%2e");
    assert_int_equal(r.params[1].len, 10);
    assert_memory_equal(r.params[1].value, "/x/..//\0+\xff", 10);
    http_request_done(&r);
}

static void
t_allow(void **state)
{
    struct http_request r;
    char allow[64];
    int route;

    (void)state;
    assert_int_equal(find(&r, HTTP_PATCH, "/v1/sessions/a", &route, allow), -1);
    assert_string_equal(allow, "GET, HEAD, DELETE");
    http_request_done(&r);
    assert_int_equal(http_method_parse("PATCH"), HTTP_PATCH);
    assert_int_equal(http_method_parse("get"), HTTP_OTHER);
    assert_int_equal(http_method_parse(""), HTTP_OTHER);
}

static void
t_bad_param(void **state)
{
    struct http_request r = {.method = HTTP_GET};
    const struct http_route *found;
    char allow[64];

    (void)state;
    r.path = strdup("/v1/sessions/%zz"); /* as if no parser had looked at it */
    assert_int_equal(http_route_find(routes, sizeof(routes) / sizeof(routes[0]), &r, &found, allow,
                                     sizeof(allow)),
                     -2);
    http_request_done(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_path_stays_raw),
        cmocka_unit_test(t_query),
        cmocka_unit_test(t_refused),
        cmocka_unit_test(t_longest),
        cmocka_unit_test(t_decode),
        cmocka_unit_test(t_routes),
        cmocka_unit_test(t_params_decoded_once),
        cmocka_unit_test(t_allow),
        cmocka_unit_test(t_bad_param),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
