/* SPDX-License-Identifier: MIT */
#include "workspace/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "workspace/beneath.h"

struct snapshot {
    struct file_list list; /* in byte order of the paths */
};

/* One walk: all files that are not left out, or those that differ from `before` or match. */
struct look {
    struct file_list list;
    size_t cap;
    const struct snapshot *before; /* NULL while the first is taken, or when none is wanted */
    bool first;
    const char *const *globs;
    size_t n_globs;
};

static int
by_path(const void *a, const void *b)
{
    const struct file_entry *x = a, *y = b;
    int c = memcmp(x->path, y->path, x->path_len < y->path_len ? x->path_len : y->path_len);

    return c ? c : (x->path_len > y->path_len) - (x->path_len < y->path_len);
}

static bool
left_out(const char *path, size_t n)
{
    static const char *const folders[] = {"inputs", "tmp"};

    for (size_t i = 0; i < n; i++)
        if (path[i] == '.' && (i == 0 || path[i - 1] == '/'))
            return true;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        size_t k = strlen(folders[i]);

        if (n > k && path[k] == '/' && memcmp(path, folders[i], k) == 0)
            return true;
    }
    return false;
}

static bool
changed(const struct look *l, const char *path, size_t n, const struct file_info *now)
{
    const struct file_entry key = {.path = (char *)path, .path_len = n};
    const struct file_list *list = &l->before->list;
    const struct file_entry *was =
        list->n ? bsearch(&key, list->entries, list->n, sizeof(key), by_path) : NULL;

    return !was || was->info.inode != now->inode || was->info.size != now->size ||
           was->info.mtime_ns != now->mtime_ns || was->info.ctime_ns != now->ctime_ns;
}

static bool
wanted(const struct look *l, const char *path, size_t n, const struct file_info *now)
{
    if (l->first)
        return !left_out(path, n);
    if (l->before && !left_out(path, n) && changed(l, path, n, now))
        return true;
    for (size_t i = 0; i < l->n_globs; i++)
        if (glob_match(l->globs[i], strlen(l->globs[i]), path, n))
            return true;
    return false;
}

static void
append(struct look *l, const struct walk_entry *e, const struct file_info *info)
{
    if (l->list.n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct file_entry *bigger = xcalloc(cap, sizeof(*bigger));

        if (l->list.n)
            memcpy(bigger, l->list.entries, l->list.n * sizeof(*bigger));
        free(l->list.entries);
        l->list.entries = bigger;
        l->cap = cap;
    }
    l->list.entries[l->list.n++] =
        (struct file_entry){xstrndup(e->path, e->path_len), e->path_len, *info};
}

static enum walk_next
consider(void *ctx, const struct walk_entry *e)
{
    struct look *l = ctx;
    struct file_info info;
    struct stat st;

    if (beneath_own_name(e->name, strlen(e->name)) || e->path_len > WORKSPACE_PATH_MAX)
        return WALK_ON;
    if (e->d_type == DT_DIR) /* a pattern may name what is in a folder that is left out */
        return l->first && left_out(e->path, e->path_len) ? WALK_ON : WALK_INTO;
    if (e->d_type != DT_REG || fstatat(e->dir_fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return WALK_ON;
    beneath_info(&st, &info);
    if (wanted(l, e->path, e->path_len, &info))
        append(l, e, &info);
    return WALK_ON;
}

static int
look(const struct workspace *w, struct look *l, struct deadline d, struct err *err)
{
    int r = workspace_walk(w->root_fd, "", SNAPSHOT_ENTRIES_MAX, d, consider, l, err);

    if (r < 0) {
        file_list_done(&l->list);
        return -1;
    }
    l->list.more = r == 0;
    if (l->list.n > 1)
        qsort(l->list.entries, l->list.n, sizeof(l->list.entries[0]), by_path);
    return 0;
}

/* Of a list only what is wanted stays. */
static void
sift(const struct look *l, struct file_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->n; i++) {
        const struct file_entry *e = &list->entries[i];

        if (e->info.type == FILE_REGULAR && wanted(l, e->path, e->path_len, &e->info))
            list->entries[kept++] = *e;
        else
            free(e->path);
    }
    list->n = kept;
}

/* Takes the list, also when it fails. */
static int
keep(struct file_list *list, struct snapshot **ret, struct err *err)
{
    if (list->more) {
        file_list_done(list);
        return err_slug(err, ERR_LIMIT, "limit_exceeded",
                        "the session has more than %d files: what a run changes among so many is "
                        "not looked for",
                        SNAPSHOT_ENTRIES_MAX);
    }
    *ret = xcalloc(1, sizeof(**ret));
    (*ret)->list = *list;
    return 0;
}

int
snapshot_take(const struct workspace *w, struct deadline d, struct snapshot **ret, struct err *err)
{
    struct look l = {.first = true};

    if (look(w, &l, d, err) < 0)
        return -1;
    return keep(&l.list, ret, err);
}

int
snapshot_of_list(struct file_list *list, struct snapshot **ret, struct err *err)
{
    const struct look l = {.first = true};

    sift(&l, list);
    return keep(list, ret, err);
}

void
snapshot_free(struct snapshot *s)
{
    if (!s)
        return;
    file_list_done(&s->list);
    free(s);
}

int
snapshot_changed(const struct workspace *w, const struct snapshot *before, const char *const *globs,
                 size_t n_globs, struct deadline d, struct file_list *ret, struct err *err)
{
    struct look l = {.before = before, .globs = globs, .n_globs = n_globs};

    if (look(w, &l, d, err) < 0)
        return -1;
    *ret = l.list;
    return 0;
}

void
snapshot_changed_of_list(struct file_list *list, const struct snapshot *before,
                         const char *const *globs, size_t n_globs)
{
    const struct look l = {.before = before, .globs = globs, .n_globs = n_globs};

    sift(&l, list);
}
