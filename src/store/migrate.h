/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_MIGRATE_H
#define HUSK_STORE_MIGRATE_H

#include "base/err.h"
#include "store/db.h"

/*
 * The schema: sql/NNN_name.sql, embedded in the archive, one step of user_version each.  STRICT
 * tables, CHECKs for every closed set and length, foreign keys, INTEGER milliseconds, and the views
 * v_sessions and v_executions for a person with sqlite3.
 */

/* The version this program was built for (the number of the last step). */
int migrate_target(void);
/* The file's version. */
int migrate_version(struct db *db, int *ret, struct err *err);
/* Applies what is missing, all under one BEGIN IMMEDIATE that re-reads the version. *ret_applied:
 * how many steps. ERR_CONFLICT "database_version" if the file is newer than the program. Several
 * processes at once do no harm. ret_applied may be NULL. */
int migrate_apply(struct db *db, int *ret_applied, struct err *err);

#endif
