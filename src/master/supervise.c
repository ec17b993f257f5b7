/* SPDX-License-Identifier: MIT */
#include "master/master.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/notify.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SPARE_SLOTS 64 /* for a reload that wants more workers */

static int64_t
wanted(const struct settings *s, int kind)
{
    switch (kind) {
    case LANE_EXEC:
        return s->workers_exec;
    case LANE_API:
        return s->workers_api;
    case LANE_BULK:
        return s->workers_bulk;
    case LANE_CTL:
        return s->workers_ctl;
    default:
        return 1; /* the reaper */
    }
}

static int64_t
wanted_workers(const struct settings *s)
{
    int64_t sum = 0;

    for (int l = 0; l < LANE_COUNT; l++)
        sum += wanted(s, l);
    return sum;
}

int
supervise_slots(const struct settings *s)
{
    return (int)(2 * wanted_workers(s) + SPARE_SLOTS);
}

/* Those of a kind and the present generation that were not told to end. */
static void
count(const struct master *m, int kind, int64_t *ret_there, int64_t *ret_ready)
{
    *ret_there = *ret_ready = 0;
    for (int i = 0; i < m->n_children; i++) {
        const struct child *c = &m->children[i];

        if (c->pid == 0 || c->kind != kind || c->generation != m->generation || c->ending)
            continue;
        ++*ret_there;
        *ret_ready += c->ready;
    }
}

/* Ends the children of a kind that are neither of the present generation nor of that which serves
 * until the present one is ready: a reload may come before the last one's children were, and those
 * would hold their slots for ever. A request may take as long as the longest execution; nothing
 * takes longer than this. */
static void
retire(struct master *m, int kind)
{
    const struct settings *s = &m->settings;

    for (int i = 0; i < m->n_children; i++) {
        struct child *c = &m->children[i];

        if (c->pid != 0 && c->kind == kind && c->generation != m->generation &&
            c->generation != m->serving[kind] && !c->ending)
            child_end(c, deadline_in(s->max_exec_timeout_ms + s->drain_timeout_ms));
    }
}

static void
start_missing(struct master *m, int kind, int64_t missing)
{
    struct throttle *t = &m->throttles[kind];
    struct err err = ERR_INIT;

    for (; missing > 0 && deadline_passed(t->not_before); missing--) {
        if (child_spawn(m, kind, &err) == 0)
            continue;
        t->not_before = deadline_in(1000);
        log_error("%s: %s", child_kind_name(kind), err.msg);
    }
}

/* The first time that all of a generation are ready. */
static void
announce(struct master *m)
{
    if (m->announced == m->generation)
        return;
    m->announced = m->generation;
    log_info("ready: generation %lld, %lld workers", (long long)m->generation,
             (long long)wanted_workers(&m->settings));
    notify_state("READY=1\nSTATUS=Serving");
}

struct deadline
supervise(struct master *m)
{
    struct deadline next = DEADLINE_NEVER;
    bool complete = true;

    if (m->stopping)
        return next;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        int64_t want = wanted(&m->settings, kind), there, ready;

        count(m, kind, &there, &ready);
        if (there < want) {
            start_missing(m, kind, want - there);
            count(m, kind, &there, &ready);
        }
        if (there < want)
            next = deadline_min(next, m->throttles[kind].not_before);
        if (ready >= want)
            m->serving[kind] = m->generation;
        else
            complete = false;
        retire(m, kind);
    }
    if (complete)
        announce(m);
    return next;
}

/* What the running master cannot change: its sockets, its slots and whom its children run as. */
static int
check_change(const struct master *m, const struct settings *fresh, struct err *err)
{
    const struct settings *now = &m->settings;

    if (strcmp(now->runtime_dir, fresh->runtime_dir) != 0)
        return err_set(err, ERR_INVALID, "SANDBOX_RUNTIME_DIR takes a restart");
    if (strcmp(now->user, fresh->user) != 0 || strcmp(now->group, fresh->group) != 0)
        return err_set(err, ERR_INVALID, "SANDBOX_USER and SANDBOX_GROUP take a restart");
    if (wanted_workers(fresh) + wanted_workers(now) > scoreboard_slots(m->board))
        return err_set(err, ERR_INVALID, "so many more workers (%lld) take a restart",
                       (long long)wanted_workers(fresh));
    return 0;
}

void
supervise_reload(struct master *m)
{
    struct settings fresh = {NULL};
    struct err err = ERR_INIT;
    char state[80];

    if (m->stopping)
        return;
    if (settings_load(m->config, &fresh, &err) < 0) {
        log_error("reload: the settings stay as they were: %s", err.msg);
        return;
    }
    if (check_change(m, &fresh, &err) < 0) {
        log_error("reload: the settings stay as they were: %s", err.msg);
        settings_done(&fresh);
        return;
    }
    settings_done(&m->settings);
    m->settings = fresh;
    log_init("husk-master", fresh.log_level, fresh.log_json);
    m->generation++;
    memset(m->throttles, 0, sizeof m->throttles); /* what made them die may be mended */
    log_info("reload: generation %lld", (long long)m->generation);
    (void)snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)clock_mono_us());
    notify_state(state);
}

void
supervise_stop(struct master *m)
{
    struct deadline by = deadline_in(m->settings.drain_timeout_ms);
    bool again = m->stopping;

    log_info(again ? "stopping at once" : "stopping: at most %lld ms for requests under way",
             (long long)m->settings.drain_timeout_ms);
    m->stopping = true;
    notify_state("STOPPING=1");
    listen_close_all(m);
    for (int i = 0; i < m->n_children; i++) {
        struct child *c = &m->children[i];

        if (c->pid == 0)
            continue;
        child_end(c, by);
        if (again)
            child_kill(c, "the master was told twice to stop");
    }
}
