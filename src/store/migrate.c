/* SPDX-License-Identifier: MIT */
#include "store/migrate.h"

#include <stdio.h>

#include "store/sql.h"
#include "store/sql_steps.h"

#define N_STEPS ((int)(sizeof(sql_steps) / sizeof(sql_steps[0])))

int
migrate_target(void)
{
    return N_STEPS;
}

int
migrate_version(struct db *db, int *ret, struct err *err)
{
    int64_t version;

    if (sql_int(db, &version, err, "PRAGMA user_version", "") < 0)
        return -1;
    *ret = (int)version;
    return 0;
}

static int
apply_missing(struct db *db, void *ctx, struct err *err)
{
    int *applied = ctx;
    int version;
    char pragma[48];

    if (migrate_version(db, &version, err) < 0)
        return -1;
    if (version > N_STEPS)
        return err_slug(err, ERR_CONFLICT, "database_version",
                        "the database has version %d, made by a newer program than this, which "
                        "knows %d",
                        version, N_STEPS);
    for (int i = version; i < N_STEPS; i++)
        if (sql_exec(db, sql_steps[i].sql, err) < 0)
            return err_wrap(err, "step %s", sql_steps[i].name);
    (void)snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", N_STEPS);
    *applied = N_STEPS - version;
    return *applied ? sql_exec(db, pragma, err) : 0;
}

int
migrate_apply(struct db *db, int *ret_applied, struct err *err)
{
    int applied = 0;

    if (sql_tx(db, apply_missing, &applied, err) < 0)
        return -1;
    if (ret_applied)
        *ret_applied = applied;
    return 0;
}
