/* SPDX-License-Identifier: MIT */
#include "conf/settings_table.h"

#include <string.h>

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define AT(member) offsetof(struct settings, member)

/* clang-format off */
const struct setting setting_table[] = {
    {"Places", "SANDBOX_STATE_DIR", SETTING_PATH, AT(state_dir), 1, 300, "/var/lib/husk",
     .help = "What must last: the database, the workspaces, the artifacts and the spools of executions. "
             "husk-keeper has its own folder beside it, of this name with -keeper behind it, which "
             "must last as well."},
    {NULL, "SANDBOX_RUNTIME_DIR", SETTING_PATH, AT(runtime_dir), 1, 97, "/run/husk",
     .help = "Sockets, the lock file and the scoreboard. Short, since the path of a socket ends at "
             "107 bytes."},

    {"Sessions", "SANDBOX_BACKEND", SETTING_CHOICE, AT(backend), .value = "jupyter",
     .choices = "jupyter|daytona",
     .help = "What runs a session that names no backend. A session may name the other one where that "
             "is set up too: daytona by DAYTONA_API_KEY, jupyter by SANDBOX_GATEWAY_AUTH_TOKEN."},
    {NULL, "SANDBOX_MAX_TTL", SETTING_DURATION, AT(max_ttl_ms), SECOND, 365 * DAY, "1200",
     .help = "The longest time a session may be idle before it ends. A caller's wish is clamped to "
             "it."},
    {NULL, "SANDBOX_DEFAULT_TTL", SETTING_DURATION, AT(default_ttl_ms), SECOND, 365 * DAY,
     .derived = "SANDBOX_MAX_TTL",
     .help = "The idle time of a session whose caller names none."},
    {NULL, "SANDBOX_REAP_INTERVAL", SETTING_DURATION, AT(reap_interval_ms), 100, HOUR, "5",
     .help = "How often the reaper sweeps."},
    {NULL, "SANDBOX_MAX_SESSIONS", SETTING_INT, AT(max_sessions), 1, 10000, "32",
     .help = "How many kernels the whole service runs at most, those that start or are quarantined "
             "included."},
    {NULL, "SANDBOX_MAX_SESSIONS_PER_OWNER", SETTING_INT, AT(max_sessions_per_owner), 1, 10000,
     .derived = "SANDBOX_MAX_SESSIONS", .help = "The same for one owner."},
    {NULL, "SANDBOX_POOL_SIZE", SETTING_INT, AT(pool_size), 0, 64, "2",
     .help = "How many kernels are started before a session wants them, beyond "
             "SANDBOX_MAX_SESSIONS; 0: none."},
    {NULL, "SANDBOX_POOL_MAX_AGE", SETTING_DURATION, AT(pool_max_age_ms), SECOND, 30 * DAY, "1h",
     .help = "A kernel that has waited longer than this for a session is replaced by a fresh one."},
    {NULL, "SANDBOX_TURN_WAITERS", SETTING_INT, AT(turn_waiters), 0, 64, "2",
     .help = "How many executions may wait for their turn in one session; others are answered 409 "
             "session_busy at once."},
    {NULL, "SANDBOX_TURN_WAIT", SETTING_DURATION, AT(turn_wait_ms), 0, 10 * MINUTE, "30",
     .help = "How long an execution waits for its turn."},
    {NULL, "SANDBOX_WORKSPACE_RETENTION", SETTING_DURATION, AT(workspace_retention_ms), 0,
     3650 * DAY, "24h",
     .help = "How long the files of a session that ended are kept for the next one of that name. A "
             "DELETE removes them at once."},
    {NULL, "SANDBOX_WORKSPACES_MAX_BYTES", SETTING_BYTES, AT(workspaces_max_bytes), MIB,
     1024 * TIB, "20GiB",
     .help = "All kept workspaces together, on disk; beyond it the reaper removes those kept longest."},
    {NULL, "SANDBOX_HISTORY_RETENTION", SETTING_DURATION, AT(history_retention_ms), 0, 3650 * DAY,
     "30 days", .help = "How long ended sessions and executions stay in the history."},

    {"Executions", "SANDBOX_EXEC_TIMEOUT", SETTING_DURATION, AT(exec_timeout_ms), 100, 7 * DAY,
     "60", .help = "How long code may run when the call names no timeout."},
    {NULL, "SANDBOX_MAX_EXEC_TIMEOUT", SETTING_DURATION, AT(max_exec_timeout_ms), 100, 7 * DAY,
     "600", .help = "The longest timeout a call may ask for; longer ones are clamped to it."},
    {NULL, "SANDBOX_MAX_OUTPUT_BYTES", SETTING_BYTES, AT(max_output_bytes), KIB, 16 * MIB, "8MiB",
     .help = "How much of an execution's output an answer holds; of more the first and the last "
             "part are kept."},
    {NULL, "SANDBOX_FLOOD_BYTES", SETTING_BYTES, AT(flood_bytes), KIB, 1024 * TIB, "1GiB",
     .help = "An execution that has written more than this is interrupted (output_limit)."},
    {NULL, "SANDBOX_MAX_CODE_BYTES", SETTING_BYTES, AT(max_code_bytes), KIB, 9 * MIB, "8MiB",
     .help = "The longest code of one call; a gateway's messages end at 10 MiB."},
    {NULL, "SANDBOX_SPOOL_BYTES", SETTING_BYTES, AT(spool_bytes), 64 * KIB, TIB, "64MiB",
     .help = "How many bytes of an execution's events are kept for streams; what is beyond shows "
             "as one gap event."},
    {NULL, "SANDBOX_EVENTS_RETENTION", SETTING_DURATION, AT(events_retention_ms), 0, 30 * DAY, "1h",
     .help = "How long the events of an ended execution can be read again."},
    {NULL, "SANDBOX_IDEMPOTENCY_RETENTION", SETTING_DURATION, AT(idempotency_retention_ms), MINUTE,
     30 * DAY, "1h", .help = "How long an Idempotency-Key is remembered."},
    {NULL, "SANDBOX_KEEP_CODE", SETTING_BOOL, AT(keep_code), .value = "false",
     .help = "Keep the code of every execution in the history, not only its digest."},

    {"Files", "SANDBOX_MAX_FILE_BYTES", SETTING_BYTES, AT(max_file_bytes), KIB, 16 * TIB,
     .derived = "4GiB, and 10MiB with SANDBOX_TRANSFER=kernel",
     .help = "The largest file that can be put into a session or fetched from it."},
    {NULL, "SANDBOX_MAX_INPUT_BYTES", SETTING_BYTES, AT(max_input_bytes), KIB, TIB, "25MiB",
     .help = "How much one POST /v1/exec may stage into a workspace."},
    {NULL, "SANDBOX_TRANSFER", SETTING_CHOICE, AT(transfer), .value = "direct",
     .choices = "direct|kernel",
     .help = "How files move. direct: husk and the kernels share a file system, and files outlive a "
             "kernel. kernel: for a remote gateway; they move through the kernel while it is idle, "
             "checked by length and SHA-256, and end with it. That is proof against accidents of "
             "the session's code, not against code that means harm in its own interpreter."},

    {NULL, "ARTIFACT_MAX_BYTES", SETTING_BYTES, AT(artifact_max_bytes), KIB, TIB, "50MiB",
     .help = "The largest file a run may keep as an artifact; of larger ones the result says that "
             "they were left out."},
    {NULL, "ARTIFACT_MAX_COUNT_PER_USER", SETTING_INT, AT(artifact_max_count), 0,
     INT64_C(1000000000), "5000", .help = "How many versions of artifacts one owner may have."},
    {NULL, "ARTIFACT_MAX_TOTAL_BYTES_PER_USER", SETTING_BYTES, AT(artifact_max_total_bytes), 0,
     1024 * TIB, "5GiB",
     .help = "The size of all of them together; each version counts with its own size."},

    {"Gateway", "SANDBOX_GATEWAY_URL", SETTING_URL, AT(gateway_url), 8, 400,
     "http://localhost:8888",
     .help = "The Jupyter gateway (Kernel Gateway, Jupyter Server or Enterprise Gateway)."},
    {NULL, "SANDBOX_GATEWAY_AUTH_TOKEN", SETTING_TOKEN, AT(gateway_token), 0, 1024, "",
     .secret = true, .help = "The token the gateway asks for."},
    {NULL, "SANDBOX_GATEWAY_CA_FILE", SETTING_PATH, AT(gateway_ca_file), 0, 300, "",
     .help = "PEM file with the only authorities an https gateway's certificate may come from; "
             "empty: those of the system."},
    {NULL, "SANDBOX_GATEWAY_SHARED", SETTING_BOOL, AT(gateway_shared), .value = "false",
     .help = "Other nodes use the same gateway: then each needs a kernel name of its own, and only "
             "kernels of that name are ever removed as orphans."},
    {NULL, "SANDBOX_KERNEL_NAME", SETTING_WORD, AT(kernel_name), 1, 128, "docsgpt-python",
     .help = "The kernelspec that sessions run."},
    {NULL, "SANDBOX_HTTP_TIMEOUT", SETTING_DURATION, AT(http_timeout_ms), 100, 10 * MINUTE, "10",
     .help = "The longest one call to the gateway may take, but for the start of a kernel."},
    {NULL, "SANDBOX_START_TIMEOUT", SETTING_DURATION, AT(start_timeout_ms), 100, 10 * MINUTE, "30",
     .help = "The longest a kernel may take to start and answer."},

    {"Daytona", "DAYTONA_API_KEY", SETTING_TOKEN, AT(daytona_key), 0, 1024, "",
     .secret = true, .help = "The key of Daytona's API; empty: this backend is not set up."},
    {NULL, "DAYTONA_API_URL", SETTING_URL, AT(daytona_url), 8, 400, "https://app.daytona.io/api",
     .help = "Daytona's API. Redirects are not followed."},
    {NULL, "DAYTONA_ORGANIZATION_ID", SETTING_WORD, AT(daytona_organization), 0, 128, "",
     .help = "The organisation the sandboxes belong to; empty: the key's own."},
    {NULL, "DAYTONA_TARGET", SETTING_WORD, AT(daytona_target), 0, 128, "",
     .help = "The region they run in; empty: Daytona's choice."},
    {NULL, "DAYTONA_SNAPSHOT", SETTING_TOKEN, AT(daytona_snapshot), 0, 255, "",
     .help = "The snapshot they are made from; empty: Daytona's own."},
    {NULL, "DAYTONA_LANGUAGE", SETTING_CHOICE, AT(daytona_language), .value = "python",
     .choices = "python", .help = "The language they run."},
    {NULL, "DAYTONA_AUTO_STOP_INTERVAL", SETTING_INT, AT(daytona_auto_stop_min), 0, 525600, "15",
     .help = "Minutes without a call after which Daytona itself stops a sandbox; the next call wakes "
             "it, without its state. 0: never."},
    {NULL, "DAYTONA_AUTO_DELETE_INTERVAL", SETTING_INT, AT(daytona_auto_delete_min), 1, 525600,
     "60",
     .help = "Minutes after which Daytona itself deletes a stopped sandbox, with its files. It cannot "
             "be switched off: nothing else ends a sandbox that nobody knows of any more."},
    {NULL, "DAYTONA_MAX_SANDBOXES", SETTING_INT, AT(daytona_max_sandboxes), 1, 10000, "50",
     .help = "How many sandboxes sessions may have at once: a cap on what they cost. Those that are "
             "stopped, for a session that may come back, count against DAYTONA_MAX_KEPT instead."},
    {NULL, "DAYTONA_MAX_KEPT", SETTING_INT, AT(daytona_max_kept), 0, 10000, "50",
     .help = "How many stopped sandboxes are kept with their files for sessions that may come back, "
             "within SANDBOX_WORKSPACE_RETENTION and DAYTONA_AUTO_DELETE_INTERVAL. Over that those "
             "kept longest are deleted."},
    {NULL, "DAYTONA_CA_FILE", SETTING_PATH, AT(daytona_ca_file), 0, 300, "",
     .help = "PEM file with the only authorities the certificates of Daytona's API and toolboxes may "
             "come from; empty: those of the system."},
    {NULL, "SANDBOX_DEPLOYMENT", SETTING_WORD, AT(deployment), 1, 64, "husk",
     .help = "The name by which this deployment's sandboxes are known at Daytona (label "
             "husk_deployment). Two that share an organisation need different ones: each deletes "
             "sandboxes of its own name that it does not know."},

    {"Workers", "SANDBOX_WORKERS_EXEC", SETTING_INT, AT(workers_exec), 1, 10002,
     .derived = "SANDBOX_MAX_SESSIONS + 2",
     .help = "Workers that run code, one request at a time each."},
    {NULL, "SANDBOX_WORKERS_API", SETTING_INT, AT(workers_api), 1, 1024, "4",
     .help = "Workers for sessions, history and lists."},
    {NULL, "SANDBOX_WORKERS_BULK", SETTING_INT, AT(workers_bulk), 1, 1024, "8",
     .help = "Workers for the bodies of files and for event streams."},
    {NULL, "SANDBOX_WORKERS_CTL", SETTING_INT, AT(workers_ctl), 1, 1024, "2",
     .help = "Workers for what must answer at once: interrupt, health and metrics."},
    {NULL, "SANDBOX_USER", SETTING_WORD, AT(user), 0, 32, "",
     .help = "The user that workers and reaper run as when the master is started by root; empty: "
             "as started."},
    {NULL, "SANDBOX_GROUP", SETTING_WORD, AT(group), 0, 32, "",
     .help = "The group of the sockets, which nginx must be in; empty: the user's own."},
    {NULL, "SANDBOX_DRAIN_TIMEOUT", SETTING_DURATION, AT(drain_timeout_ms), 0, 7 * DAY, "30",
     .help = "How long requests under way may go on after SIGTERM before their workers are ended."},
    {NULL, "SANDBOX_WORKER_REQUESTS", SETTING_INT, AT(worker_requests), 0, INT64_C(1000000000),
     "0", .help = "A worker is replaced after so many requests; 0: never."},

    {"Access", "SANDBOX_AUTH", SETTING_CHOICE, AT(auth), .value = "keys",
     .choices = "keys|proxy|none",
     .help = "Who may call. keys: a key of huskctl key create, as Authorization: Bearer. proxy: "
             "nginx has authenticated the caller and passes the name. none: whoever reaches nginx "
             "is in."},
    {NULL, "SANDBOX_PROXY_USER_HEADER", SETTING_HEADER, AT(proxy_user_header), 1, 64,
     "X-Husk-User",
     .help = "With SANDBOX_AUTH=proxy, the header in which a front end before nginx may name the "
             "user. It never reaches a worker as a client sent it: husk-auth.conf, beside nginx's "
             "configuration, authenticates the caller and sets $husk_user."},
    {NULL, "SANDBOX_CORS_ORIGINS", SETTING_ORIGINS, AT(cors_origins), 0, 4000, "",
     .help = "Origins whose pages may call from a browser, separated by spaces or commas; * for "
             "any; empty: none."},
    {NULL, "SANDBOX_LISTEN", SETTING_LISTEN, AT(listen), 1, 128, "127.0.0.1:8080",
     .help = "What the generated nginx configuration listens on: address:port, port, or "
             "unix:/path."},
    {NULL, "SANDBOX_SERVER_NAME", SETTING_HOSTS, AT(server_name), 1, 400, "_",
     .help = "Its server_name."},
    {NULL, "SANDBOX_TLS_CERTIFICATE", SETTING_PATH, AT(tls_certificate), 0, 300, "",
     .help = "PEM file with the certificate chain; set together with its key, nginx listens with "
             "TLS."},
    {NULL, "SANDBOX_TLS_CERTIFICATE_KEY", SETTING_PATH, AT(tls_certificate_key), 0, 300, "",
     .help = "PEM file with the certificate's key."},
    {NULL, "SANDBOX_RATE_PER_SECOND", SETTING_INT, AT(rate_per_second), 0, 1000000, "0",
     .help = "Requests a second that nginx lets one client address make, with bursts of twice as "
             "many; 0: any number."},
    {NULL, "SANDBOX_CONNECTIONS_PER_CLIENT", SETTING_INT, AT(connections_per_client), 0, 65535,
     "64", .help = "Requests one client address may have under way; 0: any number."},

    {"Log", "SANDBOX_LOG_LEVEL", SETTING_LOG_LEVEL, AT(log_level), .value = "info",
     .choices = "error|warning|info|debug", .help = "The least severe records that are written."},
    {NULL, "SANDBOX_LOG_FORMAT", SETTING_LOG_FORMAT, AT(log_json), .value = "text",
     .choices = "text|json", .help = "One line of text a record, or one JSON object."},

    {"Isolation", "SANDBOX_ISOLATION", SETTING_CHOICE, AT(isolation), .value = "auto",
     .choices = "auto|host|rootless|container|none",
     .help = "How sessions are kept apart, by husk-keeper. host (the keeper is root), rootless (in a "
             "user namespace) and container (the keeper is root of a plain container) are described "
             "in docs/isolation.md; auto is the best of them that the machine has, never none. none: "
             "by working directory only, so that the runner is one trust domain; it needs no keeper."},
    {NULL, "SANDBOX_ISOLATION_MIN", SETTING_CHOICE, AT(isolation_min), .value = "container",
     .choices = "host|rootless|container|none",
     .help = "The weakest tier that may run code; below it no kernel starts."},
    {NULL, "SANDBOX_EGRESS", SETTING_CHOICE, AT(egress), .value = "none",
     .choices = "none|public|open",
     .help = "Where code may connect to. none: nowhere; public: the internet, but no private, local "
             "or metadata address and none of the host; open: wherever the gateway's host may."},
    {NULL, "SANDBOX_EGRESS_DNS", SETTING_ADDRESS, AT(egress_dns), 0, 45, "",
     .help = "The resolver that sessions use where they may connect out, allowed ahead of what is "
             "denied. Without one no name is resolved."},
    {NULL, "SANDBOX_EGRESS_PROXY", SETTING_URL, AT(egress_proxy), 0, 200, "",
     .help = "The proxy that sessions are told of in http_proxy and https_proxy. What they can "
             "reach is SANDBOX_EGRESS's business and the network's: the proxy must be among it."},
    {NULL, "SANDBOX_KEEPER_DIR", SETTING_PATH, AT(keeper_dir), 1, 60, "/run/husk-keeper",
     .help = "husk-keeper's sockets. Short, since the path of a socket ends at 107 bytes."},
    {NULL, "SANDBOX_GATEWAY_USER", SETTING_WORD, AT(gateway_user), 0, 32, "husk-kernel",
     .help = "The user that may have kernels started: the gateway's. Empty: the keeper's own."},
    {NULL, "SANDBOX_KERNEL_PYTHON", SETTING_PATH, AT(kernel_python), 1, 200, "/usr/bin/python3",
     .help = "The interpreter of kernels in a sandbox; it needs ipykernel."},
    {NULL, "SANDBOX_KERNEL_PATHS", SETTING_PATHS, AT(kernel_paths), 0, 1000, "",
     .help = "Further directories that a sandbox shows, read-only, separated by colons: a virtual "
             "environment, data for all sessions."},
    {NULL, "SANDBOX_MEMORY", SETTING_BYTES, AT(memory_bytes), 16 * MIB, 16 * TIB, "1g",
     .help = "Memory of one session. Isolation none enforces neither this nor the next three."},
    {NULL, "SANDBOX_CPUS", SETTING_CPUS, AT(cpus), 1, 102400, "1.0",
     .help = "Processors one session may use."},
    {NULL, "SANDBOX_PIDS", SETTING_INT, AT(pids), 8, 1000000, "256",
     .help = "Processes and threads of one session."},
    {NULL, "SANDBOX_DISK", SETTING_BYTES, AT(disk_bytes), MIB, 16 * TIB, "1GiB",
     .help = "Disk space of one session's workspace."},
    {NULL, "SANDBOX_DISK_SPARSE", SETTING_BOOL, AT(disk_sparse), .value = "false",
     .help = "Do not set the disk space of a workspace aside when it is made. A disk that runs full "
             "then loses data that sessions believe they have written."},
};
/* clang-format on */
const size_t setting_count = sizeof(setting_table) / sizeof(setting_table[0]);

const struct setting *
setting_find(const char *key, size_t n)
{
    for (size_t i = 0; i < setting_count; i++)
        if (strlen(setting_table[i].key) == n && memcmp(setting_table[i].key, key, n) == 0)
            return &setting_table[i];
    return NULL;
}

const char *
settings_key(size_t i)
{
    return i < setting_count ? setting_table[i].key : NULL;
}

bool
setting_in_choices(const char *choices, const char *s, size_t n)
{
    for (const char *p = choices;;) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, s, n) == 0)
            return true;
        if (!p[len])
            return false;
        p += len + 1;
    }
}
