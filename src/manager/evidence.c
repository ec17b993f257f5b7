/* SPDX-License-Identifier: MIT */
#include "manager/evidence.h"

#include <poll.h>
#include <string.h>

#include "base/log.h"

/* The gateway tells of a kernel's death, and its counters are final a moment before or after. */
#define FINAL_MS 2000
#define FINAL_STEP_MS 20
/* A disk is full when not even a small file fits any more. */
#define DISK_FULL_BYTES 65536

int
evidence_before(struct evidence *e, struct manager *m, const struct sandbox *sb, const char *handle,
                struct err *err)
{
    struct err why = ERR_INIT;
    bool ended = false;

    e->taken = false;
    if (!isolation_kept(m, sb))
        return 0;
    if (keeper_status(m->place.keeper, handle, &e->before, &ended, &why) == 0) {
        e->taken = !ended;
        return ended ? err_slug(err, ERR_CONFLICT, "runtime_gone", "the kernel's sandbox has ended")
                     : 0;
    }
    if (why.slug && strcmp(why.slug, "runtime_gone") == 0) {
        if (err)
            *err = why;
        return -1;
    }
    log_warning("what the run uses is not counted: %s", why.msg);
    return 0;
}

static bool
full(const struct wire_counters *c)
{
    return (c->disk_free_bytes >= 0 && c->disk_free_bytes < DISK_FULL_BYTES) ||
           c->disk_free_inodes == 0;
}

/* Python's words for ENOSPC, and SQLite's. */
static bool
speaks_of_disk(const struct execution_result *r)
{
    return r->error_value && (strstr(r->error_value, "[Errno 28]") ||
                              strstr(r->error_value, "No space left on device") ||
                              strstr(r->error_value, "disk is full"));
}

enum exec_reason
evidence_reason(const struct wire_counters *before, const struct wire_counters *after,
                const struct execution_result *r)
{
    if (r->reason != REASON_EXCEPTION && r->reason != REASON_KERNEL_DIED)
        return r->reason;
    if (after->oom_kills > before->oom_kills && before->oom_kills >= 0)
        return REASON_OOM;
    if (after->fork_refusals > before->fork_refusals && before->fork_refusals >= 0)
        return REASON_PIDS;
    if (full(after) && (speaks_of_disk(r) || !full(before)))
        return REASON_DISK_FULL;
    return r->reason;
}

void
evidence_after(const struct evidence *e, struct manager *m, const char *handle,
               struct execution_result *r)
{
    struct deadline d = deadline_in(FINAL_MS);
    struct wire_counters after;
    bool ended = false;

    if (!e->taken || (r->reason != REASON_EXCEPTION && r->reason != REASON_KERNEL_DIED))
        return;
    for (;;) {
        struct err err = ERR_INIT;

        if (keeper_status(m->place.keeper, handle, &after, &ended, &err) < 0) {
            log_warning("what the run used is not known: %s", err.msg);
            return;
        }
        if (ended || r->reason != REASON_KERNEL_DIED || deadline_passed(d))
            break;
        (void)poll(NULL, 0, FINAL_STEP_MS);
    }
    r->reason = evidence_reason(&e->before, &after, r);
}
