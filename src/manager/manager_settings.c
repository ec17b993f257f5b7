/* SPDX-License-Identifier: MIT */
#include "manager/manager_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/digest.h"

/* The one that sessions may name besides the setting's, NULL where it is not set up. */
static const char *
other_backend(const struct settings *s)
{
    if (strcmp(s->backend, "daytona") == 0)
        return s->gateway_token[0] ? "jupyter" : NULL;
    return s->daytona_key[0] ? "daytona" : NULL;
}

/* The kernel's name and a digest of the settings that a kernel is born with: one that waits in the
 * pool since before they were changed has other walls or libraries, and is none of ours. */
static const char *
pool_kind(const struct settings *s, char out[POOL_KIND_SIZE])
{
    static const char *const born_with[] = {
        "SANDBOX_KERNEL_NAME",   "SANDBOX_GATEWAY_URL",  "SANDBOX_ISOLATION",
        "SANDBOX_EGRESS",        "SANDBOX_EGRESS_DNS",   "SANDBOX_EGRESS_PROXY",
        "SANDBOX_KERNEL_PYTHON", "SANDBOX_KERNEL_PATHS", "SANDBOX_MEMORY",
        "SANDBOX_CPUS",          "SANDBOX_PIDS",
    };
    _cleanup_buf_ struct buf all = BUF_INIT(64 * 1024);
    char digest[SHA256_HEX_SIZE];

    for (size_t i = 0; i < sizeof(born_with) / sizeof(born_with[0]); i++) {
        (void)settings_get(s, born_with[i], &all);
        (void)buf_putc(&all, '\n');
    }
    sha256_hex_of(buf_str(&all), all.len, digest);
    (void)snprintf(out, POOL_KIND_SIZE, "%.100s#%.16s", s->kernel_name, digest);
    return out;
}

void
manager_options_of(const struct settings *s, struct manager_paths *paths,
                   struct manager_options *ret)
{
    *ret = (struct manager_options){
        .db_path = settings_path(s, "db", paths->db),
        .workspaces_dir = settings_path(s, "workspaces", paths->workspaces),
        .keeper_dir = strcmp(s->isolation, "none") == 0 ? NULL : s->keeper_dir,
        .isolation_min = s->isolation_min,
        .spool_dir = settings_path(s, "spool", paths->spool),
        .lock_path = settings_path(s, "locks", paths->locks),
        .traces_dir = settings_path(s, "traces", paths->traces),
        .artifacts_dir = settings_path(s, "artifacts", paths->artifacts),
        .alarms_path = settings_path(s, "alarms", paths->alarms),
        .backend = s->backend,
        .more_backends = {other_backend(s)},
        .max_keyed = s->daytona_max_sandboxes,
        .max_kept_keyed = s->daytona_max_kept,
        .sandbox = {.gateway_url = s->gateway_url,
                    .gateway_token = s->gateway_token,
                    .gateway_ca_file = s->gateway_ca_file,
                    .kernel_name = s->kernel_name,
                    .transfer_kernel = strcmp(s->transfer, "kernel") == 0,
                    .daytona_url = s->daytona_url,
                    .daytona_key = s->daytona_key,
                    .daytona_ca_file = s->daytona_ca_file,
                    .daytona_organization = s->daytona_organization,
                    .daytona_target = s->daytona_target,
                    .daytona_snapshot = s->daytona_snapshot,
                    .daytona_language = s->daytona_language,
                    .daytona_auto_stop_min = s->daytona_auto_stop_min,
                    .daytona_auto_delete_min = s->daytona_auto_delete_min,
                    .deployment = s->deployment,
                    .http_timeout_ms = s->http_timeout_ms,
                    .start_timeout_ms = s->start_timeout_ms,
                    .max_output_bytes = s->max_output_bytes,
                    .flood_bytes = s->flood_bytes},
        .default_ttl_ms = s->default_ttl_ms,
        .max_ttl_ms = s->max_ttl_ms,
        .max_sessions = s->max_sessions,
        .pool_size = s->pool_size,
        .pool_max_age_ms = s->pool_max_age_ms,
        .pool_kind = pool_kind(s, paths->pool_kind),
        .max_sessions_per_owner = s->max_sessions_per_owner,
        .turn_waiters = s->turn_waiters,
        .turn_wait_ms = s->turn_wait_ms,
        .workspace_retention_ms = s->workspace_retention_ms,
        .workspaces_max_bytes = s->workspaces_max_bytes,
        .history_retention_ms = s->history_retention_ms,
        .exec_timeout_ms = s->exec_timeout_ms,
        .max_exec_timeout_ms = s->max_exec_timeout_ms,
        .spool_bytes = s->spool_bytes,
        .events_retention_ms = s->events_retention_ms,
        .idempotency_retention_ms = s->idempotency_retention_ms,
        .artifact_max_bytes = s->artifact_max_bytes,
        .artifact_max_count = s->artifact_max_count,
        .artifact_max_total_bytes = s->artifact_max_total_bytes,
        .start_timeout_ms = s->start_timeout_ms,
        .keep_code = s->keep_code,
        .gateway_shared = s->gateway_shared,
        .max_file_bytes = s->max_file_bytes,
    };
}
