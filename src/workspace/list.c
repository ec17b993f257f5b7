/* SPDX-License-Identifier: MIT */
#include "workspace/workspace.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "workspace/beneath.h"

#define LIST_MAX_LOOKED_AT 200000

/*
 * A folder comes in no order, and byte order of whole paths ("a", "a-b", "a/c") is not the order of
 * any walk.  So all is walked, and a heap with the greatest path on top keeps the max_entries least
 * ones behind `after`: memory is bounded by the page, not by the tree.
 */
struct listing {
    const char *glob;
    size_t glob_len;
    size_t folder_len; /* with its '/' */
    bool recursive;
    const char *after;
    size_t after_len;
    size_t max;
    size_t cap;
    struct file_list *list;
};

static int
compare_bytes(const char *a, size_t an, const char *b, size_t bn)
{
    int c = memcmp(a, b, an < bn ? an : bn);

    return c ? c : (an > bn) - (an < bn);
}

static int
compare_entries(const void *a, const void *b)
{
    const struct file_entry *x = a, *y = b;

    return compare_bytes(x->path, x->path_len, y->path, y->path_len);
}

static void
sift_up(struct file_entry *e, size_t i)
{
    while (i > 0 && compare_entries(&e[i], &e[(i - 1) / 2]) > 0) {
        struct file_entry swap = e[i];

        e[i] = e[(i - 1) / 2];
        e[(i - 1) / 2] = swap;
        i = (i - 1) / 2;
    }
}

static void
sift_down(struct file_entry *e, size_t n)
{
    for (size_t i = 0;;) {
        size_t top = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (compare_entries(&e[child], &e[top]) > 0)
                top = child;
        if (top == i)
            return;

        struct file_entry swap = e[i];
        e[i] = e[top];
        e[top] = swap;
        i = top;
    }
}

static void
insert(struct listing *l, const struct walk_entry *e, const struct file_info *info)
{
    struct file_list *list = l->list;
    struct file_entry new = {xstrndup(e->path, e->path_len), e->path_len, *info};

    if (list->n == l->max) { /* the caller has seen that it is before the greatest */
        free(list->entries[0].path);
        list->entries[0] = new;
        list->more = true;
        sift_down(list->entries, list->n);
        return;
    }
    if (list->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct file_entry *bigger = xcalloc(cap, sizeof(*bigger));

        if (list->n)
            memcpy(bigger, list->entries, list->n * sizeof(*bigger));
        free(list->entries);
        list->entries = bigger;
        l->cap = cap;
    }
    list->entries[list->n] = new;
    sift_up(list->entries, list->n++);
}

/* Where path/… stands to what is wanted: nothing of it can be in the page. */
static bool
subtree_is_out(const struct listing *l, const struct walk_entry *e)
{
    char path[WORKSPACE_PATH_MAX + 2];
    size_t n = e->path_len + 1;
    const struct file_entry *last = l->list->entries;

    memcpy(path, e->path, e->path_len);
    path[e->path_len] = '/';
    if (l->after_len >= n && memcmp(path, l->after, n) < 0)
        return true;
    if (l->after_len && l->after_len < n && memcmp(path, l->after, l->after_len) < 0)
        return true;
    return l->list->more && l->list->n > 0 && l->list->n == l->max &&
           compare_bytes(path, n, last->path, last->path_len) > 0;
}

static enum walk_next
consider(void *ctx, const struct walk_entry *e)
{
    struct listing *l = ctx;
    struct file_list *list = l->list;
    struct file_info info;
    struct stat st;
    enum walk_next next = WALK_ON;

    if (beneath_own_name(e->name, strlen(e->name)) || e->path_len > WORKSPACE_PATH_MAX)
        return WALK_ON;
    if (l->recursive && e->d_type == DT_DIR && !subtree_is_out(l, e))
        next = WALK_INTO;
    if (l->after_len && compare_bytes(e->path, e->path_len, l->after, l->after_len) <= 0)
        return next;
    if (l->glob &&
        !glob_match(l->glob, l->glob_len, e->path + l->folder_len, e->path_len - l->folder_len))
        return next;
    if (list->n == l->max &&
        (l->max == 0 || compare_bytes(e->path, e->path_len, list->entries[0].path,
                                      list->entries[0].path_len) > 0)) {
        list->more = true;
        return next;
    }
    if (fstatat(e->dir_fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return next; /* removed meanwhile */
    beneath_info(&st, &info);
    insert(l, e, &info);
    return next;
}

int
workspace_list(const struct workspace *w, const char *folder, size_t folder_len, const char *glob,
               bool recursive, const char *after, size_t after_len, size_t max_entries,
               struct deadline d, struct file_list *ret, struct err *err)
{
    struct beneath_path p = {.whole = ""};
    struct file_list list = {0};
    struct listing l = {
        .glob = glob,
        .glob_len = glob ? strlen(glob) : 0,
        .folder_len = folder_len ? folder_len + 1 : 0,
        .recursive = recursive,
        .after = after,
        .after_len = after ? after_len : 0,
        .max = max_entries,
        .list = &list,
    };
    int r;

    if (folder_len && beneath_split(folder, folder_len, &p, err) < 0)
        return -1;
    if (l.glob_len > GLOB_MAX)
        return err_slug(err, ERR_INVALID, "bad_value", "a pattern has at most %d bytes", GLOB_MAX);
    r = workspace_walk(w->root_fd, p.whole, LIST_MAX_LOOKED_AT, d, consider, &l, err);
    if (r == 0)
        r = err_slug(err, ERR_LIMIT, "limit_exceeded",
                     "more than %d files are in it: list a folder further down",
                     LIST_MAX_LOOKED_AT);
    if (r < 0) {
        file_list_done(&list);
        return -1;
    }
    if (list.n > 1)
        qsort(list.entries, list.n, sizeof(list.entries[0]), compare_entries);
    *ret = list;
    return 0;
}

void
file_list_done(struct file_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->entries[i].path);
    free(l->entries);
    *l = (struct file_list){0};
}
