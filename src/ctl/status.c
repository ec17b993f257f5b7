/* SPDX-License-Identifier: MIT */
#include "ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>

#include "super/scoreboard.h"

static const char *const slot_states[] = {
    [SLOT_EMPTY] = "empty",     [SLOT_STARTING] = "starting", [SLOT_IDLE] = "idle",
    [SLOT_WORKING] = "working", [SLOT_DRAINING] = "draining", [SLOT_CLAIMED] = "claimed",
    [SLOT_ENDING] = "ending",
};

#define ALARMS_MAX (MANAGER_ALARMS_MAX + 32) /* the manager's and the workers' */

/* One worker, copied out of its slot. */
struct worker_line {
    int pid;
    enum lane lane;
    enum slot_state state;
    int64_t since_ms; /* how long in this state */
    uint64_t requests;
};

/* 1 a worker is there, 0 not. */
static int
read_slot(struct scoreboard *b, int i, struct worker_line *ret)
{
    struct score_slot *s = scoreboard_slot(b, i);
    int state = atomic_load(&s->state), lane = atomic_load(&s->lane);
    if (state <= SLOT_EMPTY || state > SLOT_ENDING || lane < 0 || lane >= LANE_COUNT)
        return 0;
    *ret = (struct worker_line){.pid = atomic_load(&s->pid),
                                .lane = (enum lane)lane,
                                .state = (enum slot_state)state,
                                .since_ms = clock_mono_ms() - atomic_load(&s->since_ms),
                                .requests = atomic_load(&s->requests)};
    return ret->pid > 0;
}

/* Adds the workers that are past the deadline they promised: the master kills them soon, if it
 * lives. Returns how many alarms there are then. */
static int
add_overdue(struct scoreboard *b, struct alarm *alarms, int n)
{
    int64_t now = clock_mono_ms();
    for (int i = 0; b && i < scoreboard_slots(b) && n < ALARMS_MAX; i++) {
        struct score_slot *s = scoreboard_slot(b, i);
        int64_t deadline_ms = atomic_load(&s->deadline_ms);
        int state = atomic_load(&s->state);
        if (state == SLOT_EMPTY || state == SLOT_IDLE || deadline_ms <= 0 || deadline_ms >= now)
            continue;
        alarms[n] = (struct alarm){.what = ALARM_WORKER};
        snprintf(alarms[n++].detail, sizeof(alarms->detail),
                 "process %d is %" PRId64 " s past its deadline", (int)atomic_load(&s->pid),
                 (now - deadline_ms) / 1000);
    }
    return n;
}

static void
put_alarms(struct json_writer *w, const struct alarm *alarms, int n)
{
    jw_array(w, "alarms");
    for (int i = 0; i < n; i++) {
        jw_object(w, NULL);
        jw_string(w, "what", alarms[i].what);
        jw_string(w, "owner", alarms[i].owner);
        jw_string(w, "session_id", alarms[i].name);
        jw_string(w, "detail", alarms[i].detail);
        jw_end_object(w);
    }
    jw_end_array(w);
}

static void
print_alarms(struct buf *out, const struct alarm *alarms, int n)
{
    for (int i = 0; i < n; i++)
        (void)buf_printf(out, "ALARM:      %s: %s%s%s%s%s\n", alarms[i].what, alarms[i].owner,
                         alarms[i].name[0] ? "/" : "", alarms[i].name,
                         alarms[i].name[0] ? ": " : "", alarms[i].detail);
}

static void
put_backends(struct json_writer *w, const struct manager_stats *m)
{
    jw_array(w, "backends");
    for (int i = 0; i < m->n_backends; i++) {
        const struct backend_stats *b = &m->backends[i];
        jw_object(w, NULL);
        jw_string(w, "name", b->name);
        jw_bool(w, "set_up", b->set_up);
        jw_i64(w, "sessions", b->sessions);
        jw_i64(w, "runtimes", b->runtimes);
        jw_i64(w, "max_runtimes", b->max_runtimes);
        jw_i64(w, "kept", b->workspaces_kept);
        if (b->max_kept > 0)
            jw_i64(w, "max_kept", b->max_kept);
        jw_end_object(w);
    }
    jw_end_array(w);
}

static void
print_backends(struct buf *out, const struct manager_stats *m)
{
    for (int i = 0; i < m->n_backends; i++) {
        const struct backend_stats *b = &m->backends[i];
        (void)buf_printf(out, "%-11s %s: %" PRId64 " sessions, %" PRId64 " runtimes",
                         i == 0 ? "backends:" : "", b->name, b->sessions, b->runtimes);
        if (b->set_up)
            (void)buf_printf(out, " (at most %" PRId64 ")", b->max_runtimes);
        (void)buf_printf(out, ", %" PRId64 " kept after their session", b->workspaces_kept);
        if (b->max_kept > 0)
            (void)buf_printf(out, " (at most %" PRId64 ")", b->max_kept);
        (void)buf_puts(out, b->set_up ? "\n" : "; it is not set up here any more\n");
    }
}

