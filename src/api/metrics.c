/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "model/execution.h"
#include "model/session.h"

/* Prometheus text format 0.0.4, from the scoreboard (what this service's workers did) and the
 * database (what there is). */
#define METRICS_MAX (256 * 1024)

_Static_assert(SCORE_REASONS == EXEC_REASONS && EXEC_REASONS == REASON_ABORTED + 1 &&
                   SESSION_STATES == SESSION_COLD + 1,
               "every reason and state is counted");

static void
family(struct buf *out, const char *name, const char *type, const char *help)
{
    (void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
gauge(struct buf *out, const char *name, const char *help, int64_t v)
{
    family(out, name, "gauge", help);
    (void)buf_printf(out, "%s %" PRId64 "\n", name, v);
}

/* One histogram, summed over all slots; offset is the histogram's place in a slot. */
static void
histogram(struct buf *out, struct scoreboard *b, size_t offset, const char *name, const char *help)
{
    uint64_t count[SCORE_BUCKETS] = {0}, sum_us = 0, total = 0;

    for (int i = 0; i < scoreboard_slots(b); i++) {
        const char *slot = (const char *)scoreboard_slot(b, i);
        const struct score_histogram *h = (const struct score_histogram *)(slot + offset);

        for (int k = 0; k < SCORE_BUCKETS; k++)
            count[k] += h->count[k];
        sum_us += h->sum_us;
    }
    family(out, name, "histogram", help);
    for (int k = 0; k < SCORE_BUCKETS; k++) {
        total += count[k];
        if (k < SCORE_BUCKETS - 1)
            (void)buf_printf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, score_bucket_s[k],
                             total);
        else
            (void)buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, total);
    }
    (void)buf_printf(out, "%s_sum %.6f\n%s_count %" PRIu64 "\n", name, (double)sum_us / 1e6, name,
                     total);
}

static void
requests(struct buf *out, struct scoreboard *b)
{
    family(out, "husk_requests_total", "counter", "Requests answered, by lane and status class.");
    for (int l = 0; l < LANE_COUNT; l++)
        for (int k = 1; k < SCORE_STATUS_CLASSES; k++) {
            uint64_t n = 0;

            for (int i = 0; i < scoreboard_slots(b); i++)
                n += scoreboard_slot(b, i)->requests_by[l][k];
            (void)buf_printf(out, "husk_requests_total{lane=\"%s\",class=\"%dxx\"} %" PRIu64 "\n",
                             lane_name((enum lane)l), k, n);
        }
}

static void
executions(struct buf *out, struct scoreboard *b)
{
    family(out, "husk_executions_total", "counter", "Executions ended by this service, by reason.");
    for (int r = REASON_COMPLETED; r <= REASON_ABORTED; r++) {
        uint64_t n = 0;

        for (int i = 0; i < scoreboard_slots(b); i++)
            n += scoreboard_slot(b, i)->executions[r];
        (void)buf_printf(out, "husk_executions_total{reason=\"%s\"} %" PRIu64 "\n",
                         exec_reason_name((enum exec_reason)r), n);
    }
}

static void
workers(struct buf *out, struct scoreboard *b)
{
    static const struct {
        enum slot_state state;
        const char *name;
    } states[] = {{SLOT_STARTING, "starting"}, {SLOT_IDLE, "idle"},       {SLOT_WORKING, "working"},
                  {SLOT_DRAINING, "draining"}, {SLOT_CLAIMED, "claimed"}, {SLOT_ENDING, "ending"}};
    uint64_t in = 0, bytes_out = 0;

    family(out, "husk_workers", "gauge", "Workers by lane and state.");
    for (int l = 0; l < LANE_COUNT; l++)
        for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++)
            (void)buf_printf(out, "husk_workers{lane=\"%s\",state=\"%s\"} %d\n",
                             lane_name((enum lane)l), states[s].name,
                             scoreboard_count(b, (enum lane)l, states[s].state));
    for (int i = 0; i < scoreboard_slots(b); i++) {
        in += scoreboard_slot(b, i)->bytes_in;
        bytes_out += scoreboard_slot(b, i)->bytes_out;
    }
    family(out, "husk_received_bytes_total", "counter", "Bytes of request bodies.");
    (void)buf_printf(out, "husk_received_bytes_total %" PRIu64 "\n", in);
    family(out, "husk_sent_bytes_total", "counter", "Bytes of response bodies.");
    (void)buf_printf(out, "husk_sent_bytes_total %" PRIu64 "\n", bytes_out);
}

static void
from_scoreboard(struct buf *out, struct scoreboard *b)
{
    requests(out, b);
    executions(out, b);
    workers(out, b);
    histogram(out, b, offsetof(struct score_slot, request_time), "husk_request_seconds",
              "Time from accept to the end of the answer.");
    histogram(out, b, offsetof(struct score_slot, exec_time), "husk_execution_seconds",
              "Time executions ran, without their wait for a turn.");
    histogram(out, b, offsetof(struct score_slot, gateway_time), "husk_gateway_seconds",
              "Time of the calls that open, restart and close runtimes at the gateway.");
}

