/* SPDX-License-Identifier: MIT */
/* Loading: defaults, file, environment, and what must hold between settings. */
#include "conf/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "conf/settings_table.h"

#define FILE_MAX (256 * 1024)
#define LINE_MAX_BYTES 8192

static bool
is_text(enum setting_type t)
{
    switch (t) {
    case SETTING_CHOICE:
    case SETTING_PATH:
    case SETTING_PATHS:
    case SETTING_ADDRESS:
    case SETTING_URL:
    case SETTING_WORD:
    case SETTING_HEADER:
    case SETTING_TOKEN:
    case SETTING_ORIGINS:
    case SETTING_LISTEN:
    case SETTING_HOSTS:
        return true;
    default:
        return false;
    }
}

/* Every default; the derived ones stay unset. */
static void
reset(struct settings *s)
{
    *s = (struct settings){0};
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *t = &setting_table[i];
        struct err err = ERR_INIT;
        if (!t->value) {
            *(int64_t *)setting_at(t, s) = -1;
            continue;
        }
        if (setting_assign(t, s, t->value, strlen(t->value), &err) < 0) {
            fprintf(stderr, "husk: the default of a setting is wrong: %s\n", err.msg);
            abort(); /* only a wrong table can do it */
        }
    }
}

/* Through a kernel a file is staged whole, and takes its time. */
#define MAX_FILE_DIRECT (INT64_C(4) << 30)
#define MAX_FILE_KERNEL (INT64_C(10) << 20)

/* The members without a default of their own, from the others, where they are unset (negative). */
static void
derive(struct settings *s)
{
    if (s->default_ttl_ms < 0)
        s->default_ttl_ms = s->max_ttl_ms;
    if (s->max_sessions_per_owner < 0)
        s->max_sessions_per_owner = s->max_sessions;
    if (s->max_file_bytes < 0)
        s->max_file_bytes = strcmp(s->transfer, "kernel") == 0 ? MAX_FILE_KERNEL : MAX_FILE_DIRECT;
    if (s->workers_exec < 0)
        s->workers_exec = s->max_sessions + 2;
}

void
settings_defaults(struct settings *s)
{
    reset(s);
    derive(s);
}

void
settings_done(struct settings *s)
{
    for (size_t i = 0; i < setting_count; i++) {
        char *text =
            is_text(setting_table[i].type) ? *(char **)setting_at(&setting_table[i], s) : NULL;
        if (text && setting_table[i].secret)
            explicit_bzero(text, strlen(text));
        free(text);
    }
    *s = (struct settings){0};
}

static void
trim(const char **p, size_t *n)
{
    while (*n && ((*p)[0] == ' ' || (*p)[0] == '\t')) {
        (*p)++;
        (*n)--;
    }
    while (*n && ((*p)[*n - 1] == ' ' || (*p)[*n - 1] == '\t' || (*p)[*n - 1] == '\r'))
        (*n)--;
}

/* One line, without its end. */
static int
parse_line(const char *p, size_t n, struct settings *s, struct err *err)
{
    trim(&p, &n);
    if (!n || p[0] == '#' || p[0] == ';')
        return 0;
    if (n > LINE_MAX_BYTES)
        return err_set(err, ERR_INVALID, "the line is longer than %d bytes", LINE_MAX_BYTES);
    const char *equals = memchr(p, '=', n);
    if (!equals)
        return err_set(err, ERR_INVALID, "not KEY=value");
    const char *key = p, *value = equals + 1;
    size_t key_n = (size_t)(equals - p), value_n = n - key_n - 1;
    trim(&key, &key_n);
    trim(&value, &value_n);
    const struct setting *t = setting_find(key, key_n);
    if (!t)
        return err_set(err, ERR_INVALID, "unknown setting \"%.*s\"", (int)(key_n > 80 ? 80 : key_n),
                       key);
    if (value_n && (value[0] == '"' || value[0] == '\'')) {
        if (value_n < 2 || value[value_n - 1] != value[0])
            return err_set(err, ERR_INVALID, "%s: the quote is not closed", t->key);
        value++;
        value_n -= 2;
    }
    return setting_assign(t, s, value, value_n, err);
}

int
settings_parse(const char *text, size_t n, const char *name, struct settings *s, struct err *err)
{
    unsigned line = 0;
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\n', n - i);
        size_t len = end ? (size_t)(end - (text + i)) : n - i;
        line++;
        if (parse_line(text + i, len, s, err) < 0)
            return err_wrap(err, "%s:%u", name, line);
        i += len + 1;
    }
    return 0;
}

/* Names that begin otherwise may be other programs' too: only those that are known are taken. */
static bool
is_setting(const char *entry)
{
    const char *equals = strchr(entry, '=');
    return equals && setting_find(entry, (size_t)(equals - entry));
}

