/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/toolbox.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "json/writer.h"
#include "sandbox/daytona/api.h"

#define PATH_BYTES 8192
#define CONTEXTS_MAX 64 /* of a box, that are ended together */
#define COMMAND_TIMEOUT_S 5

int
toolbox_aim(struct daytona *dt, const char *id, struct deadline d, struct err *err)
{
    char url[BOX_URL_MAX + 1];

    d = deadline_min(d, deadline_in(dt->o.http_timeout_ms));
    if (!id_in_alphabet(id, strlen(id), 1, HANDLE_MAX))
        return err_set(err, ERR_INVALID, "not a sandbox's id");
    if (api_toolbox_url(dt, id, url, d, err) < 0)
        return -1;
    return rest_set_base(dt->toolbox, url, err);
}

static int
path_of(struct buf *out, const char *id, const char *path, struct err *err)
{
    (void)buf_printf(out, "/%s%s", id, path);
    return buf_check(out, "the URL of a toolbox call", err);
}

int
toolbox_ask(struct daytona *dt, const char *id, const char *method, const char *path,
            const char *body, const char *what, struct deadline d, struct rest_reply *ret,
            struct err *err)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(PATH_BYTES);
    struct err why = ERR_INIT;

    d = deadline_min(d, deadline_in(dt->o.http_timeout_ms));
    if (toolbox_aim(dt, id, d, err) < 0 || path_of(&whole, id, path, err) < 0)
        return -1;
    if (rest_call(dt->toolbox, method, buf_str(&whole), body, d, ret, &why) < 0)
        return api_unreached("the sandbox", what, &why, err);
    return 0;
}

int
toolbox_begin(struct daytona *dt, const char *id, const char *method, const char *path,
              const char *body, struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(PATH_BYTES);

    if (toolbox_aim(dt, id, d, err) < 0 || path_of(&whole, id, path, err) < 0)
        return -1;
    return rest_begin(dt->toolbox, method, buf_str(&whole), body, d, err);
}

int
toolbox_aside(struct daytona *dt, const char *id, const char *path, const char *body,
              struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(PATH_BYTES);
    char url[BOX_URL_MAX + 1];
    struct rest_reply r;

    if (api_toolbox_url(dt, id, url, d, err) < 0 || rest_set_base(dt->aside, url, err) < 0 ||
        path_of(&whole, id, path, err) < 0)
        return -1;
    return rest_call(dt->aside, "POST", buf_str(&whole), body, d, &r, err);
}

int
toolbox_look_into(struct daytona *dt, const char *id, struct deadline d, struct err *err)
{
    struct err why = ERR_INIT;
    struct box b;

    if (err->code == ERR_INTERNAL || err->code == ERR_NOMEM || err->code == ERR_INVALID)
        return -1;
    if (api_get(dt, id, &b, d, &why) < 0) {
        if (why.code == ERR_NOT_FOUND)
            return err_slug(err, ERR_CONFLICT, "runtime_gone", "the sandbox is gone");
        *err = why;
        return -1;
    }
    switch (b.state) {
    case BOX_STARTED:
        return -1;
    case BOX_STOPPED:
    case BOX_MOVING:
        return err_slug(err, ERR_CONFLICT, TOOLBOX_ASLEEP, "the sandbox is %s", b.state_name);
    default:
        return err_slug(err, ERR_CONFLICT, "runtime_gone", "the sandbox is %s", b.state_name);
    }
}

/* A call whose answer must be a 2xx. */
static int
call(struct daytona *dt, const char *id, const char *method, const char *path, const char *body,
     const char *what, struct deadline d, struct rest_reply *ret, struct err *err)
{
    struct err why = ERR_INIT;

    if (toolbox_ask(dt, id, method, path, body, what, d, ret, &why) == 0 &&
        api_judge(ret, "the sandbox", what, &why) == 0)
        return 0;
    (void)toolbox_look_into(dt, id, d, &why);
    if (err != NULL)
        *err = why;
    return -1;
}

int
toolbox_folder(struct daytona *dt, const char *id, const char *path, size_t n, struct deadline d,
               struct err *err)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(PATH_BYTES);
    _cleanup_free_ char *text = xstrndup(path, n);
    struct rest_reply r;

    (void)buf_puts(&whole, "/files/folder?path=");
    (void)rest_escape(&whole, text);
    (void)buf_puts(&whole, "&mode=755");
    if (buf_check(&whole, "the URL of a folder", err) < 0)
        return -1;
    return call(dt, id, "POST", buf_str(&whole), NULL, "make a folder", d, &r, err);
}

int
toolbox_context_new(struct daytona *dt, const char *id, char *ret, size_t size, struct deadline d,
                    struct err *err)
{
    static const char body[] = "{\"cwd\":\"" DAYTONA_WORKSPACE "\",\"language\":\"python\"}";
    struct rest_reply r;
    struct json_doc *doc = NULL;
    const char *name;
    bool ok;