static void
print_json(struct ctl *c, struct scoreboard *b, const struct manager_stats *m,
           const struct alarm *alarms, int n_alarms)
{
    struct json_writer w;
    struct worker_line l;
    jw_init(&w, &c->out);
    jw_object(&w, NULL);
    jw_object(&w, "sessions");
    for (int s = SESSION_OPENING; s <= SESSION_COLD; s++)
        jw_i64(&w, session_state_name((enum session_state)s), m->sessions[s]);
    jw_end_object(&w);
    jw_object(&w, "runtimes");
    jw_i64(&w, "live", m->runtimes_live);
    jw_i64(&w, "starting", m->runtimes_starting);
    jw_i64(&w, "quarantined", m->runtimes_quarantined);
    jw_i64(&w, "max", c->settings.max_sessions);
    jw_i64(&w, "pooled", m->runtimes_pooled);
    jw_i64(&w, "pool_size", c->settings.pool_size);
    jw_end_object(&w);
    put_backends(&w, m);
    jw_i64(&w, "waiting_turns", m->waiting_turns);
    jw_object(&w, "workspaces");
    jw_i64(&w, "all", m->workspaces);
    jw_i64(&w, "kept", m->workspaces_kept);
    jw_i64(&w, "kept_bytes", m->workspaces_kept_bytes);
    jw_i64(&w, "max_kept_bytes", c->settings.workspaces_max_bytes);
    jw_i64(&w, "dropped", m->workspaces_dropped);
    jw_end_object(&w);
    jw_object(&w, "database");
    jw_i64(&w, "bytes", m->db_bytes);
    jw_i64(&w, "wal_bytes", m->wal_bytes);
    jw_end_object(&w);
    jw_time(&w, "last_sweep_at", m->last_sweep_at);
    put_alarms(&w, alarms, n_alarms);
    jw_array(&w, "workers");
    for (int i = 0; b && i < scoreboard_slots(b); i++) {
        if (!read_slot(b, i, &l))
            continue;
        jw_object(&w, NULL);
        jw_i64(&w, "pid", l.pid);
        jw_string(&w, "lane", lane_name(l.lane));
        jw_string(&w, "state", slot_states[l.state]);
        jw_i64(&w, "since_ms", l.since_ms);
        jw_i64(&w, "requests", (int64_t)l.requests);
        jw_end_object(&w);
    }
    jw_end_array(&w);
    jw_end_object(&w);
    (void)buf_putc(&c->out, '\n');
}

static void
print_text(struct ctl *c, struct scoreboard *b, const struct manager_stats *m, const char *why)
{
    char at[CLOCK_RFC3339_SIZE];
    (void)buf_puts(&c->out, "sessions:  ");
    for (int s = SESSION_OPENING; s <= SESSION_COLD; s++)
        (void)buf_printf(&c->out, " %s %" PRId64, session_state_name((enum session_state)s),
                         m->sessions[s]);
    (void)buf_printf(
        &c->out,
        "\nkernels:    live %" PRId64 " starting %" PRId64 " quarantined %" PRId64
        " (at most %" PRId64 ")\npool:       %" PRId64 " of %" PRId64
        " wait for a session\nwaiting:    %" PRId64 " for their turn\nworkspaces: %" PRId64
        ", %" PRId64 " of them kept after their session: %" PRId64 " bytes of %" PRId64 ", %" PRId64
        " dropped so far\ndatabase:   %" PRId64 " bytes, write-ahead log %" PRId64
        "\nlast sweep: %s\n",
        m->runtimes_live, m->runtimes_starting, m->runtimes_quarantined, c->settings.max_sessions,
        m->runtimes_pooled, c->settings.pool_size, m->waiting_turns, m->workspaces,
        m->workspaces_kept, m->workspaces_kept_bytes, c->settings.workspaces_max_bytes,
        m->workspaces_dropped, m->db_bytes, m->wal_bytes, ctl_time(m->last_sweep_at, at));
    print_backends(&c->out, m);
    if (!b) {
        (void)buf_printf(&c->out, "workers:    none are running (%s)\n", why);
        return;
    }
    (void)buf_printf(&c->out, "\n%-6s %8s %-9s %12s %10s\n", "LANE", "PID", "STATE", "FOR",
                     "REQUESTS");
    for (int i = 0; i < scoreboard_slots(b); i++) {
        struct worker_line l;
        if (read_slot(b, i, &l))
            (void)buf_printf(&c->out, "%-6s %8d %-9s %10.1f s %10" PRIu64 "\n", lane_name(l.lane),
                             l.pid, slot_states[l.state], (double)l.since_ms / 1000, l.requests);
    }
}

static int
run_status(struct ctl *c, struct err *err)
{
    _cleanup_manager_ struct manager *m = NULL;
    struct manager_stats stats;
    struct scoreboard *b = NULL;
    struct err none = ERR_INIT;
    struct alarm alarms[ALARMS_MAX];
    int n;
    char path[SETTINGS_PATH_MAX];
    if (ctl_manager(c, &m, err) < 0 || manager_stats(m, &stats, err) < 0 ||
        (n = manager_alarms(m, alarms, err)) < 0)
        return -1;
    if (scoreboard_attach(settings_path(&c->settings, "scoreboard", path), false, &b, &none) < 0)
        b = NULL;
    n = add_overdue(b, alarms, n);
    if (ctl_value(c, "json")) {
        print_json(c, b, &stats, alarms, n);
    } else {
        print_alarms(&c->out, alarms, n);
        print_text(c, b, &stats, none.msg);
    }
    if (b)
        scoreboard_free(b);
    return 0;
}

static const struct ctl_option options[] = {
    {"json", NULL, "as one JSON object"},
    {NULL, NULL, NULL},
};

const struct ctl_command status_commands[] = {
    {"status", NULL, "Show workers, sessions and sizes", options, run_status},
    {NULL, NULL, NULL, NULL, NULL},
};
