/* SPDX-License-Identifier: MIT */
#include "api/files.h"

#include <string.h>

#include "api/render.h"
#include "base/log.h"
#include "http/conditional.h"
#include "json/writer.h"

#define LIST_BYTES_MAX (16 * 1024 * 1024)
#define LIST_MS 20000
#define PATTERN_MAX 1024

int
file_call_begin(struct api_call *c, struct file_call *ret, struct err *err)
{
    const char *name;

    memset(ret, 0, sizeof(*ret));
    ret->path = c->x->req.params[1].value;
    ret->n = c->x->req.params[1].len;
    if (api_session_name(c, &name, err) < 0 || workspace_path_check(ret->path, ret->n, err) < 0)
        return -1;
    log_set_session(name);
    return manager_files_begin(c->api->o.manager, &c->caller, name, &ret->lease, err);
}

void
file_call_end(struct api_call *c, struct file_call *f, bool worked)
{
    manager_files_end(c->api->o.manager, &f->lease, worked);
}

int
file_precondition(struct api_call *c, bool exists, const struct file_info *info, const char *etag,
                  struct err *err)
{
    int rc = http_precondition(c->x, exists, etag, exists ? info->mtime_ns / 1000000 : 0);

    if (rc == 412)
        return err_slug(err, ERR_CONFLICT, "precondition_failed",
                        "the file is not in the state the request asks for");
    if (rc == 400)
        return err_slug(err, ERR_INVALID, "bad_header",
                        "If-Match or If-None-Match is no list of entity tags");
    return rc;
}

/* What a list is asked for. */
struct list_query {
    struct buf folder;
    const char *glob;
    bool recursive;
    int limit;
    char after[CURSOR_MAX + 1];
    size_t after_len;
};

static int
read_folder(struct api_call *c, struct buf *folder, struct err *err)
{
    size_t n, n64;
    const char *path = http_query(c->x, "path", &n);
    const char *path64 = http_query(c->x, "path_base64", &n64);

    if (path != NULL && path64 != NULL)
        return err_slug(err, ERR_INVALID, "bad_value",
                        "of the query parameters \"path\" and \"path_base64\" only one may be "
                        "given");
    if (path != NULL && buf_append(folder, path, n) < 0)
        return err_slug(err, ERR_INVALID, "bad_path", "the folder's path is too long");
    if (path64 != NULL && base64_decode(folder, path64, n64, false) != 1)
        return err_slug(err, ERR_INVALID, "bad_value",
                        "the query parameter \"path_base64\" must be base64");
    return folder->len > 0 ? workspace_path_check(folder->data, folder->len, err) : 0;
}

static int
read_list_query(struct api_call *c, struct list_query *q, struct err *err)
{
    size_t n;

    buf_init(&q->folder, 2048);
    q->glob = http_query(c->x, "glob", &n);
    if (q->glob != NULL && (n == 0 || n > PATTERN_MAX))
        return err_slug(err, ERR_INVALID, "bad_value",
                        "the query parameter \"glob\" must be a pattern of 1 to %d bytes",
                        PATTERN_MAX);
    if (api_query_bool(c, "recursive", &q->recursive, err) < 0 ||
        api_query_limit(c, &q->limit, err) < 0 ||
        api_query_cursor(c, q->after, &q->after_len, err) < 0)
        return -1;
    return read_folder(c, &q->folder, err);
}

static void
send_list(struct api_call *c, const struct file_list *l)
{
    _cleanup_buf_ struct buf body = BUF_INIT(LIST_BYTES_MAX);
    int64_t now = clock_wall_ms();
    struct json_writer w;

    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_array(&w, "files");
    for (size_t i = 0; i < l->n; i++)
        render_file(&w, NULL, l->entries[i].path, l->entries[i].path_len, &l->entries[i].info, now);
    jw_end_array(&w);
    if (l->more && l->n > 0)
        cursor_member(&w, l->entries[l->n - 1].path, l->entries[l->n - 1].path_len);
    else
        cursor_member(&w, NULL, 0);
    jw_end_object(&w);
    api_send_json(c, 200, &body);
}

static int
list_files(struct api_call *c, struct file_lease *lease, const struct list_query *q,
           struct file_list *ret, struct err *err)
{
    struct file_query query = {.folder = buf_str(&q->folder),
                               .folder_len = q->folder.len,
                               .glob = q->glob,
                               .recursive = q->recursive,
                               .after = q->after,
                               .after_len = q->after_len,
                               .max_entries = (size_t)q->limit};

    return manager_file_list(c->api->o.manager, lease, &query, api_promise(c, LIST_MS), ret, err);
}

void
handle_file_list(struct api_call *c)
{
    struct list_query q = {0};
    struct file_list list = {0};
    struct file_lease lease;
    struct err err = ERR_INIT;
    const char *name;
    int rc;

    if (api_session_name(c, &name, &err) < 0 || read_list_query(c, &q, &err) < 0 ||
        manager_files_begin(c->api->o.manager, &c->caller, name, &lease, &err) < 0) {
        api_problem(c, &err);
        buf_done(&q.folder);
        return;
    }
    rc = list_files(c, &lease, &q, &list, &err);
    manager_files_end(c->api->o.manager, &lease, false);
    if (rc < 0)
        api_problem(c, &err);
    else
        send_list(c, &list);
    file_list_done(&list);
    buf_done(&q.folder);
}

static int
remove_path(struct api_call *c, struct file_call *f, bool recursive, struct err *err)
{
    struct manager *m = c->api->o.manager;
    char etag[FILE_ETAG_SIZE];
    struct file_info info;

    if (manager_file_stat(m, &f->lease, f->path, f->n, &info, err) < 0)
        return -1;
    file_etag(&info, clock_wall_ms(), etag);
    if (file_precondition(c, true, &info, etag, err) < 0)
        return -1;
    return manager_file_remove(m, &f->lease, f->path, f->n, recursive, err);
}

void
handle_file_delete(struct api_call *c)
{
    struct err err = ERR_INIT;
    struct file_call f;
    bool recursive;
    int rc;

    if (api_query_bool(c, "recursive", &recursive, &err) < 0 || file_call_begin(c, &f, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    rc = remove_path(c, &f, recursive, &err);
    file_call_end(c, &f, rc == 0);
    if (rc < 0)
        api_problem(c, &err);
    else
        api_send_empty(c, 204);
}
