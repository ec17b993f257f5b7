/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "api/api.h"
#include "api/openapi_doc.h"
#include "api/routes.h"

#include <stdio.h>
#include <string.h>

#include "json/json.h"
#include "model/problem.h"

/* docs/openapi.json against the route table and the table of errors, both ways. */
static struct json_doc *doc;

static int
load(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    if (json_parse((const char *)openapi_doc, openapi_doc_len, 32, 0, &doc, &err) < 0)
        fail_msg("docs/openapi.json: %s", err.msg);
    return 0;
}

static int
unload(void **state)
{
    (void)state;
    json_free(doc);
    return 0;
}

/* A pattern as OpenAPI writes it: without the dots of a rest parameter. */
static void
path_of(const struct http_route *r, char *out, size_t size)
{
    size_t n = 0;

    for (const char *p = r->pattern; *p != '\0' && n + 1 < size; p++)
        if (strncmp(p, "...", 3) == 0)
            p += 2;
        else
            out[n++] = *p;
    out[n] = '\0';
}

static const char *
method_of(const struct http_route *r)
{
    switch (r->method) {
    case HTTP_GET:
        return "get";
    case HTTP_POST:
        return "post";
    case HTTP_PUT:
        return "put";
    case HTTP_PATCH:
        return "patch";
    case HTTP_DELETE:
        return "delete";
    default:
        return "?";
    }
}

static json_val
member_of(json_val v, const char *a, const char *b)
{
    return json_member(json_member(v, a), b);
}

static void
test_routes_are_described(void **state)
{
    size_t n;
    const struct http_route *r = api_routes(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        char path[128];
        json_val op;

        path_of(&r[i], path, sizeof(path));
        op = json_member(member_of(json_root(doc), "paths", path), method_of(&r[i]));
        if (json_type(op) != JSON_OBJECT)
            fail_msg("%s %s is not in docs/openapi.json", method_of(&r[i]), path);
        if ((r[i].scope == SCOPE_PUBLIC) != (json_type(json_member(op, "security")) == JSON_ARRAY))
            fail_msg("%s %s: is a key needed or not?", method_of(&r[i]), path);
        if ((r[i].max_body != 0) != (json_type(json_member(op, "requestBody")) == JSON_OBJECT))
            fail_msg("%s %s: is there a body or not?", method_of(&r[i]), path);
        assert_true(json_length(json_member(op, "responses")) > 2);
    }
}

static void
test_described_are_routes(void **state)
{
    size_t n, iter = 0, len;
    const struct http_route *r = api_routes(&n);
    json_val paths = json_member(json_root(doc), "paths"), item;
    const char *path;

    (void)state;
    while (json_next_member(paths, &iter, &path, &len, &item)) {
        size_t inner = 0, mlen;
        const char *method;
        json_val op;

        while (json_next_member(item, &inner, &method, &mlen, &op)) {
            bool found = strcmp(method, "parameters") == 0;
            char mine[128];

            for (size_t i = 0; i < n && !found; i++) {
                path_of(&r[i], mine, sizeof(mine));
                found = strcmp(mine, path) == 0 && strcmp(method_of(&r[i]), method) == 0;
            }
            if (!found)
                fail_msg("%s %s of docs/openapi.json is no route", method, path);
        }
    }
}

/* Is the query parameter among the operation's, plain or by reference? */
static bool
has_query(json_val op, const char *name, size_t len)
{
    json_val list = json_member(op, "parameters");

    for (size_t i = 0; i < json_length(list); i++) {
        json_val p = json_item(list, i);
        const char *ref = json_cstring(json_member(p, "$ref"));
        const char *own;

        if (ref != NULL)
            p = json_member(member_of(json_root(doc), "components", "parameters"),
                            strrchr(ref, '/') + 1);
        own = json_cstring(json_member(p, "name"));
        if (strcmp(json_cstring(json_member(p, "in")), "query") == 0 && strlen(own) == len &&
            memcmp(own, name, len) == 0)
            return true;
    }
    return false;
}

static void
test_query_parameters(void **state)
{
    size_t n;
    const struct http_route *r = api_routes(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        char path[128];
        json_val op;

        path_of(&r[i], path, sizeof(path));
        op = json_member(member_of(json_root(doc), "paths", path), method_of(&r[i]));
        for (const char *q = route_query(&r[i]); *q != '\0';) {
            size_t len = strcspn(q, " ");

            if (!has_query(op, q, len))
                fail_msg("%s %s: query parameter %.*s is not described", method_of(&r[i]), path,
                         (int)len, q);
            q += len + (q[len] == ' ');
        }
    }
}

static void
test_codes(void **state)
{
    size_t n;
    const struct problem *p = problem_table(&n);
    json_val problem = json_member(member_of(json_root(doc), "components", "schemas"), "Problem");
    json_val codes = json_member(member_of(problem, "properties", "code"), "enum");

    (void)state;
    for (size_t i = 0; i < n; i++) {
        const char *code = json_cstring(json_item(codes, i));

        if (code == NULL || strcmp(code, p[i].slug) != 0)
            fail_msg("code %zu is %s here and %s in docs/openapi.json", i, p[i].slug,
                     code ? code : "-");
    }
    assert_int_equal(json_length(codes), n);
}

/* Is the code named in the description of an answer, of those that operations refer to? */
static bool
is_in_an_answer(const char *slug)
{
    json_val answers = member_of(json_root(doc), "components", "responses"), answer;
    size_t iter = 0, len, n = strlen(slug);
    const char *name;

    while (json_next_member(answers, &iter, &name, &len, &answer)) {
        const char *text = json_cstring(json_member(answer, "description"));

        for (const char *at = text; at != NULL && (at = strstr(at, slug)) != NULL; at += n)
            if ((at == text || at[-1] == ' ') && strchr(";:, ", at[n]) != NULL)
                return true;
    }
    return false;
}

static void
test_codes_are_in_answers(void **state)
{
    size_t n;
    const struct problem *p = problem_table(&n);

    (void)state;
    for (size_t i = 0; i < n; i++)
        if (p[i].status != 499 && !is_in_an_answer(p[i].slug))
            fail_msg("%s is in no answer of docs/openapi.json", p[i].slug);
}

/* What nginx answers by itself, and a full disk any call that writes, whatever the call is. */
static void
test_answers_of_every_call(void **state)
{
    static const char *const always[] = {"400", "413", "414", "429", "431",
                                         "500", "502", "503", "504", "507"};
    size_t n;
    const struct http_route *r = api_routes(&n);

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof(always) / sizeof(always[0]); k++) {
            char path[128];
            json_val op;

            path_of(&r[i], path, sizeof(path));
            op = json_member(member_of(json_root(doc), "paths", path), method_of(&r[i]));
            if (r[i].method == HTTP_GET && strcmp(always[k], "507") == 0)
                continue;
            if (json_type(member_of(op, "responses", always[k])) != JSON_OBJECT)
                fail_msg("%s %s: %s is not described", method_of(&r[i]), path, always[k]);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes_are_described), cmocka_unit_test(test_described_are_routes),
        cmocka_unit_test(test_query_parameters),     cmocka_unit_test(test_codes),
        cmocka_unit_test(test_codes_are_in_answers), cmocka_unit_test(test_answers_of_every_call),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
