/* SPDX-License-Identifier: MIT */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sql.h"

/* Lines of a check's complaint that are shown. */
#define CHECK_LINES 20

int
db_checkpoint(struct db *db, struct db_wal *ret, struct err *err)
{
    int frames = -1, done = -1;
    int rc;

    /* The modes that empty the log wait for readers with the writer's lock in their hands: one
     * forgotten reader would stop all writers for the busy time-out. So: no waiting. */
    (void)sqlite3_busy_handler(db->handle, NULL, NULL);
    rc = sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &done);
    if (rc == SQLITE_OK && frames > 0 && frames == done &&
        sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) ==
            SQLITE_OK)
        frames = done = 0;
    db_wait_for_locks(db);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
        return sql_err(db, rc, err);
    *ret = (struct db_wal){rc == SQLITE_OK ? frames : -1, rc == SQLITE_OK ? done : -1};
    return 0;
}

static int
nothing(struct db *db, void *ctx, struct err *err)
{
    (void)db;
    (void)ctx;
    (void)err;
    return 0;
}

int
db_probe_writer(struct db *db, struct err *err)
{
    return sql_tx(db, nothing, NULL, err);
}

int
db_optimize(struct db *db, struct err *err)
{
    return sql_exec(db, "PRAGMA optimize", err);
}

void
db_sizes(const struct db *db, int64_t *ret_db, int64_t *ret_wal)
{
    char wal[PATH_MAX + 4];
    struct stat st;

    (void)snprintf(wal, sizeof(wal), "%s-wal", db->path);
    *ret_db = stat(db->path, &st) == 0 ? st.st_size : 0;
    *ret_wal = stat(wal, &st) == 0 ? st.st_size : 0;
}

static void
complain(struct buf *ret, const char *text, int *lines)
{
    if ((*lines)++ < CHECK_LINES && buf_puts(ret, text) == 0)
        (void)buf_putc(ret, '\n');
}

int
db_check(struct db *db, struct buf *ret, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int lines = 0;
    int r;

    for (r = sql_first(db, &s, err, "PRAGMA integrity_check", ""); r > 0;
         r = sql_next(db, &s, err)) {
        const char *line = (const char *)sqlite3_column_text(s, 0);

        if (line && strcmp(line, "ok") != 0)
            complain(ret, line, &lines);
    }
    if (r < 0)
        return -1;
    for (r = sql_first(db, &s, err, "PRAGMA foreign_key_check", ""); r > 0;
         r = sql_next(db, &s, err)) {
        char line[256];

        (void)snprintf(line, sizeof(line), "%s: row %lld refers to nothing in %s",
                       (const char *)sqlite3_column_text(s, 0),
                       (long long)sqlite3_column_int64(s, 1),
                       (const char *)sqlite3_column_text(s, 2));
        complain(ret, line, &lines);
    }
    if (r < 0)
        return -1;
    if (lines)
        return err_slug(err, ERR_INTERNAL, "database_error", "the database is damaged");
    return 0;
}

int
db_backup(struct db *db, const char *to_path, unsigned mode, struct err *err)
{
    int r;

    /* SQLite writes into an empty file that is there: made by us, it is private from the start and
     * nobody's file is ever taken. */
    _cleanup_close_ int fd =
        open(to_path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, errno == EEXIST ? ERR_CONFLICT : ERR_INVALID, errno, "%s", to_path);
    r = sql_run(db, err, "VACUUM INTO ?", "t", to_path);
    if (r >= 0 && fchmod(fd, mode) < 0)
        r = err_sys(err, ERR_INTERNAL, errno, "the mode");
    if (r >= 0 && fsync(fd) < 0)
        r = err_sys(err, ERR_INTERNAL, errno, "keeping it");
    if (r < 0)
        (void)unlink(to_path);
    return r < 0 ? err_wrap(err, "writing %s", to_path) : 0;
}
