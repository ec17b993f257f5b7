/* SPDX-License-Identifier: MIT */
/* What keeps sessions apart: the keeper says it, and without it no kernel starts. */
#include "manager/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "workspace/keeper_client.h"

/* How old an answer may be: to be shown, and to start a kernel on. One that was not good is asked
 * for again sooner. */
#define SHOWN_MS 30000
#define AGAIN_MS 5000
#define STARTED_ON_MS 2000

/* From the weakest; a name that is not here is below all. */
static const char *const tiers[] = {"none", "container", "rootless", "host"};

static int
rank(const char *tier)
{
    for (int i = 0; i < (int)(sizeof tiers / sizeof *tiers); i++)
        if (strcmp(tiers[i], tier) == 0)
            return i;
    return -1;
}

static void
judge(const struct manager *m, const struct wire_info *w, struct manager_isolation *i)
{
    const char *least = m->o.isolation_min ? m->o.isolation_min : "none";

    i->ready = w->ready && rank(w->tier) > 0 && rank(w->tier) >= rank(least);
    (void)snprintf(i->tier, sizeof i->tier, "%s", w->tier);
    (void)snprintf(i->egress, sizeof i->egress, "%s", w->egress);
    (void)snprintf(i->disk, sizeof i->disk, "%s", w->disk);
    i->memory_bytes = w->memory_bytes;
    i->cpu_milli = w->cpu_milli;
    i->pids = w->pids;
    i->disk_bytes = w->disk_bytes;
    i->sandboxes = w->sandboxes;
    if (i->ready)
        (void)snprintf(i->detail, sizeof i->detail, "%s", w->detail);
    else if (!w->ready)
        (void)snprintf(i->detail, sizeof i->detail, "no sandbox can be made here: %s",
                       w->detail[0] ? w->detail : "husk-keeper does not say why");
    else
        (void)snprintf(i->detail, sizeof i->detail,
                       "tier %s is in force and SANDBOX_ISOLATION_MIN is %s: %s", w->tier, least,
                       w->detail);
}

/* Once for each change, in the log of every process that it concerns. */
static void
tell(const struct manager_isolation *before, const struct manager_isolation *now, bool first)
{
    if (!first && before->ready == now->ready && strcmp(before->tier, now->tier) == 0 &&
        strcmp(before->detail, now->detail) == 0)
        return;
    if (!now->ready)
        log_error("isolation: sessions cannot be opened: %s", now->detail);
    else
        log_info("isolation: tier %s, egress %s, disk %s%s%s", now->tier, now->egress, now->disk,
                 now->detail[0] ? "; " : "", now->detail);
}

bool
isolation_wanted(const struct manager *m)
{
    for (int i = 0; i < m->n_backends; i++)
        if (isolation_kept(m, m->backends[i].sb))
            return true;
    return false;
}

static const struct manager_isolation *
refresh(struct manager *m, int64_t max_age_ms)
{
    struct manager_isolation before = m->isolation, *i = &m->isolation;
    int64_t now = clock_mono_ms();
    bool first = m->isolation_at_ms == 0;
    struct wire_info w;
    struct err err = ERR_INIT;

    if (!isolation_wanted(m) || (!first && now - m->isolation_at_ms < max_age_ms))
        return i;
    i->keeper = true;
    if (keeper_info(m->place.keeper, &w, &err) == 0) {
        i->answers = true;
        judge(m, &w, i);
    } else {
        i->ready = i->answers = false;
        if (first) /* else it says what was in force, as the sessions that live on still have it */
            (void)snprintf(i->tier, sizeof i->tier, "unknown");
        if (first)
            (void)snprintf(i->egress, sizeof i->egress, "unknown");
        (void)snprintf(i->detail, sizeof i->detail, "%s", err.msg);
    }
    m->isolation_at_ms = clock_mono_ms();
    tell(&before, i, first);
    return i;
}

void
isolation_init(struct manager *m)
{
    m->isolation =
        (struct manager_isolation){.ready = true, .tier = "none", .egress = "open", .disk = "none"};
    (void)refresh(m, 0);
}

/* Of sessions that are machines of the provider's. */
static const struct manager_isolation vm = {
    .ready = true, .tier = "vm", .egress = "provider", .disk = "provider"};

const struct manager_isolation *
manager_isolation(struct manager *m)
{
    bool here = false;

    for (int i = 0; i < m->n_backends; i++)
        here = here || m->backends[i].sb->files != FILES_KEYED;
    return here ? refresh(m, m->isolation.ready ? SHOWN_MS : AGAIN_MS) : &vm;
}

const struct manager_isolation *
manager_isolation_of(struct manager *m, const char *backend)
{
    return manager_files_of(m, backend) == FILES_KEYED ? &vm : manager_isolation(m);
}

int
isolation_check(struct manager *m, bool afresh, struct err *err)
{
    const struct manager_isolation *i =
        refresh(m, m->isolation.ready && !afresh ? STARTED_ON_MS : 0);

    if (i->ready)
        return 0;
    if (!i->answers)
        return err_slug(err, ERR_UNAVAILABLE, "keeper_unavailable", "%s", i->detail);
    return err_slug(err, ERR_UNAVAILABLE, "isolation_unavailable", "%s", i->detail);
}

bool
isolation_kept(const struct manager *m, const struct sandbox *sb)
{
    return m->place.keeper && sb->files != FILES_KEYED;
}

bool
isolation_dead(struct manager *m, const struct sandbox *sb, const char *handle)
{
    struct wire_counters c;
    struct err err = ERR_INIT;
    bool ended = false;

    if (!isolation_kept(m, sb))
        return false;
    if (keeper_status(m->place.keeper, handle, &c, &ended, &err) == 0)
        return ended;
    return err.slug && strcmp(err.slug, "runtime_gone") == 0;
}
