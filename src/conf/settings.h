/* SPDX-License-Identifier: MIT */
#ifndef HUSK_CONF_SETTINGS_H
#define HUSK_CONF_SETTINGS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All settings, from one table in settings.c (name, type, range, default, help) that yields the
 * parser, the sample file, `huskctl config` and docs/settings.md.  Durations are milliseconds,
 * sizes bytes.  Strings are owned by the struct.
 */
struct settings {
    /* where */
    char *state_dir;   /* SANDBOX_STATE_DIR: husk.db, workspaces/, spool/ */
    char *runtime_dir; /* SANDBOX_RUNTIME_DIR: sockets, lock file, scoreboard */
    /* sessions */
    char *backend;
    int64_t default_ttl_ms, max_ttl_ms, reap_interval_ms;
    int64_t max_sessions, max_sessions_per_owner;
    int64_t pool_size, pool_max_age_ms;
    int64_t turn_waiters, turn_wait_ms;
    int64_t workspace_retention_ms, workspaces_max_bytes, history_retention_ms;
    /* executions */
    int64_t exec_timeout_ms, max_exec_timeout_ms;
    int64_t max_output_bytes, flood_bytes, max_code_bytes;
    int64_t events_retention_ms, spool_bytes, idempotency_retention_ms;
    bool keep_code;
    /* files */
    int64_t max_file_bytes, max_input_bytes;
    char *transfer; /* direct | kernel */
    int64_t artifact_max_bytes, artifact_max_count, artifact_max_total_bytes;
    /* gateway */
    char *gateway_url, *gateway_token, *kernel_name, *gateway_ca_file;
    bool gateway_shared;
    /* daytona */
    char *daytona_key, *daytona_url, *daytona_organization, *daytona_target, *daytona_snapshot;
    char *daytona_language, *daytona_ca_file, *deployment;
    int64_t daytona_auto_stop_min, daytona_auto_delete_min; /* minutes */
    int64_t daytona_max_sandboxes, daytona_max_kept;
    int64_t http_timeout_ms, start_timeout_ms;
    /* workers */
    int64_t workers_exec, workers_api, workers_bulk, workers_ctl;
    char *user, *group; /* run workers and reaper as; "" as started */
    int64_t drain_timeout_ms;
    int64_t worker_requests; /* a worker ends after so many and is replaced; 0 never */
    /* edge */
    char *auth;              /* keys | proxy | none */
    char *proxy_user_header; /* with auth=proxy, set by nginx */
    char *cors_origins;
    char *listen;      /* what the generated nginx configuration listens on */
    char *server_name; /* … and is called */
    char *tls_certificate, *tls_certificate_key;
    int64_t rate_per_second, connections_per_client;
    /* log */
    enum log_level log_level;
    bool log_json;
    /* isolation */
    char *isolation, *isolation_min, *egress, *egress_dns, *egress_proxy;
    char *keeper_dir, *gateway_user;
    char *kernel_python, *kernel_paths;
    int64_t memory_bytes, pids, disk_bytes;
    double cpus;
    bool disk_sparse;
};

/* Defaults, then the file (NULL: none), then the environment; then cross-checks. An unknown or
 * malformed key fails with "file:line: …" or "environment: …". Every failure names the setting. */
int settings_load(const char *file, struct settings *ret, struct err *err);
/* Frees; secrets are overwritten. */
void settings_done(struct settings *s);

/* Parses KEY=value lines into s (used by settings_load and the fuzzer). */
int settings_parse(const char *text, size_t n, const char *name, struct settings *s,
                   struct err *err);
void settings_defaults(struct settings *s);

/* KEY=value lines of the effective settings, secrets as "********". */
int settings_dump(const struct settings *s, struct buf *out);
/* One value as text by its key (secrets masked); 1 known, 0 not. */
int settings_get(const struct settings *s, const char *key, struct buf *out);
/* Names of all keys, in table order; NULL at the end. */
const char *settings_key(size_t i);

int settings_sample(struct buf *out);   /* a commented sample file */
int settings_markdown(struct buf *out); /* docs/settings.md */
int settings_man(struct buf *out);      /* roff for husk.conf(5) */

/* The paths below state_dir and runtime_dir, one place for all programs. lane as in super. Returned
 * pointer is out. */
#define SETTINGS_PATH_MAX 512
const char *settings_path(const struct settings *s, const char *what, char out[SETTINGS_PATH_MAX]);
/* what: "db" "workspaces" "spool" "artifacts" "traces" "locks" "alarms" "scoreboard" "pid"
 * "sock:exec" "sock:api" "sock:bulk" "sock:ctl" */

#endif
