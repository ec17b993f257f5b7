/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/render.h"
#include "api/send_file.h"
#include "base/id.h"
#include "base/log.h"
#include "base/num.h"
#include "http/disposition.h"
#include "json/writer.h"

#define LIST_BYTES_MAX (16 * 1024 * 1024)

static int
not_found(struct err *err)
{
    return err_slug(err, ERR_NOT_FOUND, "artifact_not_found", "there is no such artifact");
}

/* An artifact's id in the path. Borrowed from the request. */
static int
artifact_id(const struct api_call *c, const char **ret, struct err *err)
{
    const struct http_param *p = &c->x->req.params[0];

    if (!id_in_alphabet(p->value, p->len, 1, ID_UUID_SIZE - 1))
        return not_found(err);
    *ret = p->value;
    return 0;
}

/* The session's name that the list is of: *ret NULL if none is asked for, else buf. */
static int
read_scope(struct api_call *c, char buf[SESSION_NAME_MAX + 1], const char **ret, struct err *err)
{
    *ret = NULL;
    for (int i = BIND_SESSION; i < BINDINGS; i++) {
        enum session_binding how = (enum session_binding)i;
        size_t n;
        const char *s = http_query(c->x, session_binding_member(how), &n);

        if (s == NULL)
            continue;
        if (*ret != NULL)
            return err_slug(err, ERR_INVALID, "bad_value",
                            "of the query parameters session_id, conversation_id and "
                            "workflow_run_id only one may be given");
        /* Here a session_id may be the name of any session, as answers give it. */
        if (how == BIND_SESSION && id_in_alphabet(s, n, 1, SESSION_NAME_MAX))
            memcpy(buf, s, n + 1);
        else if (session_name_of(how, s, n, buf, err) < 0)
            return -1;
        *ret = buf;
    }
    return 0;
}

/* A cursor that is one number. */
static int
read_cursor(struct api_call *c, int64_t *ret, struct err *err)
{
    char cursor[CURSOR_MAX + 1];
    const char *rest;
    size_t n;

    *ret = 0;
    if (api_query_cursor(c, cursor, &n, err) < 0)
        return -1;
    return n > 0 ? cursor_split(cursor, n, ret, &rest, err) : 0;
}

static void
send_list(struct api_call *c, const char *name, const struct artifact *a, size_t n,
          const int64_t *next)
{
    _cleanup_buf_ struct buf body = BUF_INIT(LIST_BYTES_MAX);
    _cleanup_buf_ struct buf cursor = BUF_INIT(CURSOR_MAX);
    struct json_writer w;

    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_array(&w, name);
    for (size_t i = 0; i < n; i++)
        render_artifact(&w, NULL, &a[i]);
    jw_end_array(&w);
    if (next != NULL)
        (void)buf_printf(&cursor, "%" PRId64 ".", *next);
    cursor_member(&w, cursor.data, cursor.len);
    jw_end_object(&w);
    api_send_json(c, 200, &body);
}

void
handle_artifact_list(struct api_call *c)
{
    char name[SESSION_NAME_MAX + 1];
    struct artifact *list = NULL;
    struct err err = ERR_INIT;
    const char *scope;
    bool more = false;
    int64_t after;
    size_t n = 0;
    int limit;

    if (read_scope(c, name, &scope, &err) < 0 || api_query_limit(c, &limit, &err) < 0 ||
        read_cursor(c, &after, &err) < 0 ||
        manager_artifacts(c->api->o.manager, &c->caller, scope, after, limit, &list, &n, &more,
                          &err) < 0)
        api_problem(c, &err);
    else
        send_list(c, "artifacts", list, n, more && n > 0 ? &list[n - 1].aid : NULL);
    free(list);
}

void
handle_artifact_get(struct api_call *c)
{
    _cleanup_buf_ struct buf body = BUF_INIT(LIST_BYTES_MAX);
    struct json_writer w;
    struct err err = ERR_INIT;
    struct artifact a;
    const char *id = NULL;

    if (artifact_id(c, &id, &err) < 0 ||
        manager_artifact_get(c->api->o.manager, &c->caller, id, 0, &a, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    jw_init(&w, &body);
    render_artifact(&w, NULL, &a);
    api_send_json(c, 200, &body);
}

void
handle_artifact_versions(struct api_call *c)
{
    struct artifact *list = NULL;
    struct err err = ERR_INIT;
    bool more = false;
    int64_t after;
    size_t n = 0;
    const char *id = NULL;
    int limit;

    if (artifact_id(c, &id, &err) < 0 || api_query_limit(c, &limit, &err) < 0 ||
        read_cursor(c, &after, &err) < 0 ||
        manager_artifact_versions(c->api->o.manager, &c->caller, id, after, limit, &list, &n, &more,
                                  &err) < 0)
        api_problem(c, &err);
    else
        send_list(c, "versions", list, n, more && n > 0 ? &list[n - 1].version : NULL);
    free(list);
}

static int
sha256_of_hex(const char *hex, uint8_t ret[SHA256_SIZE])
{
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        int high = hex_value(hex[2 * i]), low = high < 0 ? -1 : hex_value(hex[2 * i + 1]);

        if (low < 0)
            return 0;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return 1;
}

/* The version that the path names, opened. */
static int
open_version(struct api_call *c, struct artifact *a, struct out_file *f, struct err *err)
{
    const struct http_param *number = &c->x->req.params[1];
    const char *id = NULL, *slash;
    int64_t version;

    if (artifact_id(c, &id, err) < 0)
        return -1;
    if (!num_i64(number->value, number->len, 1, INT64_MAX, &version))
        return not_found(err);
    if (manager_artifact_get(c->api->o.manager, &c->caller, id, version, a, err) < 0 ||
        manager_artifact_open(c->api->o.manager, a, &f->fd, err) < 0)
        return -1;
    f->info = (struct file_info){
        .type = FILE_REGULAR, .size = a->size, .mtime_ns = a->created_at * 1000000};
    (void)snprintf(f->etag, sizeof(f->etag), "\"%s\"", a->sha256);
    slash = strrchr(a->path, '/');
    f->name = slash != NULL ? slash + 1 : a->path;
    f->name_len = strlen(f->name);
    f->type = http_media_type(f->name, f->name_len);
    f->has_digest = sha256_of_hex(a->sha256, f->digest);
    return 0;
}

void
handle_artifact_content(struct api_call *c)
{
    struct out_file f = {.fd = -1};
    struct err err = ERR_INIT;
    struct artifact a;

    if (open_version(c, &a, &f, &err) < 0 || send_out_file(c, &f, &err) < 0)
        api_problem(c, &err);
    if (f.fd >= 0)
        (void)close(f.fd);
}

void
handle_artifact_delete(struct api_call *c)
{
    struct err err = ERR_INIT;
    const char *id = NULL;

    if (artifact_id(c, &id, &err) < 0 ||
        manager_artifact_remove(c->api->o.manager, &c->caller, id, &err) < 0)
        api_problem(c, &err);
    else
        api_send_empty(c, 204);
}
