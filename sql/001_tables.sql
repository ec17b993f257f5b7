-- Times are INTEGER milliseconds of the wall clock; those ending _boot_ms are of CLOCK_BOOTTIME and
-- mean something only together with the boot id. Lengths are in bytes.

CREATE TABLE clock (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  wall_ms  INTEGER NOT NULL,
  boot_ms  INTEGER NOT NULL,
  boot_id  TEXT NOT NULL,
  swept_at INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE workspaces (
  workspace_id INTEGER PRIMARY KEY,
  owner        TEXT NOT NULL CHECK (length(CAST(owner AS BLOB)) <= 64),
  name         TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
  state        TEXT NOT NULL CHECK (state IN ('used', 'kept', 'doomed')),
  created_at   INTEGER NOT NULL,
  kept_since   INTEGER CHECK ((kept_since IS NOT NULL) = (state = 'kept'))
) STRICT;
CREATE UNIQUE INDEX workspaces_kept ON workspaces (owner, name) WHERE state = 'kept';
CREATE INDEX workspaces_state ON workspaces (state, kept_since);

CREATE TABLE sessions (
  sid               INTEGER PRIMARY KEY,
  owner             TEXT NOT NULL CHECK (length(CAST(owner AS BLOB)) <= 64),
  name              TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
  binding           TEXT NOT NULL
                    CHECK (binding IN ('none', 'session', 'conversation', 'workflow_run')),
  binding_value     TEXT NOT NULL CHECK (length(CAST(binding_value AS BLOB)) <= 512),
  state             TEXT NOT NULL
                    CHECK (state IN ('opening', 'ready', 'busy', 'closing', 'cold')),
  backend           TEXT NOT NULL CHECK (length(CAST(backend AS BLOB)) BETWEEN 1 AND 15),
  workspace_id      INTEGER NOT NULL UNIQUE REFERENCES workspaces (workspace_id),
  generation        INTEGER NOT NULL CHECK (generation >= 1),
  ttl_ms            INTEGER NOT NULL CHECK (ttl_ms >= 0),
  created_at        INTEGER NOT NULL,
  last_work_at      INTEGER NOT NULL,
  last_work_boot_ms INTEGER NOT NULL,
  boot_id           TEXT NOT NULL CHECK (length(boot_id) <= 39),
  busy_execution    TEXT CHECK (length(busy_execution) <= 39),
  busy_since        INTEGER,
  busy_pid          INTEGER,
  holder_pid        INTEGER NOT NULL DEFAULT 0,
  labels            TEXT NOT NULL DEFAULT '{}'
                    CHECK (length(CAST(labels AS BLOB)) <= 40000),
  state_lost        INTEGER NOT NULL DEFAULT 0 CHECK (state_lost IN (0, 1)),
  files_kept        INTEGER NOT NULL DEFAULT 0 CHECK (files_kept IN (0, 1)),
  close_reason      TEXT CHECK (close_reason IN ('closed', 'expired', 'evicted', 'lost')),
  UNIQUE (owner, name),
  CHECK (state <> 'busy' OR busy_execution IS NOT NULL),
  CHECK (state <> 'closing' OR close_reason IS NOT NULL)
) STRICT;
CREATE INDEX sessions_state ON sessions (state, sid);
CREATE INDEX sessions_created ON sessions (created_at, sid);

CREATE TABLE session_history (
  sid           INTEGER PRIMARY KEY,
  owner         TEXT NOT NULL,
  name          TEXT NOT NULL,
  binding       TEXT NOT NULL
                CHECK (binding IN ('none', 'session', 'conversation', 'workflow_run')),
  binding_value TEXT NOT NULL,
  backend       TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  ended_at      INTEGER NOT NULL,
  reason        TEXT NOT NULL CHECK (reason IN ('closed', 'expired', 'evicted', 'lost')),
  executions    INTEGER NOT NULL,
  labels        TEXT NOT NULL
) STRICT;
CREATE INDEX session_history_name ON session_history (owner, name);
CREATE INDEX session_history_ended ON session_history (ended_at);

CREATE TABLE runtimes (
  rid              INTEGER PRIMARY KEY AUTOINCREMENT,
  sid              INTEGER REFERENCES sessions (sid) ON DELETE SET NULL,
  owner            TEXT NOT NULL CHECK (length(CAST(owner AS BLOB)) <= 64),
  name             TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
  generation       INTEGER NOT NULL CHECK (generation >= 1),
  backend          TEXT NOT NULL CHECK (length(CAST(backend AS BLOB)) BETWEEN 1 AND 15),
  handle           TEXT NOT NULL DEFAULT '' CHECK (length(CAST(handle AS BLOB)) <= 128),
  kernel_session   TEXT NOT NULL DEFAULT '' CHECK (length(CAST(kernel_session AS BLOB)) <= 128),
  state            TEXT NOT NULL CHECK (state IN ('starting', 'live', 'quarantined')),
  created_at       INTEGER NOT NULL,
  tries            INTEGER NOT NULL DEFAULT 0,
  next_try_at      INTEGER,
  next_try_boot_ms INTEGER,
  CHECK ((next_try_boot_ms IS NOT NULL) = (state = 'quarantined')),
  CHECK (state = 'starting' OR handle <> '')
) STRICT;
CREATE UNIQUE INDEX runtimes_one ON runtimes (sid) WHERE state <> 'quarantined';
CREATE UNIQUE INDEX runtimes_handle ON runtimes (handle) WHERE handle <> '';
CREATE INDEX runtimes_sid ON runtimes (sid);
CREATE INDEX runtimes_owner ON runtimes (owner, name);
CREATE INDEX runtimes_due ON runtimes (next_try_boot_ms) WHERE state = 'quarantined';

CREATE TABLE orphans (
  handle             TEXT PRIMARY KEY CHECK (length(CAST(handle AS BLOB)) BETWEEN 1 AND 128),
  backend            TEXT NOT NULL,
  first_seen_boot_ms INTEGER NOT NULL,
  last_seen_boot_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE turns (
  ticket  INTEGER PRIMARY KEY AUTOINCREMENT,
  sid     INTEGER NOT NULL REFERENCES sessions (sid) ON DELETE CASCADE,
  lock_id INTEGER NOT NULL,
  pid     INTEGER NOT NULL,
  since   INTEGER NOT NULL
) STRICT;
CREATE INDEX turns_sid ON turns (sid, ticket);

-- Outlives its session: sid refers to nothing.
CREATE TABLE executions (
  eid                 TEXT PRIMARY KEY CHECK (length(eid) = 36),
  sid                 INTEGER NOT NULL,
  session_name        TEXT NOT NULL CHECK (length(CAST(session_name AS BLOB)) BETWEEN 1 AND 128),
  owner               TEXT NOT NULL CHECK (length(CAST(owner AS BLOB)) <= 64),
  key_id              TEXT CHECK (length(CAST(key_id AS BLOB)) <= 31),
  request_id          TEXT NOT NULL UNIQUE CHECK (length(CAST(request_id AS BLOB)) BETWEEN 1 AND 64),
  client_request_id   TEXT CHECK (length(CAST(client_request_id AS BLOB)) <= 64),
  idempotency_key     TEXT CHECK (length(CAST(idempotency_key AS BLOB)) <= 255),
  body_sha256         TEXT CHECK (length(body_sha256) = 64),
  generation          INTEGER NOT NULL,
  pid                 INTEGER NOT NULL,
  created_at          INTEGER NOT NULL,
  started_at          INTEGER NOT NULL,
  ended_at            INTEGER,
  duration_ms         INTEGER NOT NULL DEFAULT 0,
  waited_ms           INTEGER NOT NULL DEFAULT 0,
  ok                  INTEGER NOT NULL DEFAULT 0 CHECK (ok IN (0, 1)),
  reason              TEXT CHECK (reason IN
                        ('completed', 'exception', 'timeout', 'interrupted', 'oom', 'pids',
                         'disk_full', 'kernel_died', 'output_limit', 'gateway_lost',
                         'client_gone', 'aborted')),
  bytes_stdout        INTEGER NOT NULL DEFAULT 0,
  bytes_stderr        INTEGER NOT NULL DEFAULT 0,
  bytes_rich          INTEGER NOT NULL DEFAULT 0,
  error_name          TEXT CHECK (length(CAST(error_name AS BLOB)) <= 128),
  truncated           INTEGER NOT NULL DEFAULT 0 CHECK (truncated IN (0, 1)),
  runtime_invalidated INTEGER NOT NULL DEFAULT 0 CHECK (runtime_invalidated IN (0, 1)),
  code_sha256         TEXT NOT NULL CHECK (length(code_sha256) = 64),
  code                TEXT,
  interrupt_asked     INTEGER NOT NULL DEFAULT 0 CHECK (interrupt_asked IN (0, 1)),
  spool_pruned        INTEGER NOT NULL DEFAULT 0 CHECK (spool_pruned IN (0, 1)),
  CHECK ((reason IS NULL) = (ended_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX executions_idempotency ON executions (owner, session_name, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX executions_listed ON executions (owner, session_name, created_at, eid);
CREATE INDEX executions_sid ON executions (sid);
CREATE INDEX executions_running ON executions (sid) WHERE reason IS NULL;
CREATE INDEX executions_ended ON executions (ended_at);
CREATE INDEX executions_spools ON executions (ended_at) WHERE spool_pruned = 0;

-- How many have ended, by reason, ever: the rows themselves are pruned, and counting them all for
-- every look at the metrics would read the whole table.
CREATE TABLE execution_totals (
  reason TEXT PRIMARY KEY,
  n      INTEGER NOT NULL
) STRICT;
CREATE TRIGGER executions_counted AFTER UPDATE OF reason ON executions
  WHEN OLD.reason IS NULL AND NEW.reason IS NOT NULL
BEGIN
  INSERT INTO execution_totals (reason, n) VALUES (NEW.reason, 1)
    ON CONFLICT (reason) DO UPDATE SET n = n + 1;
END;

CREATE TABLE keys (
  key_id       TEXT PRIMARY KEY CHECK (length(CAST(key_id AS BLOB)) BETWEEN 1 AND 31),
  owner        TEXT NOT NULL CHECK (length(CAST(owner AS BLOB)) <= 64),
  digest       BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  scopes       INTEGER NOT NULL,
  note         TEXT NOT NULL DEFAULT '' CHECK (length(CAST(note AS BLOB)) <= 128),
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL DEFAULT 0,
  revoked_at   INTEGER NOT NULL DEFAULT 0,
  last_used_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX keys_created ON keys (created_at, key_id);
