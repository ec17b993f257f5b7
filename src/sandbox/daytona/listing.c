/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/files.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/daytona/api.h"

/*
 * Lists in byte order of whole paths.  A toolbox that knows depth tells all below a folder in one
 * answer; any other is asked folder by folder: each that came with nothing behind it is.
 */
#define PATH_BYTES 8192
#define WORKSPACE_PATH_MAX 1024
#define LOOKED_AT_MAX 200000
#define DEPTH "100"

struct listing {
    struct files_job *j;
    const struct file_query *q;
    struct file_list *list; /* all that fits, not yet sorted */
    size_t cap;
    size_t looked_at;
    /* folders of which nothing below was told, to be asked; heap */
    char **folders;
    size_t n_folders, cap_folders, next_folder;
};

static int
compare(const char *a, size_t an, const char *b, size_t bn)
{
    int c = memcmp(a, b, an < bn ? an : bn);

    return c != 0 ? c : (an > bn) - (an < bn);
}

static int
compare_entries(const void *a, const void *b)
{
    const struct file_entry *x = a, *y = b;

    return compare(x->path, x->path_len, y->path, y->path_len);
}

static bool
is_ours(const char *path, size_t n)
{
    for (size_t i = 0; i + strlen(FILES_OWN_PREFIX) <= n; i++)
        if ((i == 0 || path[i - 1] == '/') &&
            memcmp(path + i, FILES_OWN_PREFIX, strlen(FILES_OWN_PREFIX)) == 0)
            return true;
    return false;
}

static bool
wanted(const struct file_query *q, const char *path, size_t n)
{
    size_t skip = q->folder_len > 0 ? q->folder_len + 1 : 0;

    if (n <= skip || n > WORKSPACE_PATH_MAX || is_ours(path, n))
        return false;
    if (q->after_len > 0 && compare(path, n, q->after, q->after_len) <= 0)
        return false;
    return q->glob == NULL || glob_match(q->glob, strlen(q->glob), path + skip, n - skip);
}

static void
add(struct listing *l, const char *path, size_t n, const struct file_info *info)
{
    struct file_list *list = l->list;

    if (!wanted(l->q, path, n))
        return;
    if (list->n == l->cap) {
        size_t cap = l->cap > 0 ? 2 * l->cap : 64;
        struct file_entry *more = xcalloc(cap, sizeof *more);

        if (list->n > 0)
            memcpy(more, list->entries, list->n * sizeof *more);
        free(list->entries);
        list->entries = more;
        l->cap = cap;
    }
    list->entries[list->n++] = (struct file_entry){xstrndup(path, n), n, *info};
}

static void
ask_later(struct listing *l, const char *folder)
{
    for (size_t i = 0; i < l->n_folders; i++)
        if (strcmp(l->folders[i], folder) == 0)
            return;
    if (l->n_folders == l->cap_folders) {
        size_t cap = l->cap_folders > 0 ? 2 * l->cap_folders : 64;
        char **more = xcalloc(cap, sizeof *more);

        if (l->n_folders > 0)
            memcpy(more, l->folders, l->n_folders * sizeof *more);
        free(l->folders);
        l->folders = more;
        l->cap_folders = cap;
    }
    l->folders[l->n_folders++] = xstrdup(folder);
}

/* An entry's path below the workspace; false where it is told by its name alone, or not at all. */
static bool
told_path(json_val entry, struct buf *ret)
{
    const char *path = json_cstring(json_member(entry, "path"));
    size_t skip = strlen(DAYTONA_WORKSPACE "/");

    if (path == NULL || strncmp(path, DAYTONA_WORKSPACE "/", skip) != 0)
        return false;
    return buf_puts(ret, path + skip) == 0;
}

/* No file has such a path: ".." would lead out of the workspace, and "." round in it. */
static bool
leads_elsewhere(const char *path, size_t n)
{
    size_t from = 0;

    for (size_t i = 0; i <= n; i++) {
        if (i < n && path[i] != '/')
            continue;
        if (i == from || (i - from <= 2 && memcmp(path + from, "..", i - from) == 0))
            return true;
        from = i + 1;
    }
    return false;
}

/* An entry of a folder's answer; *last is the folder that came before it, "" if none did. */
static int
take_entry(struct listing *l, const char *folder, json_val entry, struct buf *last, struct err *err)
{
    _cleanup_buf_ struct buf path = BUF_INIT(PATH_BYTES);
    const char *name = json_cstring(json_member(entry, "name"));
    struct file_info info;
    bool deep = told_path(entry, &path);

    if (++l->looked_at > LOOKED_AT_MAX)
        return err_slug(err, ERR_LIMIT, "limit_exceeded", "there are more than %d files",
                        LOOKED_AT_MAX);
    if (!files_read_info(entry, &info) || (!deep && (name == NULL || strchr(name, '/') != NULL)))
        return files_nonsense(err);
    if (!deep && folder[0] != '\0')
        (void)buf_printf(&path, "%s/", folder);
    if (!deep)
        (void)buf_puts(&path, name);
    if (path.failed || path.len > WORKSPACE_PATH_MAX || leads_elsewhere(buf_str(&path), path.len))
        return 0;
    add(l, buf_str(&path), path.len, &info);
    if (last->len > 0 && !(path.len > last->len && path.data[last->len] == '/' &&
                           memcmp(path.data, last->data, last->len) == 0))
        ask_later(l, buf_str(last));
    buf_clear(last);
    if (l->q->recursive && info.type == FILE_DIRECTORY)
        (void)buf_append(last, path.data, path.len);
    return 0;
}

