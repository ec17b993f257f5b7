/* SPDX-License-Identifier: MIT */
#include "store/sql.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* How often a transaction whose snapshot went stale is run. */
#define TX_TRIES 20
#define RETRY_AFTER_S 1
#define FULL_RETRY_AFTER_S 5

/* The main file and the WAL say that they are full, the WAL's index just that it could not grow. */
static bool
disk_is_full(struct db *db, int rc)
{
    return (rc & 0xff) == SQLITE_FULL ||
           ((rc & 0xff) == SQLITE_IOERR && db && sqlite3_system_errno(db->handle) == ENOSPC);
}

int
sql_err(struct db *db, int rc, struct err *err)
{
    int extended = db ? sqlite3_extended_errcode(db->handle) : rc;

    if (disk_is_full(db, rc)) {
        (void)err_slug(err, ERR_UNAVAILABLE, "disk_full", "the database's disk is full");
        if (err)
            err->retry_after_s = FULL_RETRY_AFTER_S;
        return -1;
    }
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        (void)err_slug(err, ERR_UNAVAILABLE, "database_busy", "the database is busy");
        if (err)
            err->retry_after_s = RETRY_AFTER_S;
        return -1;
    case SQLITE_NOMEM:
        return err_set(err, ERR_NOMEM, "no memory for the database");
    case SQLITE_TOOBIG:
        return err_slug(err, ERR_LIMIT, "limit_exceeded", "a text is too long to be stored");
    case SQLITE_CONSTRAINT:
        if (extended == SQLITE_CONSTRAINT_CHECK)
            return err_slug(err, ERR_LIMIT, "limit_exceeded",
                            "a value is too long or out of its range");
        if (extended == SQLITE_CONSTRAINT_FOREIGNKEY)
            return err_slug(err, ERR_NOT_FOUND, "session_not_found", "the session is gone");
        return err_slug(err, ERR_CONFLICT, "conflict", "such a row is there already");
    default:
        return err_slug(err, ERR_INTERNAL, "database_error", "the database failed: %s (%d)",
                        sqlite3_errstr(rc), extended);
    }
}

/* The cached statement of a literal; prepared when it is asked for first. */
static sqlite3_stmt *
statement(struct db *db, const char *sql, struct err *err)
{
    size_t at = ((uintptr_t)sql >> 3) * 2654435761u;

    for (size_t i = 0; i < DB_STATEMENTS_MAX; i++) {
        size_t slot = (at + i) % DB_STATEMENTS_MAX;
        int rc;

        if (db->cache[slot].sql == sql)
            return db->cache[slot].stmt;
        if (db->cache[slot].sql)
            continue;
        rc = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                &db->cache[slot].stmt, NULL);
        if (rc != SQLITE_OK) {
            (void)sql_err(db, rc, err);
            return NULL;
        }
        db->cache[slot].sql = sql;
        return db->cache[slot].stmt;
    }
    (void)err_set(err, ERR_INTERNAL, "too many statements");
    return NULL;
}

static int
bind_text(sqlite3_stmt *s, int at, const char *p, size_t n)
{
    if (!p)
        return sqlite3_bind_null(s, at);
    return sqlite3_bind_text64(s, at, p, n, SQLITE_STATIC, SQLITE_UTF8);
}

static int
bind_one(sqlite3_stmt *s, int at, char type, va_list *ap)
{
    const char *p;

    switch (type) {
    case 'i':
        return sqlite3_bind_int64(s, at, va_arg(*ap, int64_t));
    case 'd':
        return sqlite3_bind_int64(s, at, va_arg(*ap, int));
    case 't':
    case 'e':
        p = va_arg(*ap, const char *);
        if (type == 'e' && p && !*p)
            p = NULL;
        return bind_text(s, at, p, p ? strlen(p) : 0);
    case 'T':
        p = va_arg(*ap, const char *);
        return bind_text(s, at, p, va_arg(*ap, size_t));
    case 'b':
        p = va_arg(*ap, const char *);
        return sqlite3_bind_blob64(s, at, p, va_arg(*ap, size_t), SQLITE_STATIC);
    default:
        assert(!"an unknown letter in a format");
        return SQLITE_MISUSE;
    }
}

/* The statement with its parameters, not yet stepped. */
static sqlite3_stmt *
bound(struct db *db, struct err *err, const char *sql, const char *format, va_list *ap)
{
    sqlite3_stmt *s = statement(db, sql, err);

    if (!s)
        return NULL;
    assert(!sqlite3_stmt_busy(s));
    assert(sqlite3_bind_parameter_count(s) == (int)strlen(format));
    for (int i = 0; format[i]; i++) {
        int rc = bind_one(s, i + 1, format[i], ap);

        if (rc != SQLITE_OK) {
            sql_done(&s);
            (void)sql_err(db, rc, err);
            return NULL;
        }
    }
    return s;
}

