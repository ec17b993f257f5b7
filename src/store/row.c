/* SPDX-License-Identifier: MIT */
#include "store/row.h"

#include <string.h>

#define BACK_OFF_FIRST_MS 2000
#define BACK_OFF_MOST_MS (5 * 60 * 1000)

static const char *const bindings[] = {
    [BIND_NONE] = "none",
    [BIND_SESSION] = "session",
    [BIND_CONVERSATION] = "conversation",
    [BIND_WORKFLOW_RUN] = "workflow_run",
};

const char *
row_binding_name(enum session_binding b)
{
    return bindings[b];
}

static enum session_binding
binding_of(const char *name)
{
    for (size_t i = 0; i < sizeof(bindings) / sizeof(bindings[0]); i++)
        if (strcmp(bindings[i], name) == 0)
            return (enum session_binding)i;
    return BIND_NONE;
}

void
row_session(sqlite3_stmt *s, struct session *ret)
{
    char word[16];
    const char *labels = (const char *)sqlite3_column_text(s, 18);

    memset(ret, 0, sizeof(*ret));
    ret->sid = sqlite3_column_int64(s, 0);
    ret->workspace_id = sqlite3_column_int64(s, 1);
    sql_text(s, 2, ret->owner, sizeof(ret->owner));
    sql_text(s, 3, ret->name, sizeof(ret->name));
    sql_text(s, 4, word, sizeof(word));
    ret->binding = binding_of(word);
    sql_text(s, 5, ret->binding_value, sizeof(ret->binding_value));
    sql_text(s, 6, word, sizeof(word));
    (void)session_state_parse(word, &ret->state);
    sql_text(s, 7, ret->backend, sizeof(ret->backend));
    sql_text(s, 8, ret->handle, sizeof(ret->handle));
    sql_text(s, 9, ret->kernel_session, sizeof(ret->kernel_session));
    ret->generation = sqlite3_column_int64(s, 10);
    ret->ttl_ms = sqlite3_column_int64(s, 11);
    ret->created_at = sqlite3_column_int64(s, 12);
    ret->last_work_at = sqlite3_column_int64(s, 13);
    ret->last_work_boot_ms = sqlite3_column_int64(s, 14);
    sql_text(s, 15, ret->boot_id, sizeof(ret->boot_id));
    sql_text(s, 16, ret->busy_execution, sizeof(ret->busy_execution));
    ret->busy_since = sqlite3_column_int64(s, 17);
    ret->labels = xstrdup(labels ? labels : "{}");
    ret->state_lost = sqlite3_column_int(s, 19) != 0;
    ret->files_kept = sqlite3_column_int(s, 20) != 0;
    ret->unbound = sqlite3_column_int(s, 21) != 0;
    ret->temporary = sqlite3_column_int(s, 22) != 0;
}

void
row_execution(sqlite3_stmt *s, struct execution *ret)
{
    char reason[16];

    memset(ret, 0, sizeof(*ret));
    sql_text(s, 0, ret->eid, sizeof(ret->eid));
    ret->sid = sqlite3_column_int64(s, 1);
    sql_text(s, 2, ret->session_name, sizeof(ret->session_name));
    sql_text(s, 3, ret->owner, sizeof(ret->owner));
    sql_text(s, 4, ret->request_id, sizeof(ret->request_id));
    sql_text(s, 5, ret->client_request_id, sizeof(ret->client_request_id));
    ret->created_at = sqlite3_column_int64(s, 6);
    ret->started_at = sqlite3_column_int64(s, 7);
    ret->ended_at = sqlite3_column_int64(s, 8);
    ret->duration_ms = sqlite3_column_int64(s, 9);
    ret->waited_ms = sqlite3_column_int64(s, 10);
    ret->ok = sqlite3_column_int(s, 11) != 0;
    sql_text(s, 12, reason, sizeof(reason));
    if (!exec_reason_parse(reason, &ret->reason))
        ret->reason = REASON_NONE;
    ret->bytes_stdout = sqlite3_column_int64(s, 13);
    ret->bytes_stderr = sqlite3_column_int64(s, 14);
    ret->bytes_rich = sqlite3_column_int64(s, 15);
    sql_text(s, 16, ret->error_name, sizeof(ret->error_name));
    ret->truncated = sqlite3_column_int(s, 17) != 0;
    ret->runtime_invalidated = sqlite3_column_int(s, 18) != 0;
    sql_text(s, 19, ret->code_sha256, sizeof(ret->code_sha256));
    ret->generation = sqlite3_column_int64(s, 20);
}

int
row_abandon_start(struct db *db, int64_t sid, int64_t generation, const struct db_now *now,
                  struct err *err)
{
    return sql_run(db, err,
                   "UPDATE runtimes SET sid = NULL, created_at = ?3 WHERE sid = ?1"
                   " AND generation = ?2 AND state = 'starting' AND handle = ''",
                   "iii", sid, generation, now->wall_ms);
}

int64_t
row_back_off_ms(int64_t tries)
{
    int64_t ms = BACK_OFF_FIRST_MS;

    while (tries-- > 0 && ms < BACK_OFF_MOST_MS)
        ms *= 2;
    return ms < BACK_OFF_MOST_MS ? ms : BACK_OFF_MOST_MS;
}

int
row_free_workspace(struct db *db, int64_t workspace_id, enum workspace_fate fate,
                   const struct db_now *now, struct err *err)
{
    switch (fate) {
    case WORKSPACE_REMOVED:
        return sql_run(db, err, "DELETE FROM workspaces WHERE workspace_id = ?", "i", workspace_id);
    case WORKSPACE_DOOMED:
        return sql_run(db, err, "UPDATE workspaces SET state = 'doomed' WHERE workspace_id = ?",
                       "i", workspace_id);
    case WORKSPACE_KEPT:
        break;
    }
    /* At most one is kept of a name: the newer files are the ones that count. */
    if (sql_run(db, err,
                "UPDATE workspaces SET state = 'doomed', kept_since = NULL, kept_bytes = NULL"
                " WHERE state = 'kept' AND (owner, name) = (SELECT owner, name FROM workspaces "
                "WHERE workspace_id = ?)",
                "i", workspace_id) < 0)
        return -1;
    return sql_run(db, err,
                   "UPDATE workspaces SET state = 'kept', kept_since = ?2 WHERE workspace_id = ?1",
                   "ii", workspace_id, now->wall_ms);
}