static int
list_folder(struct listing *l, const char *folder, struct err *err)
{
    _cleanup_buf_ struct buf url = BUF_INIT(PATH_BYTES), last = BUF_INIT(PATH_BYTES);
    struct rest_reply r;
    struct json_doc *doc = NULL;
    json_val all;
    int rc = 0;

    if (files_path(&url, "/files?path=", folder, strlen(folder), err) < 0)
        return -1;
    (void)buf_puts(&url, l->q->recursive ? "&depth=" DEPTH : "&depth=1");
    if (files_call(l->j, "GET", &url, "list files", &r, err) < 0 ||
        api_parse(&r, "list files", &doc, err) < 0)
        return -1;
    all = json_root(doc);
    if (json_type(all) != JSON_ARRAY && json_type(all) != JSON_NULL)
        rc = files_nonsense(err);
    for (size_t i = 0; rc == 0 && json_type(all) == JSON_ARRAY && i < json_length(all); i++)
        rc = take_entry(l, folder, json_item(all, i), &last, err);
    if (last.len > 0)
        ask_later(l, buf_str(&last));
    json_free(doc);
    return rc;
}

static int
list_all(struct listing *l, const char *folder, struct err *err)
{
    if (list_folder(l, folder, err) < 0)
        return -1;
    while (l->next_folder < l->n_folders) {
        if (deadline_passed(l->j->d))
            return err_slug(err, ERR_TIMEOUT, "timeout", "there are too many folders to list");
        if (list_folder(l, l->folders[l->next_folder++], err) < 0)
            return -1;
    }
    return 0;
}

/* In order, and no more than were asked for. */
static void
order(struct listing *l)
{
    struct file_list *list = l->list;

    size_t kept = 0;

    if (list->n > 1)
        qsort(list->entries, list->n, sizeof *list->entries, compare_entries);
    for (size_t i = 0; i < list->n; i++) { /* what was told twice is one */
        if (kept > 0 && compare_entries(&list->entries[kept - 1], &list->entries[i]) == 0)
            free(list->entries[i].path);
        else
            list->entries[kept++] = list->entries[i];
    }
    list->n = kept;
    while (list->n > l->q->max_entries) {
        free(list->entries[--list->n].path);
        list->more = true;
    }
}

struct list_ctx {
    const struct file_query *q;
    struct file_list *ret;
};

static int
job_list(struct files_job *j, void *ctx, struct err *err)
{
    const struct list_ctx *c = ctx;
    _cleanup_free_ char *folder = xstrndup(c->q->folder, c->q->folder_len);
    struct listing l = {.j = j, .q = c->q, .list = c->ret};
    struct file_info info;
    int rc = 0;

    *c->ret = (struct file_list){0};
    if (folder[0] != '\0') {
        rc = files_look(j, folder, strlen(folder), &info, err);
        if (rc == 0 && info.type != FILE_DIRECTORY)
            rc = err_slug(err, ERR_CONFLICT, "not_a_folder", "this is no folder");
    }
    if (rc == 0)
        rc = list_all(&l, folder, err);
    if (rc == 0)
        order(&l);
    else
        file_list_done(c->ret);
    for (size_t i = 0; i < l.n_folders; i++)
        free(l.folders[i]);
    free(l.folders);
    return rc;
}

int
daytona_list(struct sandbox *sb, const struct runtime_ref *rt, const struct file_query *q,
             struct file_list *ret, struct deadline d, struct err *err)
{
    struct list_ctx c = {q, ret};

    if (q->glob != NULL && strlen(q->glob) > GLOB_MAX)
        return err_slug(err, ERR_INVALID, "bad_value", "a pattern has at most %d bytes", GLOB_MAX);
    return files_run(sb, rt, d, job_list, &c, err);
}

/* ---- removing ---- */

int
files_remove_call(struct files_job *j, const char *path, size_t n, bool recursive, struct err *err)
{
    _cleanup_buf_ struct buf url = BUF_INIT(PATH_BYTES);
    struct rest_reply r;

    if (files_path(&url, "/files?path=", path, n, err) < 0)
        return -1;
    if (recursive)
        (void)buf_puts(&url, "&recursive=true");
    return files_call(j, "DELETE", &url, "remove a file", &r, err);
}

struct remove_ctx {
    const char *path;
    size_t n;
    bool recursive;
};

/* An empty folder goes without being asked for with all that is in it. */
static int
remove_empty(struct files_job *j, const struct remove_ctx *c, struct err *err)
{
    struct file_query q = {.folder = c->path, .folder_len = c->n, .max_entries = 1};
    struct file_list there;
    struct list_ctx lc = {&q, &there};
    bool empty;

    if (job_list(j, &lc, err) < 0)
        return -1;
    empty = there.n == 0;
    file_list_done(&there);
    if (!empty)
        return err_slug(err, ERR_CONFLICT, "folder_not_empty", "the folder is not empty");
    return files_remove_call(j, c->path, c->n, true, err);
}

static int
job_remove(struct files_job *j, void *ctx, struct err *err)
{
    const struct remove_ctx *c = ctx;
    struct file_info info;

    if (files_remove_call(j, c->path, c->n, c->recursive, err) == 0)
        return 0;
    /* A folder is refused with a status that says no more than that. */
    if (c->recursive || err->code != ERR_NOT_FOUND || files_look(j, c->path, c->n, &info, err) < 0)
        return -1;
    if (info.type != FILE_DIRECTORY)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error", "the sandbox did not remove it");
    return remove_empty(j, c, err);
}

int
daytona_remove(struct sandbox *sb, const struct runtime_ref *rt, const char *path, size_t n,
               bool recursive, struct deadline d, struct err *err)
{
    struct remove_ctx c = {path, n, recursive};

    return files_run(sb, rt, d, job_remove, &c, err);
}
