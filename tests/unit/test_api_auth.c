/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "support/api_fixture.h"

static int
setup(void **state)
{
    struct api_fixture *a;

    (void)api_setup(state);
    a = *state;
    a->o.auth = API_AUTH_KEYS;
    api_fixture_restart(a);
    return 0;
}

/* "Bearer <token>" of a fresh key. */
static void
make_key(struct api_fixture *a, const char *owner, unsigned scopes, int64_t expires_at,
         char out[128], struct key_info *ret)
{
    char token[KEY_TOKEN_SIZE];
    struct err err = ERR_INIT;

    if (manager_key_create(a->base.m, owner, scopes, expires_at, "", token, ret, &err) < 0)
        fail_msg("manager_key_create: %s", err.msg);
    (void)snprintf(out, 128, "Bearer %s", token);
}

static void
ask_as(struct api_fixture *a, const char *authorization, const char *method, const char *target,
       const char *json)
{
    api_begin(a, method, target);
    if (authorization != NULL)
        fake_header(&a->f, "authorization", authorization);
    if (json != NULL)
        fake_json(&a->f, json);
}

static void
test_who_gets_in(void **state)
{
    struct api_fixture *a = *state;
    static const char *const wrong[] = {"",        "Bearer",          "Bearer ",     "Basic YTpi",
                                        "husk_xx", "Bearer husk_xxx", "Bearer a\"b", "token x"};
    static const char *const open_to_all[] = {"/healthz", "/readyz", "/metrics", "/openapi.json"};
    char key[128], lower[256];
    struct key_info info;

    ask_as(a, NULL, "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 401, "unauthorized");
    assert_string_equal(api_header(a, "WWW-Authenticate"), "Bearer realm=\"husk\"");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ask_as(a, wrong[i], "GET", "/v1/sessions", NULL);
        api_finish_expect(a, 401, "unauthorized");
        assert_non_null(strstr(api_header(a, "WWW-Authenticate"), "invalid_token"));
    }
    for (size_t i = 0; i < 4; i++) {
        ask_as(a, NULL, "GET", open_to_all[i], NULL);
        api_finish_expect(a, 200, NULL);
    }
    make_key(a, "ann", KEY_EXECUTE, 0, key, &info);
    ask_as(a, key, "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 200, NULL);
    (void)snprintf(lower, sizeof(lower), "bearer  %s", key + 7);
    ask_as(a, lower, "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 200, NULL);
    (void)snprintf(lower, sizeof(lower), "/v1/sessions?token=%s", key + 7);
    ask_as(a, NULL, "GET", lower, NULL);
    api_finish_expect(a, 400, "unknown_parameter");
    make_key(a, "ann", KEY_EXECUTE, 1000, key, &info);
    ask_as(a, key, "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 401, "key_expired");
}

static void
test_scopes(void **state)
{
    struct api_fixture *a = *state;
    char execute[128], read[128], admin[128], other[128];
    struct key_info info;

    make_key(a, "ann", KEY_EXECUTE, 0, execute, &info);
    make_key(a, "ann", KEY_READ, 0, read, &info);
    make_key(a, "boss", KEY_ADMIN, 0, admin, &info);
    make_key(a, "bob", KEY_EXECUTE, 0, other, &info);
    ask_as(a, execute, "POST", "/v1/sessions", "{\"session_id\":\"s\"}");
    api_finish_expect(a, 201, NULL);
    ask_as(a, read, "GET", "/v1/sessions/s", NULL);
    api_finish_expect(a, 200, NULL);
    ask_as(a, read, "POST", "/v1/sessions/s/exec", "{\"code\":\"print 1\"}");
    api_finish_expect(a, 403, "forbidden");
    ask_as(a, read, "DELETE", "/v1/sessions/s", NULL);
    api_finish_expect(a, 403, "forbidden");
    ask_as(a, read, "PUT", "/v1/sessions/s/files/f", NULL);
    api_finish_expect(a, 403, "forbidden");
    ask_as(a, execute, "GET", "/v1/keys", NULL);
    api_finish_expect(a, 403, "forbidden");
    /* Another owner's is not there at all, whatever is done with it. */
    ask_as(a, other, "GET", "/v1/sessions/s", NULL);
    api_finish_expect(a, 404, "session_not_found");
    ask_as(a, other, "POST", "/v1/sessions/s/exec", "{\"code\":\"print 1\"}");
    api_finish_expect(a, 404, "session_not_found");
    ask_as(a, other, "GET", "/v1/sessions/s/files", NULL);
    api_finish_expect(a, 404, "session_not_found");
    ask_as(a, other, "DELETE", "/v1/sessions/s", NULL);
    api_finish_expect(a, 404, "session_not_found");
    ask_as(a, admin, "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 200, NULL);
    assert_int_equal(json_length(api_member(a, "sessions")), 1);
    ask_as(a, admin, "DELETE", "/v1/sessions/s", NULL);
    api_finish_expect(a, 204, NULL);
}

static void
test_keys(void **state)
{
    struct api_fixture *a = *state;
    char admin[128], made[128], id[64], target[128];
    struct key_info info;

    make_key(a, "boss", KEY_ADMIN, 0, admin, &info);
    ask_as(a, admin, "POST", "/v1/keys",
           "{\"owner\":\"docs\",\"scopes\":[\"execute\"],\"note\":\"back end\"}");
    api_finish_expect(a, 201, NULL);
    (void)snprintf(made, sizeof(made), "Bearer %s", api_text(a, "token"));
    (void)snprintf(id, sizeof(id), "%s", api_text(a, "key_id"));
    assert_string_equal(api_text(a, "scopes.0"), "execute");
    ask_as(a, made, "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 200, NULL);
    ask_as(a, admin, "GET", "/v1/keys", NULL);
    api_finish_expect(a, 200, NULL);
    assert_int_equal(json_length(api_member(a, "keys")), 2);
    assert_int_equal(json_type(api_member(a, "keys.0.token")), JSON_ABSENT);
    (void)snprintf(target, sizeof(target), "/v1/keys/%s", id);
    ask_as(a, admin, "DELETE", target, NULL);
    api_finish_expect(a, 204, NULL);
    ask_as(a, made, "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 401, "key_revoked");
    ask_as(a, admin, "DELETE", "/v1/keys/none", NULL);
    api_finish_expect(a, 404, "key_not_found");
    ask_as(a, admin, "DELETE", "/v1/keys/a%00b", NULL);
    api_finish_expect(a, 404, "key_not_found");
    ask_as(a, admin, "POST", "/v1/keys", "{\"owner\":\"docs\"}");
    api_finish_expect(a, 400, "missing_member");
}

static void
test_proxy(void **state)
{
    struct api_fixture *a = *state;
    static char long_user[OWNER_MAX + 2];

    a->o.auth = API_AUTH_PROXY;
    a->o.proxy_user_header = "X-User";
    api_fixture_restart(a);
    ask_as(a, "Bearer x", "GET", "/v1/sessions", NULL);
    api_finish_expect(a, 401, "unauthorized");
    api_begin(a, "GET", "/v1/sessions");
    a->f.user = "";
    api_finish_expect(a, 401, "unauthorized");
    memset(long_user, 'u', OWNER_MAX + 1);
    api_begin(a, "GET", "/v1/sessions");
    a->f.user = long_user;
    api_finish_expect(a, 401, "unauthorized");
    api_begin(a, "POST", "/v1/sessions");
    a->f.user = "ann@example";
    fake_json(&a->f, "{\"session_id\":\"s\"}");
    api_finish_expect(a, 201, NULL);
    assert_string_equal(api_text(a, "owner"), "ann@example");
    api_begin(a, "GET", "/v1/sessions/s");
    a->f.user = "bob@example";
    api_finish_expect(a, 404, "session_not_found");
    api_begin(a, "GET", "/v1/keys");
    a->f.user = "ann@example";
    api_finish_expect(a, 403, "forbidden");
}

static void
preflight(struct api_fixture *a, const char *origin)
{
    api_begin(a, "OPTIONS", "/v1/sessions/s/files/x");
    fake_header(&a->f, "origin", origin);
    fake_header(&a->f, "access-control-request-method", "PUT");
}

static void
test_cors(void **state)
{
    struct api_fixture *a = *state;

    preflight(a, "https://app.example");
    api_finish_expect(a, 405, "method_not_allowed");
    assert_string_equal(api_header(a, "Access-Control-Allow-Origin"), "");
    a->o.cors_origins = "https://app.example, http://localhost:3000";
    api_fixture_restart(a);
    preflight(a, "https://app.example");
    api_finish_expect(a, 204, NULL);
    assert_string_equal(api_header(a, "Access-Control-Allow-Origin"), "https://app.example");
    assert_string_equal(api_header(a, "Access-Control-Allow-Methods"), "GET, HEAD, PUT, DELETE");
    assert_non_null(strstr(api_header(a, "Access-Control-Allow-Headers"), "Authorization"));
    assert_string_equal(api_header(a, "Vary"), "Origin");
    preflight(a, "https://app.example.evil");
    api_finish_expect(a, 405, NULL);
    preflight(a, "null");
    api_finish_expect(a, 405, NULL);
    /* An error must be readable by the page, too. */
    ask_as(a, NULL, "GET", "/v1/sessions", NULL);
    fake_header(&a->f, "origin", "http://localhost:3000");
    api_finish_expect(a, 401, "unauthorized");
    assert_string_equal(api_header(a, "Access-Control-Allow-Origin"), "http://localhost:3000");
    assert_non_null(strstr(api_header(a, "Access-Control-Expose-Headers"), "X-Request-Id"));
    ask_as(a, NULL, "GET", "/healthz", NULL);
    fake_header(&a->f, "origin", "https://evil.example");
    api_finish_expect(a, 200, NULL);
    assert_string_equal(api_header(a, "Access-Control-Allow-Origin"), "");
    a->o.cors_origins = "*";
    api_fixture_restart(a);
    preflight(a, "https://any.example");
    api_finish_expect(a, 204, NULL);
    assert_string_equal(api_header(a, "Access-Control-Allow-Origin"), "*");
}

static void
test_bad_origins(void **state)
{
    static const char *const bad[] = {"app.example", "https://", "://x", "https://a/b",
                                      "https://a?b"};
    struct api_fixture *a = *state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct api_options o = a->o;
        struct err err = ERR_INIT;
        struct api *api = NULL;

        o.cors_origins = bad[i];
        assert_int_equal(api_new(&o, &api, &err), -1);
        assert_non_null(strstr(err.msg, bad[i]));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_gets_in, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_scopes, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_keys, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_proxy, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_cors, setup, api_teardown),
        cmocka_unit_test_setup_teardown(test_bad_origins, setup, api_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
