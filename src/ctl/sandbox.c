/* SPDX-License-Identifier: MIT */
/* The sandboxes of husk-keeper, as it knows them: they live whether sessions use them or not. */
#include "ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "workspace/keeper_client.h"

static int
check_keeper(const struct ctl *c, struct err *err)
{
    ctl_say_source(c);
    if (strcmp(c->settings.isolation, "none") != 0)
        return 0;
    return err_set(err, ERR_INVALID, "SANDBOX_ISOLATION=none: there is no keeper and no sandbox");
}

static void
put_json(struct json_writer *w, const struct wire_reply *s, const char *workspace)
{
    jw_object(w, NULL);
    jw_string(w, "kernel", s->kernel);
    jw_string(w, "workspace", workspace);
    jw_i64(w, "uid", s->uid);
    jw_i64(w, "monitor", s->pid);
    jw_i64(w, "memory_bytes", s->counters.memory_bytes);
    jw_i64(w, "memory_peak_bytes", s->counters.memory_peak_bytes);
    jw_i64(w, "oom_kills", s->counters.oom_kills);
    jw_i64(w, "fork_refusals", s->counters.fork_refusals);
    jw_end_object(w);
}

static int
run_list(struct ctl *c, struct err *err)
{
    struct wire_reply s;
    struct json_writer w;
    char after[WIRE_KERNEL_MAX] = "";
    bool json = ctl_value(c, "json") != NULL;
    int r;

    if (check_keeper(c, err) < 0)
        return -1;
    ctl_list_begin(c, &w, "sandboxes");
    if (!json)
        (void)buf_printf(&c->out, "%-38s %-18s %-8s %-8s %s\n", "KERNEL", "WORKSPACE", "UID",
                         "MONITOR", "MEMORY");
    while ((r = keeper_next(c->settings.keeper_dir, after, &s, err)) == 1) {
        char workspace[20] = "-";

        memcpy(after, s.kernel, sizeof(after));
        if (s.workspace)
            (void)snprintf(workspace, sizeof(workspace), "%016" PRIx64, s.workspace);
        if (json)
            put_json(&w, &s, workspace);
        else
            (void)buf_printf(&c->out, "%-38s %-18s %-8u %-8u %" PRId64 "\n", s.kernel, workspace,
                             s.uid, s.pid, s.counters.memory_bytes);
    }
    if (r < 0)
        return -1;
    ctl_list_end(c, &w);
    return 0;
}

static int
stop_all(struct ctl *c, struct err *err)
{
    struct wire_reply s;
    char after[WIRE_KERNEL_MAX] = "";
    int r, n = 0;

    while ((r = keeper_next(c->settings.keeper_dir, after, &s, err)) == 1) {
        memcpy(after, s.kernel, sizeof(after));
        if (keeper_kill(c->settings.keeper_dir, after, err) == 0)
            n++;
        else if (err->code != ERR_CONFLICT) /* it has ended by itself meanwhile */
            return -1;
    }
    if (r < 0)
        return -1;
    (void)buf_printf(&c->out, "%d stopped\n", n);
    return 0;
}

static int
run_stop(struct ctl *c, struct err *err)
{
    bool all = ctl_value(c, "all") != NULL;

    if (check_keeper(c, err) < 0)
        return -1;
    if (all != !c->second)
        return err_set(err, ERR_INVALID, "name a kernel, or say --all");
    if (all)
        return stop_all(c, err);
    if (keeper_kill(c->settings.keeper_dir, c->second, err) < 0)
        return -1;
    (void)buf_printf(&c->out, "%s is stopped\n", c->second);
    return 0;
}

static const struct ctl_option list_options[] = {
    {"json", NULL, "as one JSON object"},
    {NULL, NULL, NULL},
};

static const struct ctl_option stop_options[] = {
    {"all", NULL, "every sandbox of the keeper's"},
    {NULL, NULL, NULL},
};

const struct ctl_command sandbox_commands[] = {
    {"sandbox list", NULL, "List the sandboxes that husk-keeper has made", list_options, run_list},
    {"sandbox stop", NULL, "End a kernel with all that runs in its sandbox", stop_options, run_stop,
     "KERNEL"},
    {NULL, NULL, NULL, NULL, NULL},
};
