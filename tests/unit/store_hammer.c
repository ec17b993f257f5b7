/* SPDX-License-Identifier: MIT */
/*
 * store_hammer DATABASE CAP TRANSACTIONS: one of the many processes of test_store_processes.  Opens
 * (and if need be makes) the database and goes through a worker's life: open a session, run
 * something once, close.  Exit status 0 when every call was answered and the cap held, else 1 with
 * the reason on stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/num.h"
#include "store/db.h"
#include "store/execution_store.h"
#include "store/migrate.h"
#include "store/session_store.h"

struct hammer {
    struct db *db;
    struct db_now now;
    char boot_id[CLOCK_BOOT_ID_SIZE];
    int64_t cap, left;
};

static int
failed(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "%d: %s: %s (%s)\n", (int)getpid(), what, err->msg,
                  err->slug ? err->slug : err_name(err->code));
    return -1;
}

static int
check_cap(struct hammer *h)
{
    struct session_counts c;
    struct err err = ERR_INIT;

    if (session_store_counts(h->db, &c, &err) < 0)
        return failed("counts", &err);
    if (c.starting + c.live + c.quarantined > h->cap) {
        (void)fprintf(stderr, "the cap was exceeded\n");
        return -1;
    }
    return 0;
}

/* One execution; every process also tries to be the one that runs request "shared-N". */
static int
run_once(struct hammer *h, const struct session *s, int round)
{
    struct execution row = {.sid = s->sid, .generation = s->generation}, seen;
    struct execution_begin_args a = {
        .row = &row, .key_id = "", .body_sha256 = row.code_sha256, .pid = getpid(), .now = h->now};
    enum execution_begin_outcome how;
    struct err err = ERR_INIT;

    id_uuid4(row.eid);
    (void)snprintf(row.session_name, sizeof(row.session_name), "%s", s->name);
    (void)snprintf(row.owner, sizeof(row.owner), "%s", s->owner);
    (void)snprintf(row.request_id, sizeof(row.request_id), "shared-%d", round);
    memset(row.code_sha256, 'a', 64);
    row.created_at = row.started_at = h->now.wall_ms;
    if (execution_store_begin(h->db, &a, &how, &seen, &err) < 0)
        return failed("begin", &err);
    if (how != EXECUTION_BEGIN_OK)
        return how == EXECUTION_BEGIN_DUPLICATE ? 0 : failed("begin: an odd outcome", &err);
    row.reason = REASON_COMPLETED;
    row.ended_at = h->now.wall_ms;
    if (execution_store_finish(h->db, &row, FINISH_TELLS_LOST, &h->now, NULL, &err) != 1)
        return failed("finish", &err);
    h->left--;
    return 0;
}

static int
close_session(struct hammer *h, int64_t sid)
{
    struct session_close_args c = {.sid = sid, .why = SESSION_END_CLOSED, .now = h->now};
    struct err err = ERR_INIT;

    if (session_store_begin_close(h->db, &c, NULL, &err) != 1)
        return failed("close", &err);
    if (session_store_finish_close(h->db, sid, true, WORKSPACE_REMOVED, &h->now, &err) != 1)
        return failed("finish close", &err);
    return 0;
}

static int
one_life(struct hammer *h, int round)
{
    char name[32], handle[ID_UUID_SIZE];
    struct session_open_args a = {
        .owner = "o",
        .name = name,
        .binding = BIND_NONE,
        .backend = "jupyter",
        .default_ttl_ms = 60000,
        .new_sid = id_random_i64(),
        .new_workspace = id_random_i64(),
        .max_sessions = h->cap,
        .max_per_owner = h->cap,
        .now = h->now,
    };
    enum session_open_outcome how;
    struct session s = {0};
    struct err err = ERR_INIT;
    int r;

    (void)snprintf(name, sizeof(name), "s%d-%d", (int)getpid(), round);
    id_uuid4(handle);
    if (session_store_open(h->db, &a, &how, &s, &err) < 0)
        return failed("open", &err);
    h->left--;
    if (how == SESSION_OPEN_FULL || how == SESSION_OPEN_OWNER_FULL)
        return check_cap(h);
    r = session_store_opened(h->db, s.sid, 1, handle, "ks", &h->now, &err) == 1
            ? 0
            : failed("opened", &err);
    if (r == 0)
        r = check_cap(h);
    if (r == 0)
        r = run_once(h, &s, round);
    if (r == 0)
        r = close_session(h, s.sid);
    h->left -= 3;
    session_done(&s);
    return r;
}

int
main(int argc, char **argv)
{
    struct hammer h = {.left = 0};
    struct err err = ERR_INIT;
    int r = 0;

    if (argc != 4 || !num_i64(argv[2], strlen(argv[2]), 1, 1000, &h.cap) ||
        !num_i64(argv[3], strlen(argv[3]), 1, 1000000, &h.left))
        return 2;
    clock_boot_id(h.boot_id);
    h.now = (struct db_now){clock_wall_ms(), clock_boot_ms(), h.boot_id};
    if (db_open(argv[1], DB_CREATE, &h.db, &err) < 0 || migrate_apply(h.db, NULL, &err) < 0 ||
        session_store_reboot(h.db, &h.now, &err) < 0)
        return failed("start", &err) != 0;
    for (int round = 0; r == 0 && h.left > 0; round++)
        r = one_life(&h, round);
    db_close(h.db);
    return r != 0;
}
