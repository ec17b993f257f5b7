/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/utf8.h"
#include "sandbox/daytona/api.h"
#include "sandbox/daytona/toolbox.h"

/*
 * Files of a box, in its workspace, by its toolbox.  Bytes go straight between a descriptor and the
 * socket; sizes are looked at before and after.  An upload goes to a name of ours beside its target
 * and is moved over it, so that one that was cut is never taken for the file.
 */
#define PATH_BYTES 8192
#define BOUNDARY_BYTES 16

int
files_run(struct sandbox *sb, const struct runtime_ref *rt, struct deadline d, files_fn fn,
          void *ctx, struct err *err)
{
    struct files_job j = {(struct daytona *)sb, rt->handle, d};
    struct err why = ERR_INIT;
    int rc = fn(&j, ctx, &why);

    if (rc < 0 && why.slug != NULL && strcmp(why.slug, TOOLBOX_ASLEEP) == 0) {
        why = (struct err)ERR_INIT;
        rc = daytona_wake(j.dt, j.id, deadline_min(d, deadline_in(j.dt->o.start_timeout_ms)), &why);
        if (rc == 0)
            rc = fn(&j, ctx, &why);
        if (rc < 0 && why.slug != NULL && strcmp(why.slug, TOOLBOX_ASLEEP) == 0)
            why.slug = "runtime_gone"; /* the session gets it anew, by its key */
    }
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

/* The path of a call: its query's path is below the workspace. */
int
files_path(struct buf *out, const char *call, const char *path, size_t n, struct err *err)
{
    _cleanup_free_ char *text = xstrndup(path, n);

    if (!utf8_valid(path, n))
        return err_slug(err, ERR_INVALID, "bad_path",
                        "a path must be UTF-8 where files are in a Daytona sandbox");
    (void)buf_puts(out, call);
    (void)rest_escape(out, DAYTONA_WORKSPACE);
    if (n > 0) {
        (void)buf_puts(out, "%2F");
        (void)rest_escape(out, text);
    }
    return buf_check(out, "the URL of a file", err);
}

/* After a call on a path failed, with a status (0: no answer) and *err: where the box is well, the
 * status is about the file.  A toolbox says 400 of a path that cannot be followed. Always -1. */
static int
files_refused(struct files_job *j, int status, struct err *err)
{
    if (status == 400 || status == 403)
        (void)err_set(err, ERR_NOT_FOUND, "the sandbox answered %d", status);
    (void)toolbox_look_into(j->dt, j->id, j->d, err);
    if (err->code != ERR_NOT_FOUND)
        return -1;
    return status == 403 ? err_slug(err, ERR_DENIED, "file_unreadable",
                                    "the sandbox's user may not read this file")
                         : err_slug(err, ERR_NOT_FOUND, "file_not_found", "there is no such file");
}

/* A call on a path whose answer must be a 2xx. */
int
files_call(struct files_job *j, const char *method, const struct buf *path, const char *what,
           struct rest_reply *ret, struct err *err)
{
    int status = 0;

    if (toolbox_ask(j->dt, j->id, method, buf_str(path), NULL, what, j->d, ret, err) == 0) {
        if (api_judge(ret, "the sandbox", what, err) == 0)
            return 0;
        status = (int)ret->status;
    }
    return files_refused(j, status, err);
}

/* ---- what a file is ---- */

/* "2026-01-02T03:04:05.678901Z", or with an offset; 0 if it is none. */
static int64_t
time_of(json_val v)
{
    const char *s = json_cstring(v), *p;
    struct tm tm = {0};
    int64_t ns = 0, scale = 100000000;
    int hours, minutes;

    p = s != NULL ? strptime(s, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (p == NULL)
        return 0;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
            ns += (*p - '0') * scale;
    ns += (int64_t)timegm(&tm) * 1000000000;
    if ((*p == '+' || *p == '-') && sscanf(p + 1, "%2d:%2d", &hours, &minutes) == 2)
        ns -= (*p == '+' ? 1 : -1) * (hours * INT64_C(3600) + minutes * INT64_C(60)) * 1000000000;
    return ns;
}

bool
files_read_info(json_val v, struct file_info *ret)
{
    const char *mode = json_cstring(json_member(v, "mode"));
    json_val changed = json_member(v, "modifiedAt");

    *ret = (struct file_info){.type = FILE_REGULAR};
    if (json_i64(json_member(v, "size"), 0, INT64_MAX, &ret->size) != 1)
        return false;
    if (json_bool(json_member(v, "isDir"), false))
        ret->type = FILE_DIRECTORY;
    else if (mode != NULL && (mode[0] == 'l' || mode[0] == 'L'))
        ret->type = FILE_SYMLINK;
    else if (mode != NULL && strchr("pscbDS", mode[0]) != NULL && mode[0] != '\0')
        ret->type = FILE_OTHER;
    ret->mtime_ns = time_of(changed != NULL ? changed : json_member(v, "modTime"));
    return true;
}

int
files_nonsense(struct err *err)
{
    return err_slug(err, ERR_UNAVAILABLE, "transfer_failed",
                    "the sandbox's answer about its files makes no sense");
}

int
files_look(struct files_job *j, const char *path, size_t n, struct file_info *ret, struct err *err)
{
    _cleanup_buf_ struct buf url = BUF_INIT(PATH_BYTES);
    struct rest_reply r;
    struct json_doc *doc = NULL;
    bool ok;

    if (files_path(&url, "/files/info?path=", path, n, err) < 0 ||
        files_call(j, "GET", &url, "describe a file", &r, err) < 0 ||
        api_parse(&r, "describe a file", &doc, err) < 0)
        return -1;
    ok = files_read_info(json_root(doc), ret);
    json_free(doc);
    return ok ? 0 : files_nonsense(err);
}

struct look_ctx {
    const char *path;
    size_t n;
    struct file_info *ret;
};

static int
job_look(struct files_job *j, void *ctx, struct err *err)
{
    const struct look_ctx *c = ctx;

    return files_look(j, c->path, c->n, c->ret, err);
}

int
daytona_stat(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
             struct file_info *ret, struct deadline d, struct err *err)
{
    struct look_ctx c = {path, n, ret};

    return files_run(sb, rt, d, job_look, &c, err);
}

/* ---- out ---- */

struct get_ctx {
    const char *path;
    size_t n;
    int64_t max_bytes;
    int fd;
    off_t start; /* of it; a second try begins there again */
    struct file_info *ret;
};

/* A call that moves bytes; path is the whole one. */
static int
move_bytes(struct files_job *j, const char *method, const struct buf *path, const char *what,
           struct rest_file *f, struct rest_reply *r, struct err *err)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(PATH_BYTES);
    struct err why = ERR_INIT;

    (void)buf_printf(&whole, "/%s", j->id);
    (void)buf_append(&whole, path->data, path->len);
    if (toolbox_aim(j->dt, j->id, j->d, err) < 0 || buf_check(&whole, "the URL of a file", err) < 0)
        return -1;
    if (rest_call_file(j->dt->toolbox, method, buf_str(&whole), f, j->d, r, &why) == 0)
        return 0;
    if (why.code == ERR_LIMIT)
        return err_slug(err, ERR_LIMIT, "file_too_large",
                        "the file has more than %lld bytes, the maximum", (long long)f->max_bytes);
    (void)api_unreached("the sandbox", what, &why, err);
    return toolbox_look_into(j->dt, j->id, deadline_in(j->dt->o.http_timeout_ms), err);
}

static int
job_get(struct files_job *j, void *ctx, struct err *err)
{
    const struct get_ctx *c = ctx;
    _cleanup_buf_ struct buf url = BUF_INIT(PATH_BYTES);
    struct rest_file f = {.fd = -1, .out_fd = c->fd, .max_bytes = c->max_bytes};
    struct rest_reply r;

    if (lseek(c->fd, c->start, SEEK_SET) < 0 || ftruncate(c->fd, c->start) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "the file could not be staged");
    if (files_look(j, c->path, c->n, c->ret, err) < 0)
        return -1;
    if (c->ret->type == FILE_DIRECTORY || c->ret->type == FILE_OTHER)
        return err_slug(err, ERR_INVALID, "not_a_file", "this is no regular file");
    if (c->ret->size > c->max_bytes)
        return err_slug(err, ERR_LIMIT, "file_too_large",
                        "the file has %lld bytes, the maximum is %lld", (long long)c->ret->size,
                        (long long)c->max_bytes);
    if (files_path(&url, "/files/download?path=", c->path, c->n, err) < 0 ||
        move_bytes(j, "GET", &url, "send a file", &f, &r, err) < 0)
        return -1;
    if (api_judge(&r, "the sandbox", "send a file", err) < 0)
        return files_refused(j, (int)r.status, err);
    if (r.status != 200 || f.got != c->ret->size)
        return err_slug(err, ERR_UNAVAILABLE, "transfer_failed",
                        "%lld bytes came of a file that had %lld; did it change meanwhile?",
                        (long long)f.got, (long long)c->ret->size);
    return 0;
}

int
daytona_get(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
            int64_t max_bytes, int fd, struct file_info *ret, struct deadline d, struct err *err)
{
    struct get_ctx c = {path, n, max_bytes, fd, lseek(fd, 0, SEEK_CUR), ret};

    return files_run(sb, rt, d, job_get, &c, err);
}

/* ---- in ---- */

struct put_ctx {
    const struct file_put *p;
    bool *created;
    struct file_info *ret;
};

enum upload_way { UPLOAD_BULK, UPLOAD_V2, UPLOAD_OLD, UPLOAD_WAYS };

/* The request that carries the bytes to a path: its URL, its body's head and tail, its type. */
static int
upload_request(enum upload_way way, const char *path, size_t n, const char *boundary,
               struct buf *url, struct buf *head, struct buf *tail, struct buf *type,
               struct err *err)
{
    (void)buf_printf(type, "multipart/form-data; boundary=%s", boundary);
    switch (way) {
    case UPLOAD_BULK:
        (void)buf_puts(url, "/files/bulk-upload");
        (void)buf_printf(head,
                         "--%s\r\nContent-Disposition: form-data; "
                         "name=\"files[0].path\"\r\n\r\n" DAYTONA_WORKSPACE "/",
                         boundary);
        (void)buf_append(head, path, n);
        (void)buf_printf(head,
                         "\r\n--%s\r\nContent-Disposition: form-data; name=\"files[0].file\"; "
                         "filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                         boundary);
        break;
    case UPLOAD_V2:
        buf_clear(type);
        (void)buf_puts(type, "application/octet-stream");
        return files_path(url, "/files/upload-v2?path=", path, n, err);
    default:
        if (files_path(url, "/files/upload?path=", path, n, err) < 0)
            return -1;
        (void)buf_printf(head,
                         "--%s\r\nContent-Disposition: form-data; name=\"file\"; "
                         "filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                         boundary);
    }
    (void)buf_printf(tail, "\r\n--%s--\r\n", boundary);
    return buf_check(head, "an upload's head", err);
}

/* 1 done, 0 the toolbox knows no such call, -1. */
static int
upload(struct files_job *j, enum upload_way way, const char *path, const struct file_put *p,
       struct err *err)
{
    _cleanup_buf_ struct buf url = BUF_INIT(PATH_BYTES), head = BUF_INIT(PATH_BYTES),
                             tail = BUF_INIT(200), type = BUF_INIT(120);
    char boundary[2 * BOUNDARY_BYTES + 1];
    struct rest_file f = {.fd = p->fd, .size = p->size, .out_fd = -1};
    struct rest_reply r;

    id_random_hex(boundary, BOUNDARY_BYTES);
    if (upload_request(way, path, strlen(path), boundary, &url, &head, &tail, &type, err) < 0)
        return -1;
    f.content_type = buf_str(&type);
    f.head = buf_str(&head);
    f.tail = buf_str(&tail);
    if (move_bytes(j, "POST", &url, "take a file", &f, &r, err) < 0)
        return -1;
    if (api_judge(&r, "the sandbox", "take a file", err) == 0)
        return 1;
    (void)toolbox_look_into(j->dt, j->id, j->d, err);
    return err->code == ERR_NOT_FOUND ? 0 : -1;
}

/* By the way that worked last; older and newer servers have different ones. */
static int
upload_some_way(struct files_job *j, const char *path, const struct file_put *p, struct err *err)
{
    for (int i = 0; i < UPLOAD_WAYS; i++) {
        int way = (j->dt->upload_way + i) % UPLOAD_WAYS;
        int rc = upload(j, (enum upload_way)way, path, p, err);

        if (rc != 0) {
            if (rc > 0)
                j->dt->upload_way = way;
            return rc < 0 ? -1 : 0;
        }
    }
    return err_slug(err, ERR_UNAVAILABLE, "transfer_failed",
                    "the sandbox knows no call to take a file");
}

/* What is at the target must be what the caller expects. *ret_there: something is. */
static int
check_target(struct files_job *j, const struct file_put *p, bool *ret_there, struct err *err)
{
    struct file_info now;

    *ret_there = false;
    if (files_look(j, p->path, p->path_len, &now, err) < 0) {
        if (err->code != ERR_NOT_FOUND)
            return -1;
        *err = (struct err)ERR_INIT;
        if (p->expected != NULL)
            return err_slug(err, ERR_CONFLICT, "precondition_failed", "the file is gone");
        return 0;
    }
    *ret_there = true;
    if (now.type == FILE_DIRECTORY)
        return err_slug(err, ERR_CONFLICT, "not_a_folder", "the target is a folder");
    if (p->create)
        return err_slug(err, ERR_CONFLICT, "precondition_failed", "the file is there already");
    if (p->expected != NULL &&
        (now.size != p->expected->size || now.mtime_ns != p->expected->mtime_ns))
        return err_slug(err, ERR_CONFLICT, "precondition_failed", "the file has changed");
    return 0;
}

/* The folder a file goes to. What is in the way of it is no folder. */
static int
make_parents(struct files_job *j, const char *path, size_t n, struct err *err)
{
    char whole[sizeof DAYTONA_WORKSPACE + 1100];
    int len;

    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0)
        return 0;
    len = snprintf(whole, sizeof whole, DAYTONA_WORKSPACE "/%.*s", (int)n - 1, path);
    if (toolbox_folder(j->dt, j->id, whole, (size_t)len, j->d, err) == 0)
        return 0;
    if (err->slug != NULL && strcmp(err->slug, "gateway_error") == 0)
        return err_slug(err, ERR_CONFLICT, "not_a_folder",
                        "a component of the path is there and is no folder");
    return -1;
}

/* From its own name to the target's. */
static int
put_in_place(struct files_job *j, const char *from, const struct file_put *p, struct err *err)
{
    _cleanup_buf_ struct buf url = BUF_INIT(2 * PATH_BYTES);
    struct rest_reply r;

    if (files_path(&url, "/files/move?source=", from, strlen(from), err) < 0 ||
        files_path(&url, "&destination=", p->path, p->path_len, err) < 0)
        return -1;
    return files_call(j, "POST", &url, "move a file", &r, err);
}

static int
job_put(struct files_job *j, void *ctx, struct err *err)
{
    const struct put_ctx *c = ctx;
    const struct file_put *p = c->p;
    char own[64] = FILES_OWN_PREFIX;
    bool there;

    id_random_hex(own + strlen(FILES_OWN_PREFIX), 16);
    if (check_target(j, p, &there, err) < 0 || make_parents(j, p->path, p->path_len, err) < 0 ||
        upload_some_way(j, own, p, err) < 0)
        return -1;
    if (files_look(j, own, strlen(own), c->ret, err) < 0)
        return -1;
    if (c->ret->size != p->size) {
        (void)err_slug(err, ERR_UNAVAILABLE, "transfer_failed",
                       "%lld bytes arrived of %lld; nothing was taken for the file",
                       (long long)c->ret->size, (long long)p->size);
    } else if (put_in_place(j, own, p, err) == 0) {
        *c->created = !there;
        return files_look(j, p->path, p->path_len, c->ret, err);
    }
    {
        struct err ignored = ERR_INIT;

        (void)files_remove_call(j, own, strlen(own), false, &ignored);
    }
    return -1;
}

int
daytona_put(struct sandbox *sb, const struct runtime_ref *rt, const struct file_put *p,
            bool *ret_created, struct file_info *ret, struct deadline d, struct err *err)
{
    struct put_ctx c = {p, ret_created, ret};

    return files_run(sb, rt, d, job_put, &c, err);
}
