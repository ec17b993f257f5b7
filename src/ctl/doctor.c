/* SPDX-License-Identifier: MIT */
/* What of the environment is missing, each with the fix. */
#include "ctl/ctl.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/priv.h"
#include "sandbox/sandbox.h"
#include "store/db.h"
#include "store/migrate.h"
#include "super/scoreboard.h"
#include "workspace/keeper_client.h"

struct doctor {
    struct ctl *c;
    int failures;
    struct json_writer *json; /* NULL: text */
};

static void report(struct doctor *d, const char *mark, const char *fix, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void
report(struct doctor *d, const char *mark, const char *fix, const char *fmt, ...)
{
    struct buf what = BUF_INIT(4096);
    va_list ap;
    va_start(ap, fmt);
    (void)buf_vprintf(&what, fmt, ap);
    va_end(ap);
    if (d->json) {
        jw_object(d->json, NULL);
        jw_string(d->json, "mark", mark);
        jw_string(d->json, "what", buf_str(&what));
        jw_string(d->json, "fix", fix);
        jw_end_object(d->json);
    } else {
        (void)buf_printf(&d->c->out, "%-5s %s\n", mark, buf_str(&what));
        if (fix)
            (void)buf_printf(&d->c->out, "      fix: %s\n", fix);
    }
    buf_done(&what);
    d->failures += strcmp(mark, "FAIL") == 0;
}

static void
check_file(struct doctor *d)
{
    struct stat st;
    const struct ctl *c = d->c;
    if (!c->config)
        report(d, "note", NULL, "settings: the defaults and the environment, no file");
    else if (stat(c->config, &st) == 0 && (st.st_mode & 0007) &&
             (c->settings.gateway_token[0] || c->settings.daytona_key[0]))
        report(d, "WARN", "chmod o= the file", "%s holds a secret and others can read it",
               c->config);
    else
        report(d, "ok", NULL, "settings: %s", c->config);
}

static void
check_directory(struct doctor *d, const char *what, const char *path)
{
    struct stat st;
    struct statvfs fs;
    if (stat(path, &st) < 0) {
        report(d, "FAIL", "make it, owned by the service's user", "%s %s: %s", what, path,
               strerror(errno));
        return;
    }
    if (!S_ISDIR(st.st_mode)) {
        report(d, "FAIL", "set the setting to a directory", "%s %s is no directory", what, path);
        return;
    }
    if (st.st_mode & 0002) {
        report(d, "FAIL", "chmod o-w", "%s %s can be written by everybody", what, path);
        return;
    }
    if (access(path, W_OK | X_OK) < 0) {
        report(d, "FAIL", "chown it to the service's user, or run huskctl as that user",
               "%s %s cannot be written by uid %d", what, path, (int)getuid());
        return;
    }
    if (statvfs(path, &fs) == 0 && fs.f_bavail * fs.f_frsize < (64u << 20))
        report(d, "WARN", "free some space", "%s %s has less than 64 MiB left", what, path);
    report(d, "ok", NULL, "%s: %s", what, path);
}

static void
check_users(struct doctor *d)
{
    const struct settings *s = &d->c->settings;
    struct priv_ids ids;
    gid_t gid;
    struct err err = ERR_INIT;
    if (s->user[0]) {
        if (priv_lookup(s->user, &ids, &err) < 0)
            report(d, "FAIL", "make the user, or set SANDBOX_USER", "SANDBOX_USER: %s", err.msg);
        else
            report(d, "ok", NULL, "user: %s (uid %d)", s->user, (int)ids.uid);
    }
    if (s->group[0] && priv_lookup_group(s->group, &gid, NULL) != 1)
        report(d, "FAIL", "make the group with nginx's user in it, or set SANDBOX_GROUP",
               "SANDBOX_GROUP: there is no group %s", s->group);
}

static void
check_database(struct doctor *d)
{
    struct db *db = NULL;
    struct err err = ERR_INIT;
    const char *path = settings_path(&d->c->settings, "db", d->c->paths.db);
    if (db_open(path, 0, &db, &err) < 0 || db_ping(db, &err) < 0)
        report(d, "FAIL", "huskctl db migrate, as root or as the service's user", "database: %s",
               err.msg);
    else
        report(d, "ok", NULL, "database: %s, version %d", path, migrate_target());
    db_close(db);
}

static void
check_backend(struct doctor *d, const struct manager_options *o, const char *backend)
{
    static const char jupyter_fix[] =
        "start the gateway; check SANDBOX_GATEWAY_URL, SANDBOX_GATEWAY_AUTH_TOKEN and "
        "SANDBOX_KERNEL_NAME";
    static const char daytona_fix[] =
        "check DAYTONA_API_URL, DAYTONA_API_KEY, DAYTONA_ORGANIZATION_ID and DAYTONA_CA_FILE";
    const struct settings *s = &d->c->settings;
    bool daytona = strcmp(backend, "daytona") == 0;
    struct sandbox *sb = NULL;
    struct err err = ERR_INIT;
    if (sandbox_new(backend, &o->sandbox, &sb, &err) < 0 ||
        sb->ops->ping(sb, deadline_in(s->http_timeout_ms), &err) < 0)
        report(d, "FAIL", daytona ? daytona_fix : jupyter_fix, "%s: %s",
               daytona ? "daytona" : "gateway", err.msg);
    else if (daytona)
        report(d, "ok", NULL, "daytona: %s takes the key", s->daytona_url);
    else
        report(d, "ok", NULL, "gateway: %s takes the token and has the kernelspec %s",
               s->gateway_url, s->kernel_name);
    if (sb)
        sb->ops->free(sb);
}

static void
check_backends(struct doctor *d)
{
    struct manager_options o;
    manager_options_of(&d->c->settings, &d->c->paths, &o);
    check_backend(d, &o, o.backend);
    for (int i = 0; i < BACKENDS_MAX - 1 && o.more_backends[i]; i++)
        check_backend(d, &o, o.more_backends[i]);
}

/* Is the process there? EPERM says that it is, but another user's. */
static bool
process_lives(int pid)
{
    return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

static void
check_workers(struct doctor *d)
{
    struct scoreboard *b = NULL;
    struct err err = ERR_INIT;
    char path[SETTINGS_PATH_MAX];
    int alive[LANE_COUNT] = {0};
    if (scoreboard_attach(settings_path(&d->c->settings, "scoreboard", path), false, &b, &err) <
        0) {
        report(d, "FAIL", "start husk-master", "workers: %s", err.msg);
        return;
    }
    for (int i = 0; i < scoreboard_slots(b); i++) {
        struct score_slot *s = scoreboard_slot(b, i);
        int lane = atomic_load(&s->lane);
        if (lane >= 0 && lane < LANE_COUNT && atomic_load(&s->state) != SLOT_EMPTY)
            alive[lane] += process_lives(atomic_load(&s->pid));
    }
    scoreboard_free(b);
    for (int l = 0; l < LANE_COUNT; l++) {
        if (alive[l])
            report(d, "ok", NULL, "workers: %d in lane %s", alive[l], lane_name((enum lane)l));
        else
            report(d, "FAIL", "start husk-master; its log says why workers end",
                   "workers: none in lane %s", lane_name((enum lane)l));
    }
}

static void
check_nginx(struct doctor *d)
{
    static const char *const places[] = {"/usr/sbin/nginx", "/usr/bin/nginx",
                                         "/usr/local/sbin/nginx", "/usr/local/bin/nginx"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (access(places[i], X_OK) == 0) {
            report(d, "ok", NULL, "nginx: %s", places[i]);
            return;
        }
    report(d, "WARN", "install nginx, unless it runs on another machine", "nginx: not found here");
}

/* Is there a backend whose kernels husk-keeper holds? */
static bool
runs_kernels(const struct doctor *d)
{
    struct manager_options o;
    manager_options_of(&d->c->settings, &d->c->paths, &o);
    return strcmp(o.backend, "daytona") != 0 || o.more_backends[0];
}

/* What the keeper says is in force, not what the settings wish. */
static void
check_isolation(struct doctor *d)
{
    const struct settings *s = &d->c->settings;
    struct wire_info i;
    struct err err = ERR_INIT;
    if (strcmp(s->isolation, "none") == 0 && runs_kernels(d)) {
        report(d, "note", NULL,
               "isolation: none (sessions are kept apart by working directory only: one trust "
               "domain)");
        return;
    }
    if (!runs_kernels(d)) {
        report(d, "note", NULL,
               "isolation: each session is a machine of Daytona's; husk-keeper is not needed");
        return;
    }
    if (keeper_info(s->keeper_dir, &i, &err) < 0) {
        report(d, "FAIL", "start husk-keeper; run huskctl as the service's user", "isolation: %s",
               err.msg);
        return;
    }
    if (!i.ready)
        report(d, "FAIL", "see docs/isolation.md", "isolation: no sandbox can be made: %s",
               i.detail);
    else
        report(d, "ok", NULL, "isolation: tier %s, egress %s, disk %s%s%s", i.tier, i.egress,
               i.disk, i.detail[0] ? "; " : "", i.detail);
}

static int
run_doctor(struct ctl *c, struct err *err)
{
    struct json_writer w;
    struct doctor d = {.c = c, .json = ctl_value(c, "json") ? &w : NULL};
    char path[SETTINGS_PATH_MAX];
    (void)err;
    if (d.json) {
        jw_init(&w, &c->out);
        jw_object(&w, NULL);
        jw_array(&w, "checks");
    }
    check_file(&d);
    check_directory(&d, "state", c->settings.state_dir);
    if (strcmp(c->settings.transfer, "direct") == 0)
        check_directory(&d, "workspaces", settings_path(&c->settings, "workspaces", path));
    check_directory(&d, "runtime", c->settings.runtime_dir);
    check_users(&d);
    check_database(&d);
    check_backends(&d);
    check_workers(&d);
    check_nginx(&d);
    check_isolation(&d);
    if (d.json) {
        jw_end_array(&w);
        jw_i64(&w, "failures", d.failures);
        jw_end_object(&w);
        (void)buf_putc(&c->out, '\n');
    } else {
        (void)buf_printf(&c->out, d.failures ? "%d failures\n" : "everything needed is there\n",
                         d.failures);
    }
    return d.failures ? 1 : 0;
}

static const struct ctl_option options[] = {
    {"json", NULL, "as one JSON object"},
    {NULL, NULL, NULL},
};

const struct ctl_command doctor_commands[] = {
    {"doctor", NULL, "Say what of the environment is missing, with the fix", options, run_doctor},
    {NULL, NULL, NULL, NULL, NULL},
};
