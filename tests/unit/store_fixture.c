/* SPDX-License-Identifier: MIT */
#include "unit/store_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "store/migrate.h"
#include "support/tmpdir.h"

int
store_fixture_setup(void **state)
{
    struct store_fixture *f = xcalloc(1, sizeof(*f));
    struct err err = ERR_INIT;

    tmpdir_make(f->dir);
    (void)tmpdir_path(f->path, f->dir, "husk.db");
    f->now = (struct db_now){INT64_C(1800000000000), 1000000, "boot-1"};
    if (db_open(f->path, DB_CREATE, &f->db, &err) < 0 || migrate_apply(f->db, NULL, &err) < 0 ||
        session_store_reboot(f->db, &f->now, &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        *state = f; /* cmocka runs no teardown after a setup that failed */
        (void)store_fixture_teardown(state);
        return -1;
    }
    *state = f;
    return 0;
}

int
store_fixture_teardown(void **state)
{
    struct store_fixture *f = *state;

    db_close(f->db);
    tmpdir_remove(f->dir);
    free(f);
    return 0;
}

void
store_fixture_pass(struct store_fixture *f, int64_t ms)
{
    f->now.wall_ms += ms;
    f->now.boot_ms += ms;
}

const char *
store_fixture_ask(const struct store_fixture *f, const char *sql)
{
    static char text[4096];
    sqlite3 *h;
    sqlite3_stmt *s;

    text[0] = '\0';
    if (sqlite3_open_v2(f->path, &h, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return "cannot open";
    if (sqlite3_prepare_v2(h, sql, -1, &s, NULL) != SQLITE_OK) {
        (void)snprintf(text, sizeof(text), "%s", sqlite3_errmsg(h));
    } else {
        if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 0))
            (void)snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(s, 0));
        (void)sqlite3_finalize(s);
    }
    (void)sqlite3_close(h);
    return text;
}

struct session_open_args
store_fixture_open_args(const struct store_fixture *f, const char *owner, const char *name)
{
    return (struct session_open_args){
        .owner = owner,
        .name = name,
        .binding = BIND_SESSION,
        .value = name,
        .value_len = strlen(name),
        .backend = "jupyter",
        .default_ttl_ms = 60000,
        .new_sid = id_random_i64(),
        .new_workspace = id_random_i64(),
        .holder_pid = 1,
        .max_sessions = 5,
        .max_per_owner = 3,
        .workspace_retention_ms = 3600000,
        .now = f->now,
    };
}

enum session_open_outcome
store_fixture_open(const struct store_fixture *f, const char *owner, const char *name,
                   int64_t *ret_sid)
{
    struct session_open_args a = store_fixture_open_args(f, owner, name);
    enum session_open_outcome how;
    struct session s = {0};
    struct err err = ERR_INIT;

    if (session_store_open(f->db, &a, &how, &s, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    if (ret_sid)
        *ret_sid = s.sid;
    session_done(&s);
    return how;
}

int64_t
store_fixture_ready(const struct store_fixture *f, const char *owner, const char *name)
{
    char handle[HANDLE_MAX + 1];
    int64_t sid;

    (void)snprintf(handle, sizeof(handle), "k-%.100s", name);
    if (store_fixture_open(f, owner, name, &sid) != SESSION_OPEN_NEW ||
        session_store_opened(f->db, sid, 1, handle, "ks", &f->now, NULL) != 1)
        abort();
    return sid;
}

const char *
store_fixture_state(const struct store_fixture *f, int64_t sid)
{
    struct session s;
    const char *name;

    if (session_store_by_sid(f->db, sid, &s, NULL) != 1)
        return "gone";
    name = session_state_name(s.state);
    session_done(&s);
    return name;
}

struct execution_begin_args
store_fixture_exec_args(const struct store_fixture *f, int64_t sid, const char *request_id,
                        struct execution *row)
{
    struct session s;

    if (session_store_by_sid(f->db, sid, &s, NULL) != 1)
        abort();
    memset(row, 0, sizeof(*row));
    id_uuid4(row->eid);
    row->sid = sid;
    row->generation = s.generation;
    (void)snprintf(row->session_name, sizeof(row->session_name), "%s", s.name);
    (void)snprintf(row->owner, sizeof(row->owner), "%s", s.owner);
    (void)snprintf(row->request_id, sizeof(row->request_id), "%s", request_id);
    memset(row->code_sha256, 'a', 64);
    row->created_at = row->started_at = f->now.wall_ms;
    session_done(&s);
    return (struct execution_begin_args){
        .row = row,
        .key_id = "",
        .body_sha256 = row->code_sha256,
        .idempotency_retention_ms = 3600000,
        .pid = 1,
        .now = f->now,
    };
}