static void
from_database(struct buf *out, const struct manager_stats *s)
{
    family(out, "husk_sessions", "gauge", "Sessions by state.");
    for (int i = SESSION_OPENING; i <= SESSION_COLD; i++)
        (void)buf_printf(out, "husk_sessions{state=\"%s\"} %" PRId64 "\n",
                         session_state_name((enum session_state)i), s->sessions[i]);
    family(out, "husk_runtimes", "gauge", "Runtimes that count against the cap, by state.");
    (void)buf_printf(out,
                     "husk_runtimes{state=\"live\"} %" PRId64
                     "\nhusk_runtimes{state=\"starting\"} %" PRId64
                     "\nhusk_runtimes{state=\"quarantined\"} %" PRId64 "\n",
                     s->runtimes_live, s->runtimes_starting, s->runtimes_quarantined);
    gauge(out, "husk_pool_runtimes", "Runtimes that wait for a session.", s->runtimes_pooled);
    family(out, "husk_history_executions", "gauge",
           "Executions ended since the database was made, by reason.");
    for (int r = REASON_COMPLETED; r <= REASON_ABORTED; r++)
        (void)buf_printf(out, "husk_history_executions{reason=\"%s\"} %" PRId64 "\n",
                         exec_reason_name((enum exec_reason)r), s->executions_by_reason[r]);
    gauge(out, "husk_turn_waiters", "Executions that wait for their turn.", s->waiting_turns);
    gauge(out, "husk_workspaces", "Workspaces on disk.", s->workspaces);
    gauge(out, "husk_workspaces_kept", "Workspaces kept without a session.", s->workspaces_kept);
    gauge(out, "husk_workspaces_kept_bytes", "What those take on disk.", s->workspaces_kept_bytes);
    family(out, "husk_workspaces_dropped_total", "counter",
           "Kept workspaces dropped over SANDBOX_WORKSPACES_MAX_BYTES or DAYTONA_MAX_KEPT.");
    (void)buf_printf(out, "husk_workspaces_dropped_total %" PRId64 "\n", s->workspaces_dropped);
    gauge(out, "husk_database_bytes", "Size of the database.", s->db_bytes);
    gauge(out, "husk_database_wal_bytes", "Size of its write-ahead log.", s->wal_bytes);
    family(out, "husk_last_sweep_timestamp_seconds", "gauge", "When the reaper last swept.");
    (void)buf_printf(out, "husk_last_sweep_timestamp_seconds %.3f\n",
                     (double)s->last_sweep_at / 1000);
}

static void
backend_gauge(struct buf *out, const struct manager_stats *s, size_t offset, const char *name,
              const char *help)
{
    family(out, name, "gauge", help);
    for (int i = 0; i < s->n_backends; i++) {
        const char *b = (const char *)&s->backends[i];
        int64_t v;

        memcpy(&v, b + offset, sizeof v);
        (void)buf_printf(out, "%s{backend=\"%s\"} %" PRId64 "\n", name, s->backends[i].name, v);
    }
}

static void
backends(struct buf *out, const struct manager_stats *s)
{
    backend_gauge(out, s, offsetof(struct backend_stats, sessions), "husk_backend_sessions",
                  "Sessions by backend.");
    backend_gauge(out, s, offsetof(struct backend_stats, runtimes), "husk_backend_runtimes",
                  "Runtimes by backend, without the pool's.");
    backend_gauge(out, s, offsetof(struct backend_stats, max_runtimes), "husk_backend_runtimes_max",
                  "How many it may have; 0: the backend is not set up any more.");
    backend_gauge(out, s, offsetof(struct backend_stats, workspaces_kept),
                  "husk_backend_workspaces_kept",
                  "Workspaces kept without a session: at Daytona, stopped sandboxes.");
}

static void
alarms(struct buf *out, const struct alarm *list, int n)
{
    family(out, "husk_alarms", "gauge", "What an operator should look at, by kind.");
    for (size_t k = 0; alarm_kinds[k] != NULL; k++) {
        int found = 0;

        for (int i = 0; i < n; i++)
            found += strcmp(list[i].what, alarm_kinds[k]) == 0;
        (void)buf_printf(out, "husk_alarms{what=\"%s\"} %d\n", alarm_kinds[k], found);
    }
}

static void
about(struct buf *out, const struct api_options *o)
{
    const struct manager_isolation *i = manager_isolation(o->manager);

    family(out, "husk_info", "gauge",
           "What this is: version, isolation tier, egress and disk bound in force, kernel.");
    (void)buf_printf(out,
                     "husk_info{version=\"%s\",isolation=\"%s\",egress=\"%s\",disk=\"%s\","
                     "kernel=\"%s\"} 1\n",
                     o->version, i->tier, i->egress, i->disk,
                     o->kernel_name != NULL ? o->kernel_name : "");
    gauge(out, "husk_isolation_ready", "1: kernels may be started as the settings demand.",
          i->ready);
    gauge(out, "husk_sandboxes", "Sandboxes the keeper has.", i->sandboxes);
}

void
handle_metrics(struct api_call *c)
{
    _cleanup_buf_ struct buf out = BUF_INIT(METRICS_MAX);
    const struct api_options *o = &c->api->o;
    struct manager_stats stats = {0};
    struct alarm list[MANAGER_ALARMS_MAX];
    struct err err = ERR_INIT;
    int n = 0;

    if (manager_stats(o->manager, &stats, &err) < 0 ||
        (n = manager_alarms(o->manager, list, &err)) < 0) {
        api_problem(c, &err);
        return;
    }
    about(&out, o);
    if (o->scoreboard != NULL)
        from_scoreboard(&out, o->scoreboard);
    from_database(&out, &stats);
    backends(&out, &stats);
    alarms(&out, list, n);
    if (buf_check(&out, "the metrics", &err) < 0) {
        api_problem(c, &err);
        return;
    }
    api_renew(c);
    api_head(c, "no-store");
    (void)http_send(c->x, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
}
