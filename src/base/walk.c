/* SPDX-License-Identifier: MIT */
#include "base/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/beneath.h"
#include "base/buf.h"
#include "base/cleanup.h"

/* Deeper paths than the kernel takes in one call are not visited. */
#define WALK_PATH_MAX 4095
/* How many entries between two looks at the clock. */
#define WALK_CLOCK_EVERY 512

struct walker {
    int root_fd;
    int64_t left;
    struct deadline deadline;
    walk_fn fn;
    void *ctx;
    struct buf pending; /* NUL-terminated paths, the last is next */
    struct buf path;    /* of the entry at hand */
};

static unsigned char
entry_type(int dir_fd, const struct dirent *de)
{
    struct stat st;

    if (de->d_type != DT_UNKNOWN)
        return de->d_type;
    if (fstatat(dir_fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_REG; /* gone: whoever stats it will see */
    return IFTODT(st.st_mode);
}

/* Sets w->path to folder/name; 1, or 0 when it is too long to be reached. */
static int
join(struct walker *w, const char *folder, const char *name)
{
    buf_clear(&w->path);
    if (*folder) {
        (void)buf_puts(&w->path, folder);
        (void)buf_putc(&w->path, '/');
    }
    (void)buf_puts(&w->path, name);
    return !w->path.failed;
}

static int
deadline_check(const struct walker *w, struct err *err)
{
    if (!deadline_passed(w->deadline))
        return 0;
    return err_set(err, ERR_TIMEOUT, "the folder is too large to be looked through in time");
}

/* 1 go on, 0 stop, -1 error. */
static int
visit(struct walker *w, const char *folder, DIR *dir, struct err *err)
{
    for (;;) {
        struct dirent *de = readdir(dir);

        if (!de)
            return 1;
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        if (w->left-- <= 0)
            return 0;
        if (w->left % WALK_CLOCK_EVERY == 0 && deadline_check(w, err) < 0)
            return -1;
        if (!join(w, folder, de->d_name))
            continue;

        struct walk_entry e = {
            .dir_fd = dirfd(dir),
            .name = de->d_name,
            .path = w->path.data,
            .path_len = w->path.len,
            .d_type = entry_type(dirfd(dir), de),
        };
        enum walk_next next = w->fn(w->ctx, &e);
        if (next == WALK_STOP)
            return 0;
        if (next == WALK_INTO && e.d_type == DT_DIR &&
            buf_append(&w->pending, e.path, e.path_len + 1) < 0)
            return err_set(err, ERR_LIMIT, "there are too many folders");
    }
}

static DIR *
open_dir(const struct walker *w, const char *folder, int more_flags)
{
    int fd = beneath_open(w->root_fd, folder, O_RDONLY | O_DIRECTORY | O_NONBLOCK | more_flags,
                          LINKS_INSIDE);
    DIR *dir;

    if (fd < 0)
        return NULL;
    dir = fdopendir(fd);
    if (!dir)
        cleanup_close(&fd);
    return dir;
}

/* Moves the last pending path to `folder`; 0 when there is none. */
static int
next_pending(struct walker *w, char folder[WALK_PATH_MAX + 1])
{
    size_t end = w->pending.len, from;

    if (end == 0)
        return 0;
    from = end - 1;
    while (from > 0 && w->pending.data[from - 1] != '\0')
        from--;
    memcpy(folder, w->pending.data + from, end - from);
    w->pending.len = from;
    return 1;
}

static int
walk_first(struct walker *w, const char *folder, struct err *err)
{
    _cleanup_closedir_ DIR *dir = open_dir(w, folder, 0);

    if (!dir)
        return err_sys(err, ERR_INTERNAL, errno, "opening the folder %.200s", folder);
    return visit(w, folder, dir, err);
}

int
walk(int root_fd, const char *folder, int64_t max_entries, struct deadline d, walk_fn fn, void *ctx,
     struct err *err)
{
    struct walker w = {
        .root_fd = root_fd, .left = max_entries, .deadline = d, .fn = fn, .ctx = ctx};
    char next[WALK_PATH_MAX + 1];
    int r;

    buf_init(&w.pending, WALK_PENDING_MAX);
    buf_init(&w.path, WALK_PATH_MAX);
    r = walk_first(&w, folder, err);
    while (r > 0 && next_pending(&w, next)) {
        /* A folder that has become a link since is not entered. */
        _cleanup_closedir_ DIR *dir = open_dir(&w, next, O_NOFOLLOW);

        r = deadline_check(&w, err) < 0 ? -1 : dir ? visit(&w, next, dir, err) : 1;
    }
    buf_done(&w.pending);
    buf_done(&w.path);
    return r;
}

enum walk_next
walk_add_usage(void *ctx, const struct walk_entry *e)
{
    int64_t *bytes = ctx;
    struct stat st;

    if (fstatat(e->dir_fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *bytes += (int64_t)st.st_blocks * 512; /* whatever the file system's own block is */
    return WALK_INTO;
}
