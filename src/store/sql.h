/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_SQL_H
#define HUSK_STORE_SQL_H

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/db.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the stores say their SQL with; private to this folder.
 *
 * Statements are string literals, prepared once a connection and found again by the literal's
 * address.  Parameters are given in order by a format, one letter each:
 *   i  int64_t          d  int, bool        t  const char *, NULL is NULL
 *   e  const char *, NULL and "" are NULL   T  const char *, size_t
 *   b  const void *, size_t (a BLOB)
 * What pointers refer to must live until the statement is done with.
 */

#define DB_STATEMENTS_MAX 256 /* a power of two, over twice the number of statements there are */
#define DB_BUSY_MS 5000

struct db {
    sqlite3 *handle;
    char path[PATH_MAX];
    struct deadline busy_until; /* of the wait for a lock going on */
    bool in_transaction;
    struct {
        const char *sql;
        sqlite3_stmt *stmt;
    } cache[DB_STATEMENTS_MAX];
};

/* Statements wait for locks, up to DB_BUSY_MS: how a connection is but for a moment. */
int db_wait_for_locks(struct db *db);

/* Fills err from a result code, by the map in db.h. Returns -1. */
int sql_err(struct db *db, int rc, struct err *err);

/* Runs a statement that gives no rows: how many rows it changed, or -1. */
int sql_run(struct db *db, struct err *err, const char *sql, const char *format, ...);

/* Begins a statement that gives rows: 1 with *ret at the first row (sql_done() it, or step it to
 * its end), 0 no row, -1 error; *ret is NULL then. */
int sql_first(struct db *db, sqlite3_stmt **ret, struct err *err, const char *sql,
              const char *format, ...);
/* The next row: 1, 0 no more, -1; done with in the latter two, and *stmt NULL. */
int sql_next(struct db *db, sqlite3_stmt **stmt, struct err *err);
/* Resets and unbinds; NULL is fine. An un-reset SELECT is an open read transaction. */
void sql_done(sqlite3_stmt **stmt);
#define _cleanup_sql_ _cleanup_(sql_done)

/* The integer in the first column of the only row: 1, 0 no row, -1. NULL reads as 0. */
int sql_int(struct db *db, int64_t *ret, struct err *err, const char *sql, const char *format, ...);

/* A column's text into a fixed array; what does not fit (the schema's CHECKs let nothing longer in)
 * is cut. NULL reads as "". */
void sql_text(sqlite3_stmt *stmt, int column, char *ret, size_t size);

/* Runs fn inside BEGIN IMMEDIATE … COMMIT; rolls back when it returns < 0, and runs all of it again
 * when another process's commit made its snapshot stale. Returns what fn returned. */
typedef int (*sql_tx_fn)(struct db *db, void *ctx, struct err *err);
int sql_tx(struct db *db, sql_tx_fn fn, void *ctx, struct err *err);
/* The same, on disk when it returns: for what a caller is told is kept. */
int sql_tx_durable(struct db *db, sql_tx_fn fn, void *ctx, struct err *err);
/* The same for several reads that must see one state. */
int sql_tx_read(struct db *db, sql_tx_fn fn, void *ctx, struct err *err);

/* A run of statements that give nothing (pragmas, a migration's step). */
int sql_exec(struct db *db, const char *sql, struct err *err);

#endif
