/* SPDX-License-Identifier: MIT */
#include "store/alarm_store.h"

#include "store/sql.h"

int
alarm_store_list(struct db *db, struct alarm *ret, int max, struct err *err)
{
    _cleanup_sql_ sqlite3_stmt *s = NULL;
    int n = 0;
    int r;

    for (r = sql_first(db, &s, err, "SELECT what, owner, name, detail FROM v_alarms LIMIT ?", "d",
                       max);
         r > 0; r = sql_next(db, &s, err)) {
        sql_text(s, 0, ret[n].what, sizeof(ret[n].what));
        sql_text(s, 1, ret[n].owner, sizeof(ret[n].owner));
        sql_text(s, 2, ret[n].name, sizeof(ret[n].name));
        sql_text(s, 3, ret[n].detail, sizeof(ret[n].detail));
        n++;
    }
    return r < 0 ? -1 : n;
}
