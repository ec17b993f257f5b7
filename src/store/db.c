/* SPDX-License-Identifier: MIT */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"
#include "base/log.h"
#include "store/migrate.h"
#include "store/sql.h"

#define DB_MODE 0660
/* Sleeps between two tries for a lock: short ones with chance in them, so that many processes do
 * not go in step and none waits long behind a transaction that takes a fraction of a millisecond.
 */
#define BUSY_STEP_MIN_US 300
#define BUSY_STEP_MAX_US 8000

static void
log_sqlite(void *ctx, int rc, const char *text)
{
    (void)ctx;
    switch (rc & 0xff) {
    case SQLITE_NOTICE:
    case SQLITE_SCHEMA:
    case SQLITE_BUSY:
    case SQLITE_CONSTRAINT: /* an answer, not a fault */
        log_debug("sqlite (%d): %s", rc, text);
        break;
    default:
        log_warning("sqlite (%d): %s", rc, text);
    }
}

static void
configure_once(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_LOG, log_sqlite, NULL);
}

static int
wait_for_lock(void *ctx, int n_before)
{
    struct db *db = ctx;
    uint32_t chance;
    struct timespec t = {0, 0};
    long most = BUSY_STEP_MIN_US * (1L + n_before);

    if (n_before == 0)
        db->busy_until = deadline_in(DB_BUSY_MS);
    if (deadline_passed(db->busy_until))
        return 0;
    if (most > BUSY_STEP_MAX_US)
        most = BUSY_STEP_MAX_US;
    id_random_bytes(&chance, sizeof(chance));
    t.tv_nsec = (most / 2 + (long)(chance % (unsigned long)most)) * 1000;
    (void)nanosleep(&t, NULL);
    return 1;
}

int
db_wait_for_locks(struct db *db)
{
    return sqlite3_busy_handler(db->handle, wait_for_lock, db);
}

/* The folder's real path with the file's name: SQLite's NOFOLLOW refuses a link anywhere in the
 * path, and a state folder may well be reached by one; the file itself may not. */
static int
real_path(const char *path, char ret[PATH_MAX], struct err *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char folder[PATH_MAX], real[PATH_MAX];
    int n = slash ? snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path + 1), path)
                  : snprintf(folder, sizeof(folder), ".");

    if (n < 0 || (size_t)n >= sizeof(folder))
        return err_set(err, ERR_INVALID, "the path of the database is too long");
    if (!realpath(folder, real))
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, errno,
                       "the folder of the database %s", path);
    if (strlen(real) + 1 + strlen(name) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the path of the database is too long");
    (void)stpcpy(stpcpy(stpcpy(ret, real), "/"), name);
    return 0;
}

/* Its mode is what -wal and -shm copy, so the file is made by us and not by SQLite. Nothing is
 * opened when it is there: closing it would drop another connection's locks. */
static int
make_file(const char *path, unsigned flags, struct err *err)
{
    struct stat st;

    if (lstat(path, &st) == 0)
        return 0;
    if (errno != ENOENT)
        return err_sys(err, ERR_INTERNAL, errno, "the database %s", path);
    if (!(flags & DB_CREATE))
        return err_set(err, ERR_NOT_FOUND, "there is no database %s", path);
    _cleanup_close_ int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, DB_MODE);
    if (fd < 0)
        return errno == EEXIST ? 0 : err_sys(err, ERR_INTERNAL, errno, "making %s", path);
    if (fchmod(fd, DB_MODE) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "making %s", path);
    return 0;
}

/* 1 it is in WAL mode, 0 somebody holds a lock, -1 error. */
static int
try_wal(struct db *db, struct err *err)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode = WAL", -1, &s, NULL);
    bool wal = false;

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        wal = rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(s, 0), "wal") == 0;
        rc = sqlite3_finalize(s);
    }
    if (rc == SQLITE_OK && wal)
        return 1;
    if ((rc & 0xff) == SQLITE_BUSY)
        return 0;
    if (rc == SQLITE_OK)
        return err_slug(err, ERR_INTERNAL, "database_error",
                        "the database cannot be put into WAL mode");
    return sql_err(db, rc, err);
}

/* The change to WAL needs the file alone and does not call the busy handler: processes that open a
 * fresh database at the same moment take turns here. */
static int
enter_wal(struct db *db, struct err *err)
{
    struct deadline d = deadline_in(DB_BUSY_MS);

    for (int i = 0;; i++) {
        int r = try_wal(db, err);

        if (r != 0)
            return r < 0 ? -1 : 0;
        if (deadline_passed(d))
            return sql_err(db, SQLITE_BUSY, err);
        db->busy_until = d;
        (void)wait_for_lock(db, i + 1);
    }
}

/* In the order that matters: the wait for locks before anything that takes one. */
static int
set_up(struct db *db, struct err *err)
{
    int rc = sqlite3_extended_result_codes(db->handle, 1);

    if (rc == SQLITE_OK)
        rc = db_wait_for_locks(db);
    if (rc != SQLITE_OK)
        return sql_err(db, rc, err);
    if (enter_wal(db, err) < 0 || sql_exec(db, "PRAGMA synchronous = NORMAL", err) < 0 ||
        sql_exec(db, "PRAGMA foreign_keys = ON", err) < 0 ||
        sql_exec(db, "PRAGMA trusted_schema = OFF", err) < 0)
        return -1;
    rc = sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    return rc == SQLITE_OK ? 0 : sql_err(db, rc, err);
}

static void
db_closep(struct db **db)
{
    db_close(*db);
}

int
db_open(const char *path, unsigned flags, struct db **ret, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    _cleanup_(db_closep) struct db *db = xcalloc(1, sizeof(*db));
    int64_t tables;
    int rc;

    (void)pthread_once(&once, configure_once);
    if (real_path(path, db->path, err) < 0 || make_file(db->path, flags, err) < 0)
        return -1;
    rc = sqlite3_open_v2(db->path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);
    if (rc != SQLITE_OK) {
        (void)sql_err(NULL, rc, err);
        return err_wrap(err, "opening %s", path);
    }
    if (set_up(db, err) < 0 ||
        sql_int(db, &tables, err, "SELECT count(*) FROM sqlite_schema", "") < 0)
        return err_wrap(err, "opening %s", path);
    *ret = steal_ptr(db);
    return 0;
}

void
db_close(struct db *db)
{
    if (!db)
        return;
    for (size_t i = 0; i < DB_STATEMENTS_MAX; i++)
        (void)sqlite3_finalize(db->cache[i].stmt);
    (void)sqlite3_close(db->handle);
    free(db);
}

int
db_ping(struct db *db, struct err *err)
{
    int version;

    if (migrate_version(db, &version, err) < 0)
        return -1;
    if (version != migrate_target())
        return err_slug(err, ERR_CONFLICT, "database_version",
                        "the database has version %d, this program needs %d: run huskctl db "
                        "migrate",
                        version, migrate_target());
    return 0;
}