void
sql_done(sqlite3_stmt **stmt)
{
    if (!*stmt)
        return;
    (void)sqlite3_reset(*stmt);
    (void)sqlite3_clear_bindings(*stmt);
    *stmt = NULL;
}

int
sql_next(struct db *db, sqlite3_stmt **stmt, struct err *err)
{
    int rc = sqlite3_step(*stmt);

    if (rc == SQLITE_ROW)
        return 1;
    if (rc != SQLITE_DONE)
        (void)sql_err(db, rc, err);
    sql_done(stmt);
    return rc == SQLITE_DONE ? 0 : -1;
}

int
sql_run(struct db *db, struct err *err, const char *sql, const char *format, ...)
{
    va_list ap;
    sqlite3_stmt *s;
    int r;

    va_start(ap, format);
    s = bound(db, err, sql, format, &ap);
    va_end(ap);
    if (!s)
        return -1;
    do
        r = sql_next(db, &s, err);
    while (r > 0);
    return r < 0 ? -1 : sqlite3_changes(db->handle);
}

static int
first(struct db *db, sqlite3_stmt **ret, struct err *err, const char *sql, const char *format,
      va_list *ap)
{
    *ret = bound(db, err, sql, format, ap);
    return *ret ? sql_next(db, ret, err) : -1;
}

int
sql_first(struct db *db, sqlite3_stmt **ret, struct err *err, const char *sql, const char *format,
          ...)
{
    va_list ap;
    int r;

    va_start(ap, format);
    r = first(db, ret, err, sql, format, &ap);
    va_end(ap);
    return r;
}

int
sql_int(struct db *db, int64_t *ret, struct err *err, const char *sql, const char *format, ...)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    va_list ap;
    int r;

    va_start(ap, format);
    r = first(db, &s, err, sql, format, &ap);
    va_end(ap);
    if (r <= 0)
        return r;

    /* To the end: a write that returns its row commits there, and may fail there. */
    int64_t value = sqlite3_column_int64(s, 0);
    if (sql_next(db, &s, err) < 0)
        return -1;
    *ret = value;
    return 1;
}

void
sql_text(sqlite3_stmt *stmt, int column, char *ret, size_t size)
{
    const void *p = sqlite3_column_text(stmt, column);
    size_t n = (size_t)sqlite3_column_bytes(stmt, column);

    if (!p)
        n = 0;
    if (n >= size)
        n = size - 1;
    if (n)
        memcpy(ret, p, n);
    ret[n] = '\0';
}

int
sql_exec(struct db *db, const char *sql, struct err *err)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : sql_err(db, rc, err);
}

/* One run; *ret_stale when it failed only because another process committed meanwhile. */
static int
attempt(struct db *db, const char *begin, sql_tx_fn fn, void *ctx, bool *ret_stale, struct err *err)
{
    int r;

    *ret_stale = false;
    if (sql_run(db, err, begin, "") < 0)
        return -1;
    db->in_transaction = true;
    r = fn(db, ctx, err);
    if (r >= 0 && sql_run(db, err, "COMMIT", "") < 0)
        r = -1;
    db->in_transaction = false;
    if (r < 0) {
        *ret_stale = sqlite3_extended_errcode(db->handle) == SQLITE_BUSY_SNAPSHOT;
        if (!sqlite3_get_autocommit(db->handle)) /* some errors have rolled back already */
            (void)sql_run(db, NULL, "ROLLBACK", "");
    }
    return r;
}

static int
run_tx(struct db *db, const char *begin, sql_tx_fn fn, void *ctx, struct err *err)
{
    bool stale;
    int r;

    assert(!db->in_transaction);
    for (int i = 0;; i++) {
        r = attempt(db, begin, fn, ctx, &stale, err);
        if (!stale || i + 1 == TX_TRIES)
            return r;
    }
}

int
sql_tx(struct db *db, sql_tx_fn fn, void *ctx, struct err *err)
{
    return run_tx(db, "BEGIN IMMEDIATE", fn, ctx, err);
}

int
sql_tx_durable(struct db *db, sql_tx_fn fn, void *ctx, struct err *err)
{
    int r;

    if (sql_exec(db, "PRAGMA synchronous = FULL", err) < 0)
        return -1;
    r = run_tx(db, "BEGIN IMMEDIATE", fn, ctx, err);
    (void)sql_exec(db, "PRAGMA synchronous = NORMAL", NULL);
    return r;
}

int
sql_tx_read(struct db *db, sql_tx_fn fn, void *ctx, struct err *err)
{
    return run_tx(db, "BEGIN", fn, ctx, err);
}