    if (call(dt, id, "POST", TOOLBOX_CONTEXTS, body, "make an interpreter", d, &r, err) < 0 ||
        api_parse(&r, "make an interpreter", &doc, err) < 0)
        return -1;
    name = json_cstring(json_member(json_root(doc), "id"));
    ok = name != NULL && id_in_alphabet(name, strlen(name), 1, size - 1);
    if (ok)
        (void)snprintf(ret, size, "%s", name);
    json_free(doc);
    return ok ? 0
              : err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                         "the sandbox's interpreter has no usable id");
}

/* The list of contexts, which some servers wrap in an object, and which is null where there are
 * none.  false: that is no such list, and says nothing of what runs there. */
static bool
contexts_of(json_val root, json_val *ret)
{
    *ret = json_type(root) == JSON_ARRAY ? root : json_member(root, "contexts");
    return json_type(*ret) == JSON_ARRAY || json_type(*ret) == JSON_NULL;
}

static int
no_list(const struct rest_reply *r, struct err *err)
{
    return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                    "asked to list its interpreters, the sandbox answered %d with something else",
                    r->status);
}

int
toolbox_context_listed(const struct rest_reply *r, const char *context)
{
    struct json_doc *doc = NULL;
    json_val all;
    bool known, lives = false;

    if (r->status == 400 || r->status == 404) /* no such box, or one that is stopped */
        return 0;
    if (r->status != 200 || api_parse(r, "list its interpreters", &doc, NULL) < 0)
        return -1;
    known = contexts_of(json_root(doc), &all);
    for (size_t i = 0; known && i < json_length(all); i++) {
        json_val c = json_item(all, i);
        const char *name = json_cstring(json_member(c, "id"));

        if (name != NULL && strcmp(name, context) == 0)
            lives = json_bool(json_member(c, "active"), true);
    }
    json_free(doc);
    return known ? lives : -1;
}

int
toolbox_context_lives(struct daytona *dt, const char *id, const char *context, struct deadline d,
                      struct err *err)
{
    struct err why = ERR_INIT;
    struct rest_reply r;

    int listed;

    if (call(dt, id, "GET", TOOLBOX_CONTEXTS, NULL, "list its interpreters", d, &r, &why) == 0) {
        listed = toolbox_context_listed(&r, context);
        return listed >= 0 ? listed : no_list(&r, err);
    }
    if (why.code == ERR_NOT_FOUND) /* it has no interpreter any more */
        return 0;
    if (err != NULL)
        *err = why;
    return -1;
}

int
toolbox_context_end(struct daytona *dt, const char *id, const char *context, struct deadline d,
                    struct err *err)
{
    char path[256];
    struct err why = ERR_INIT;
    struct rest_reply r;

    (void)snprintf(path, sizeof path, TOOLBOX_CONTEXTS "/%.100s", context);
    if (call(dt, id, "DELETE", path, NULL, "end an interpreter", d, &r, &why) == 0 ||
        why.code == ERR_NOT_FOUND || why.code == ERR_CONFLICT) /* nothing runs in a stopped box */
        return 0;
    if (err != NULL)
        *err = why;
    return -1;
}

int
toolbox_contexts_end(struct daytona *dt, const char *id, struct deadline d, struct err *err)
{
    char names[CONTEXTS_MAX][80];
    struct err why = ERR_INIT;
    struct rest_reply r;
    struct json_doc *doc = NULL;
    json_val all;
    bool known;
    int n = 0;

    if (call(dt, id, "GET", TOOLBOX_CONTEXTS, NULL, "list its interpreters", d, &r, &why) < 0) {
        if (why.code == ERR_NOT_FOUND)
            return 0;
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (api_parse(&r, "list its interpreters", &doc, err) < 0)
        return -1;
    known = contexts_of(json_root(doc), &all);
    for (size_t i = 0; known && i < json_length(all) && n < CONTEXTS_MAX; i++) {
        const char *name = json_cstring(json_member(json_item(all, i), "id"));

        if (name != NULL && id_in_alphabet(name, strlen(name), 1, sizeof names[0] - 1))
            (void)snprintf(names[n++], sizeof names[0], "%s", name);
    }
    json_free(doc);
    if (!known)
        return no_list(&r, err);
    for (int i = 0; i < n; i++)
        if (toolbox_context_end(dt, id, names[i], d, err) < 0)
            return -1;
    return 0;
}

void
toolbox_command(struct buf *out, const char *command)
{
    struct json_writer w;

    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_string(&w, "command", command);
    jw_i64(&w, "timeout", COMMAND_TIMEOUT_S);
    jw_end_object(&w);
}