static int
parse_environment(struct settings *s, struct err *err)
{
    static const char prefix[] = "SANDBOX_";
    for (char **e = environ; e && *e; e++) {
        bool ours = strncmp(*e, prefix, sizeof(prefix) - 1) == 0;
        if (!ours && !is_setting(*e))
            continue;
        const char *equals = strchr(*e, '=');
        if (!equals) /* only a program that made its own environment can leave such a thing there */
            return err_set(err, ERR_INVALID, "environment: \"%.80s\" is not KEY=value", *e);
        size_t key_n = (size_t)(equals - *e);
        const struct setting *t = setting_find(*e, key_n);
        if (!t)
            return err_set(err, ERR_INVALID, "environment: unknown setting \"%.*s\"",
                           (int)(key_n > 80 ? 80 : key_n), *e);
        if (setting_assign(t, s, equals + 1, strlen(equals + 1), err) < 0)
            return err_wrap(err, "environment");
    }
    return 0;
}

/* Isolation none is only what somebody has asked for by name, with all that it gives up. */
static int
check_isolation(const struct settings *s, struct err *err)
{
    if (strcmp(s->isolation, "none") != 0)
        return 0;
    if (strcmp(s->isolation_min, "none") != 0)
        return err_set(err, ERR_INVALID,
                       "SANDBOX_ISOLATION=none is below SANDBOX_ISOLATION_MIN=%s: sessions would "
                       "share one user and could reach each other's files; to accept that, set "
                       "SANDBOX_ISOLATION_MIN=none too",
                       s->isolation_min);
    if (strcmp(s->egress, "open") != 0)
        return err_set(err, ERR_INVALID,
                       "SANDBOX_ISOLATION=none cannot hold SANDBOX_EGRESS=%s: sessions would have "
                       "the gateway's network; to accept that, set SANDBOX_EGRESS=open",
                       s->egress);
    return 0;
}

/* No row knows what holds between two. */
static int
check(const struct settings *s, struct err *err)
{
    const struct {
        const char *low_key, *high_key;
        int64_t low, high;
    } order[] = {
        {"SANDBOX_DEFAULT_TTL", "SANDBOX_MAX_TTL", s->default_ttl_ms, s->max_ttl_ms},
        {"SANDBOX_EXEC_TIMEOUT", "SANDBOX_MAX_EXEC_TIMEOUT", s->exec_timeout_ms,
         s->max_exec_timeout_ms},
        {"SANDBOX_MAX_SESSIONS_PER_OWNER", "SANDBOX_MAX_SESSIONS", s->max_sessions_per_owner,
         s->max_sessions},
        {"SANDBOX_MAX_OUTPUT_BYTES", "SANDBOX_FLOOD_BYTES", s->max_output_bytes, s->flood_bytes},
    };
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (order[i].low > order[i].high)
            return err_set(err, ERR_INVALID, "%s must not be larger than %s", order[i].low_key,
                           order[i].high_key);
    if (!s->tls_certificate[0] != !s->tls_certificate_key[0])
        return err_set(err, ERR_INVALID,
                       "SANDBOX_TLS_CERTIFICATE and SANDBOX_TLS_CERTIFICATE_KEY must be set "
                       "together");
    if (strcmp(s->backend, "daytona") == 0 && !s->daytona_key[0])
        return err_set(err, ERR_INVALID, "SANDBOX_BACKEND=daytona needs DAYTONA_API_KEY");
    if (strcmp(s->state_dir, s->runtime_dir) == 0)
        return err_set(err, ERR_INVALID,
                       "SANDBOX_STATE_DIR and SANDBOX_RUNTIME_DIR must not be the same");
    return check_isolation(s, err);
}

int
settings_load(const char *file, struct settings *ret, struct err *err)
{
    struct settings s;
    reset(&s);
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    int rc = 0;
    if (file) {
        rc = fd_read_file(file, &text, err);
        if (rc == 0)
            rc = settings_parse(buf_str(&text), text.len, file, &s, err);
        if (text.data)
            explicit_bzero(text.data, text.len); /* secrets do not stay behind in freed memory */
    }
    if (rc == 0)
        rc = parse_environment(&s, err);
    derive(&s);
    if (rc == 0)
        rc = check(&s, err);
    if (rc < 0) {
        settings_done(&s);
        return -1;
    }
    *ret = s;
    return 0;
}

const char *
settings_path(const struct settings *s, const char *what, char out[SETTINGS_PATH_MAX])
{
    static const struct {
        const char *what;
        bool state;
        const char *name;
    } paths[] = {
        {"db", true, "husk.db"},         {"workspaces", true, "workspaces"},
        {"spool", true, "spool"},        {"artifacts", true, "artifacts"},
        {"traces", true, "traces"},      {"locks", false, "locks"},
        {"alarms", false, "alarms"},     {"scoreboard", false, "scoreboard"},
        {"pid", false, "husk.pid"},      {"sock:exec", false, "exec.sock"},
        {"sock:api", false, "api.sock"}, {"sock:bulk", false, "bulk.sock"},
        {"sock:ctl", false, "ctl.sock"},
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (strcmp(paths[i].what, what) == 0) {
            snprintf(out, SETTINGS_PATH_MAX, "%s/%s",
                     paths[i].state ? s->state_dir : s->runtime_dir, paths[i].name);
            return out;
        }
    fprintf(stderr, "husk: settings_path of unknown \"%s\"\n", what);
    abort();
}
