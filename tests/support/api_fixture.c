/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include "support/api_fixture.h"

#include <stdio.h>
#include <string.h>

void
api_fixture_restart(struct api_fixture *a)
{
    struct err err = ERR_INIT;

    api_free(a->api);
    a->api = NULL;
    if (api_new(&a->o, &a->api, &err) < 0)
        fail_msg("api_new: %s", err.msg);
}

static void
end(struct api_fixture *a)
{
    json_free(a->doc);
    a->doc = NULL;
    if (a->asked)
        fake_done(&a->f);
    a->asked = false;
}

static void
init(struct api_fixture *a)
{
    memset(a, 0, sizeof(*a));
    fixture_init(&a->base);
    a->o = (struct api_options){.manager = a->base.m,
                                .max_code_bytes = 4096,
                                .max_file_bytes = 4 << 20,
                                .max_output_bytes = 65536,
                                .exec_timeout_ms = a->base.o.exec_timeout_ms,
                                .max_exec_timeout_ms = a->base.o.max_exec_timeout_ms,
                                .turn_wait_ms = a->base.o.turn_wait_ms,
                                .start_timeout_ms = a->base.o.start_timeout_ms,
                                .http_timeout_ms = 1000,
                                .spool_dir = a->base.spool,
                                .auth = API_AUTH_NONE,
                                .cors_origins = "",
                                .kernel_name = "k",
                                .version = "1.2.3"};
    api_fixture_restart(a);
}

int
api_setup(void **state)
{
    static struct api_fixture a;

    init(&a);
    *state = &a;
    return 0;
}

int
api_setup_session(void **state)
{
    (void)api_setup(state);
    api_expect(*state, "POST", "/v1/sessions", "{\"session_id\":\"s\"}", 201, NULL);
    return 0;
}

int
api_teardown(void **state)
{
    struct api_fixture *a = *state;

    end(a);
    api_free(a->api);
    fixture_done(&a->base);
    return 0;
}

void
api_begin(struct api_fixture *a, const char *method, const char *target)
{
    end(a);
    fake_request(&a->f, method, target);
    a->asked = true;
}

int
api_finish(struct api_fixture *a)
{
    api_serve(a->api, &a->f.x, &a->f.target_err);
    return fake_status(&a->f);
}

int
api_ask(struct api_fixture *a, const char *method, const char *target, const char *json)
{
    api_begin(a, method, target);
    if (json != NULL)
        fake_json(&a->f, json);
    return api_finish(a);
}

json_val
api_member(struct api_fixture *a, const char *path)
{
    struct err err = ERR_INIT;
    json_val v;
    size_t n;

    if (a->doc == NULL) {
        const char *p = api_body(a, &n);

        if (json_parse(p, n, 32, 0, &a->doc, &err) < 0)
            fail_msg("the answer is no JSON: %s: %.300s", err.msg, p);
    }
    v = json_root(a->doc);
    while (*path != '\0') {
        char name[64];

        n = strcspn(path, ".");
        (void)snprintf(name, sizeof(name), "%.*s", (int)n, path);
        v = json_type(v) == JSON_ARRAY ? json_item(v, (size_t)strtoul(name, NULL, 10))
                                       : json_member(v, name);
        path += n + (path[n] == '.');
    }
    return v;
}

const char *
api_text(struct api_fixture *a, const char *path)
{
    const char *s = json_cstring(api_member(a, path));

    return s != NULL ? s : "";
}

const char *
api_header(struct api_fixture *a, const char *name)
{
    const char *s = fake_answer_header(&a->f, name);

    return s != NULL ? s : "";
}

const char *
api_body(struct api_fixture *a, size_t *ret_n)
{
    return fake_answer_body(&a->f, ret_n);
}

void
api_finish_expect_at(struct api_fixture *a, int status, const char *code, const char *file,
                     int line)
{
    int got = api_finish(a);
    size_t n;

    if (got != status) {
        print_error("%s:%d: status %d, not %d: %.400s\n", file, line, got, status, api_body(a, &n));
        _fail(file, line);
    }
    if (strcmp(api_header(a, "X-Request-Id"), a->f.x.req.request_id) != 0 ||
        strcmp(api_header(a, "X-Content-Type-Options"), "nosniff") != 0 ||
        api_header(a, "Cache-Control")[0] == '\0') {
        print_error("%s:%d: a header of every answer is missing\n", file, line);
        _fail(file, line);
    }
    if (code == NULL)
        return;
    if (strcmp(api_header(a, "Content-Type"), "application/problem+json") != 0 ||
        strcmp(api_text(a, "code"), code) != 0) {
        print_error("%s:%d: code %s, not %s: %s\n", file, line, api_text(a, "code"), code,
                    api_text(a, "detail"));
        _fail(file, line);
    }
}

void
api_expect_at(struct api_fixture *a, const char *method, const char *target, const char *json,
              int status, const char *code, const char *file, int line)
{
    api_begin(a, method, target);
    if (json != NULL)
        fake_json(&a->f, json);
    api_finish_expect_at(a, status, code, file, line);
}
