/* SPDX-License-Identifier: MIT */
#include "ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/render.h"
#include "base/clock.h"

#define PAGE 200

static void
put_session(struct json_writer *w, const struct session *s)
{
    jw_object(w, NULL);
    render_session_members(w, s);
    jw_string(w, "handle", s->handle);
    jw_i64(w, "generation", s->generation);
    jw_end_object(w);
}

static void
put_row(struct buf *out, const struct session *s)
{
    char at[CLOCK_RFC3339_SIZE];
    (void)buf_printf(out, "%-36s %-16s %-8s %-8s %-24s %s\n", s->name, s->owner,
                     session_state_name(s->state), s->backend, ctl_time(s->expires_at, at),
                     s->busy_execution[0] ? s->busy_execution : "-");
}

static int
run_list(struct ctl *c, struct err *err)
{
    _cleanup_manager_ struct manager *m = NULL;
    if (ctl_manager(c, &m, err) < 0)
        return -1;
    struct caller who = ctl_caller(c);
    struct session_filter f = {.state = -1, .limit = PAGE};
    struct json_writer w;
    bool json = ctl_value(c, "json") != NULL, more = true;
    ctl_list_begin(c, &w, "sessions");
    if (!json)
        (void)buf_printf(&c->out, "%-36s %-16s %-8s %-8s %-24s %s\n", "SESSION", "OWNER", "STATE",
                         "BACKEND", "EXPIRES", "RUNS");
    while (more) {
        struct session *list = NULL;
        size_t n = 0;
        if (manager_list(m, &who, &f, &list, &n, &more, err) < 0)
            return -1;
        for (size_t i = 0; i < n; i++) {
            if (json)
                put_session(&w, &list[i]);
            else
                put_row(&c->out, &list[i]);
            f.after_sid_created = list[i].created_at;
            f.after_sid = list[i].sid;
            session_done(&list[i]);
        }
        free(list);
        more = more && n;
    }
    ctl_list_end(c, &w);
    return 0;
}

static int
run_show(struct ctl *c, struct err *err)
{
    _cleanup_manager_ struct manager *m = NULL;
    struct caller who = ctl_caller(c);
    struct session s;
    if (ctl_manager(c, &m, err) < 0 || manager_get(m, &who, c->operand, false, &s, err) < 0)
        return -1;
    if (ctl_value(c, "json")) {
        struct json_writer w;
        jw_init(&w, &c->out);
        put_session(&w, &s);
        (void)buf_putc(&c->out, '\n');
    } else {
        char created[CLOCK_RFC3339_SIZE], worked[CLOCK_RFC3339_SIZE], expires[CLOCK_RFC3339_SIZE];
        char workspace[SETTINGS_PATH_MAX + 20] = "in the kernel";
        if (strcmp(s.backend, "daytona") == 0)
            (void)snprintf(workspace, sizeof workspace, "in the sandbox");
        else if (strcmp(c->settings.transfer, "direct") == 0)
            (void)snprintf(workspace, sizeof workspace, "%s/%016" PRIx64, c->paths.workspaces,
                           s.workspace_id);
        (void)buf_printf(&c->out,
                         "session:    %s\nowner:      %s\nstate:      %s\nbackend:    %s\n"
                         "kernel:     %s (generation %" PRId64 ")\nttl:        %.3f s\n"
                         "created:    %s\nlast work:  %s\nexpires:    %s\nruns:       %s\n"
                         "workspace:  %s\nlabels:     %s\n",
                         s.name, s.owner, session_state_name(s.state), s.backend,
                         s.handle[0] ? s.handle : "none", s.generation, (double)s.ttl_ms / 1000,
                         ctl_time(s.created_at, created), ctl_time(s.last_work_at, worked),
                         ctl_time(s.expires_at, expires),
                         s.busy_execution[0] ? s.busy_execution : "nothing", workspace,
                         s.labels ? s.labels : "{}");
    }
    session_done(&s);
    return 0;
}

static int
run_close(struct ctl *c, struct err *err)
{
    _cleanup_manager_ struct manager *m = NULL;
    struct caller who = ctl_caller(c);
    bool deferred = false;
    if (ctl_manager(c, &m, err) < 0)
        return -1;
    struct deadline d = deadline_in(3 * c->settings.http_timeout_ms);
    if (manager_close(m, &who, c->operand, SESSION_END_CLOSED, d, &deferred, err) < 0)
        return -1;
    (void)buf_printf(&c->out, "%s %s\n", c->operand,
                     deferred ? "is busy and will be closed when its work ends" : "is closed");
    return 0;
}

static const struct ctl_option options[] = {
    {"json", NULL, "as one JSON object"},
    {NULL, NULL, NULL},
};

static const struct ctl_option one_options[] = {
    {"json", NULL, "as one JSON object"},
    {"owner", "OWNER", "whose session, where several owners use the same id"},
    {NULL, NULL, NULL},
};

static const struct ctl_option close_options[] = {
    {"owner", "OWNER", "whose session, where several owners use the same id"},
    {NULL, NULL, NULL},
};

const struct ctl_command session_commands[] = {
    {"session list", NULL, "List the sessions of all owners, the newest first", options, run_list},
    {"session show", "ID", "Show one session", one_options, run_show},
    {"session close", "ID", "Close a session and remove its files", close_options, run_close},
    {NULL, NULL, NULL, NULL, NULL},
};
