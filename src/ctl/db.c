/* SPDX-License-Identifier: MIT */
#include "ctl/ctl.h"

#include "base/priv.h"
#include "store/db.h"
#include "store/migrate.h"

static void
close_db(struct db **db)
{
    db_close(*db);
}

static int
open_db(struct ctl *c, unsigned flags, struct db **ret, struct err *err)
{
    ctl_say_source(c);
    settings_path(&c->settings, "db", c->paths.db);
    return db_open(c->paths.db, flags, ret, err) < 0 ? ctl_open_failed(c, err) : 0;
}

static int
run_migrate(struct ctl *c, struct err *err)
{
    _cleanup_(close_db) struct db *db = NULL;
    int applied = 0;
    /* the file has to be the service's, also where root makes it */
    if (priv_become_owner(c->settings.state_dir, err) < 0 || open_db(c, DB_CREATE, &db, err) < 0 ||
        migrate_apply(db, &applied, err) < 0)
        return -1;
    (void)buf_printf(&c->out, "%s is at version %d (%d steps applied)\n", c->paths.db,
                     migrate_target(), applied);
    return 0;
}

static int
run_check(struct ctl *c, struct err *err)
{
    _cleanup_(close_db) struct db *db = NULL;
    _cleanup_buf_ struct buf said = BUF_INIT(64 * 1024);
    if (open_db(c, 0, &db, err) < 0 || db_ping(db, err) < 0)
        return -1;
    if (db_check(db, &said, err) < 0)
        return said.len ? err_set(err, ERR_INTERNAL, "%s is damaged: %.300s", c->paths.db,
                                  buf_str(&said))
                        : -1;
    (void)buf_printf(&c->out, "%s is whole, at version %d\n", c->paths.db, migrate_target());
    return 0;
}

static int
run_backup(struct ctl *c, struct err *err)
{
    _cleanup_(close_db) struct db *db = NULL;
    if (open_db(c, 0, &db, err) < 0 || db_ping(db, err) < 0 ||
        db_backup(db, c->operand, DB_BACKUP_MODE, err) < 0)
        return -1;
    (void)buf_printf(&c->out, "%s is written\n", c->operand);
    return 0;
}

static int
run_snapshot(struct ctl *c, struct err *err)
{
    _cleanup_(close_db) struct db *db = NULL;
    if (open_db(c, 0, &db, err) < 0 || db_ping(db, err) < 0 ||
        db_backup(db, c->operand, DB_SNAPSHOT_MODE, err) < 0)
        return -1;
    (void)buf_printf(&c->out, "%s is written; look at it with sqlite3 -readonly\n", c->operand);
    return 0;
}

const struct ctl_command db_commands[] = {
    {"db migrate", NULL, "Make the database, or bring it to this program's version", NULL,
     run_migrate},
    {"db check", NULL, "Check the database's integrity", NULL, run_check},
    {"db backup", "FILE", "Copy the database, whole, to restore from; in use or not", NULL,
     run_backup},
    {"db snapshot", "FILE", "Copy the database for reading: queries there hinder nobody", NULL,
     run_snapshot},
    {NULL, NULL, NULL, NULL, NULL},
};
