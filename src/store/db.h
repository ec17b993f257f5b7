/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_DB_H
#define HUSK_STORE_DB_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

/*
 * One process's connection to the database (SQLite, WAL).  Opened after exec, never carried over a
 * fork.  Every operation of the stores is one short transaction: writers BEGIN IMMEDIATE, readers a
 * single statement that is stepped to its end; a transaction that meets BUSY_SNAPSHOT is run again
 * as a whole.  Nothing of it stays open when the operation returns.
 *
 * Errors of all stores, unless a comment says more: ERR_UNAVAILABLE slug "database_busy" with
 * retry_after_s 1 (locked beyond the busy time-out), ERR_INTERNAL slug "database_error" (full, I/O,
 * read-only, corrupt; the message never reaches a client), ERR_LIMIT for text over its column's
 * maximum.
 */
struct db;

#define DB_CREATE 1u /* make the file (0660) if it is not there; else ERR_NOT_FOUND */

/* Opens, sets the pragmas (WAL, synchronous NORMAL, foreign keys, trusted_schema off, busy time-out
 * 5 s, defensive) and checks that the file is a database. Does not look at its version. */
int db_open(const char *path, unsigned flags, struct db **ret, struct err *err);
void db_close(struct db *db); /* NULL is fine; finalises all cached statements */

/* Reads one row: the database answers and has the version this program was built for (ERR_CONFLICT
 * slug "database_version" with both numbers if not). */
int db_ping(struct db *db, struct err *err);

/* Copies what the write-ahead log holds into the database and, when all of it could be copied,
 * empties the log's file. Waits for nobody: a reader that is not done keeps some frames (done <
 * frames), and no writer ever waits for that reader because of us. */
struct db_wal {
    int64_t frames; /* in the log; 0 emptied; -1 another connection was at it */
    int64_t done;   /* of them copied */
};
int db_checkpoint(struct db *db, struct db_wal *ret, struct err *err);
/* Takes the writer's lock and gives it back: 0, or database_busy after the busy time-out. */
int db_probe_writer(struct db *db, struct err *err);

/* Who holds the writer's lock, or a reader's, just now: another process's id and its name ("" if it
 * cannot be read). 1 found, 0 not (or it cannot be told here). */
#define DB_HOLDER_COMM 32
enum db_holder_kind { DB_HOLDER_WRITER, DB_HOLDER_READER };
struct db_holder {
    int pid;
    char comm[DB_HOLDER_COMM];
};
int db_holder(const struct db *db, enum db_holder_kind kind, struct db_holder *ret);

/* PRAGMA optimize. */
int db_optimize(struct db *db, struct err *err);
/* Sizes of the file and of its -wal by stat(2) (no descriptor is opened); 0 if absent. */
void db_sizes(const struct db *db, int64_t *ret_db, int64_t *ret_wal);

/* PRAGMA integrity_check and foreign_key_check: 0 when both are clean, else ERR_INTERNAL with the
 * first lines of what they said in `ret`. */
int db_check(struct db *db, struct buf *ret, struct err *err);
/* VACUUM INTO a new file of that mode, a whole database in one file; ERR_CONFLICT when something is
 * there. One that could not be finished is removed. */
#define DB_BACKUP_MODE 0640
#define DB_SNAPSHOT_MODE 0440 /* nobody writes to it by mistake */
int db_backup(struct db *db, const char *to_path, unsigned mode, struct err *err);

/* The times an operation happens at, read once by its caller. */
struct db_now {
    int64_t wall_ms;     /* to store and to print */
    int64_t boot_ms;     /* CLOCK_BOOTTIME: the idle clock */
    const char *boot_id; /* borrowed */
};

#endif
