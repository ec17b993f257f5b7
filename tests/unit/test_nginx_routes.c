/* SPDX-License-Identifier: MIT */
/* The generated nginx configuration sends every route of the API to the lane its table names. */
#include "support/cmocka_all.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "ctl/nginx_conf.h"

static struct buf conf = BUF_INIT(1 << 20);

static const char *const methods[] = {
    [HTTP_GET] = "GET", [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT", [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
};

/* "/v1/sessions/{id}/files/{path...}" with an x for every parameter. */
static void
example_path(const char *pattern, char out[200])
{
    size_t n = 0;
    for (const char *p = pattern; *p && n < 199; p++) {
        if (*p == '{')
            p += strcspn(p, "}");
        out[n++] = *p == '}' ? 'x' : *p;
    }
    out[n] = '\0';
}

/* Does nginx's "= path", "~ regex" or "/" match? */
static bool
location_matches(const char *match, const char *path)
{
    if (match[0] == '=')
        return strcmp(match + 2, path) == 0;
    if (match[0] != '~')
        return true;
    regex_t re;
    assert_int_equal(regcomp(&re, match + 2, REG_EXTENDED | REG_NOSUB), 0);
    int rc = regexec(&re, path, 0, NULL, 0);
    regfree(&re);
    return rc == 0;
}

/* What "map $request_method NAME {" gives for the method. */
static void
map_value(const char *name, const char *method, char out[64])
{
    char head[128], row[16], value[64];
    snprintf(head, sizeof(head), "map $request_method %s {\n", name);
    const char *p = strstr(buf_str(&conf), head);
    assert_non_null(p);
    out[0] = '\0';
    for (p = strchr(p, '\n') + 1; sscanf(p, " %15s %63[^;];", row, value) == 2;
         p = strchr(p, '\n') + 1) {
        if (strcmp(row, method) == 0 || (strcmp(row, "default") == 0 && !out[0]))
            snprintf(out, 64, "%s", value);
        if (strcmp(row, "default") == 0)
            return;
    }
}

/* The upstream of a request. Locations stand in the file in the order nginx asks them: exact ones,
 * expressions in their order, then the rest. */
static void
upstream_of(const char *method, const char *path, char out[64])
{
    char match[200], pass[64];
    const char *p = buf_str(&conf);
    while ((p = strstr(p, "\n        location ")) != NULL) {
        p += strlen("\n        location ");
        assert_int_equal(sscanf(p, "%199[^{\n]", match), 1);
        size_t n = strlen(match);
        match[n - 1] = '\0'; /* the blank before the brace */
        if (!location_matches(match, path))
            continue;
        p = strstr(p, "fastcgi_pass ");
        assert_non_null(p);
        assert_int_equal(sscanf(p, "fastcgi_pass %63[^;];", pass), 1);
        if (pass[0] == '$')
            map_value(pass, method, out);
        else
            snprintf(out, 64, "%s", pass);
        return;
    }
    fail_msg("no location takes %s", path);
}

static void
t_every_route_goes_to_its_lane(void **state)
{
    (void)state;
    size_t n;
    const struct http_route *routes = api_routes(&n);
    assert_true(n > 10);
    for (size_t i = 0; i < n; i++) {
        char path[200], upstream[64], wanted[64];
        if (routes[i].method >= sizeof(methods) / sizeof(methods[0]))
            continue;
        example_path(routes[i].pattern, path);
        upstream_of(methods[routes[i].method], path, upstream);
        snprintf(wanted, sizeof(wanted), "husk_%s", routes[i].lane);
        if (strcmp(upstream, wanted) != 0)
            fail_msg("%s %s goes to %s, not to %s", methods[routes[i].method], path, upstream,
                     wanted);
    }
}

static int
setup(void **state)
{
    struct settings s;
    (void)state;
    settings_defaults(&s);
    int rc = nginx_conf(&s, NULL, &conf);
    settings_done(&s);
    return rc;
}

static int
teardown(void **state)
{
    (void)state;
    buf_done(&conf);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(t_every_route_goes_to_its_lane)};
    return cmocka_run_group_tests(tests, setup, teardown) != 0;
}
