-- For a person with sqlite3. Idle times are told by the reaper's clock row, carried forward by the
-- wall clock since its last sweep.

CREATE VIEW v_now AS
SELECT CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) AS wall_ms,
       (SELECT boot_ms + max(0, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)
                                - clock.wall_ms)
          FROM clock) AS boot_ms,
       (SELECT boot_id FROM clock) AS boot_id,
       (SELECT swept_at FROM clock) AS swept_at;

CREATE VIEW v_sessions AS
SELECT s.owner,
       s.name,
       s.state,
       s.backend,
       CASE WHEN s.state IN ('ready', 'cold') AND s.boot_id = n.boot_id
            THEN round(max(0, n.boot_ms - s.last_work_boot_ms) / 1000.0, 1) END AS idle_s,
       CASE WHEN s.state IN ('ready', 'cold') AND s.boot_id = n.boot_id
            THEN round((s.last_work_boot_ms + s.ttl_ms - n.boot_ms) / 1000.0, 1) END AS expires_in_s,
       CASE WHEN s.busy_since IS NOT NULL
            THEN round(max(0, n.wall_ms - s.busy_since) / 1000.0, 1) END AS busy_for_s,
       s.busy_pid,
       s.busy_execution AS execution,
       (SELECT count(*) FROM turns t WHERE t.sid = s.sid) AS waiting,
       s.ttl_ms / 1000.0 AS ttl_s,
       r.handle,
       s.generation,
       s.close_reason,
       strftime('%Y-%m-%dT%H:%M:%SZ', s.created_at / 1000, 'unixepoch') AS created,
       strftime('%Y-%m-%dT%H:%M:%SZ', s.last_work_at / 1000, 'unixepoch') AS last_work,
       s.binding,
       s.binding_value,
       s.labels,
       s.sid,
       printf('%016x', s.workspace_id) AS workspace
  FROM sessions s
  CROSS JOIN v_now n
  LEFT JOIN runtimes r ON r.sid = s.sid AND r.state <> 'quarantined';

CREATE VIEW v_executions AS
SELECT e.owner,
       e.session_name AS session,
       e.eid,
       coalesce(e.reason, 'running') AS reason,
       e.error_name,
       strftime('%Y-%m-%dT%H:%M:%SZ', e.created_at / 1000, 'unixepoch') AS created,
       CASE WHEN e.ended_at IS NULL
            THEN round(max(0, n.wall_ms - e.started_at) / 1000.0, 3)
            ELSE e.duration_ms / 1000.0 END AS seconds,
       e.waited_ms / 1000.0 AS waited_s,
       e.bytes_stdout,
       e.bytes_stderr,
       e.bytes_rich,
       e.truncated,
       e.runtime_invalidated,
       e.key_id,
       e.request_id,
       e.client_request_id,
       e.generation,
       e.pid,
       e.code_sha256
  FROM executions e
  CROSS JOIN v_now n;

CREATE VIEW v_history AS
SELECT owner,
       name,
       reason,
       backend,
       executions,
       strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000, 'unixepoch') AS created,
       strftime('%Y-%m-%dT%H:%M:%SZ', ended_at / 1000, 'unixepoch') AS ended,
       round((ended_at - created_at) / 1000.0, 1) AS lived_s,
       binding,
       binding_value,
       labels,
       sid
  FROM session_history;

CREATE VIEW v_keys AS
SELECT k.key_id,
       k.owner,
       k.scopes,
       k.note,
       CASE WHEN k.revoked_at > 0 THEN 'revoked'
            WHEN k.expires_at > 0 AND k.expires_at <= n.wall_ms THEN 'expired'
            ELSE 'valid' END AS state,
       strftime('%Y-%m-%dT%H:%M:%SZ', k.created_at / 1000, 'unixepoch') AS created,
       CASE WHEN k.expires_at > 0
            THEN strftime('%Y-%m-%dT%H:%M:%SZ', k.expires_at / 1000, 'unixepoch') END AS expires,
       CASE WHEN k.last_used_at > 0
            THEN strftime('%Y-%m-%dT%H:%M:%SZ', k.last_used_at / 1000, 'unixepoch') END AS last_used
  FROM keys k
  CROSS JOIN v_now n;

CREATE VIEW v_runtimes AS
SELECT r.owner,
       r.name,
       r.state,
       r.backend,
       r.handle,
       r.generation,
       r.tries,
       CASE WHEN r.next_try_boot_ms IS NOT NULL
            THEN round((r.next_try_boot_ms - n.boot_ms) / 1000.0, 1) END AS next_try_in_s,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.created_at / 1000, 'unixepoch') AS created,
       r.sid,
       r.rid
  FROM runtimes r
  CROSS JOIN v_now n;

-- What an operator should look at; empty when all is well.
CREATE VIEW v_alarms AS
SELECT 'reaper' AS what, '' AS owner, '' AS name,
       CASE WHEN coalesce(swept_at, 0) = 0 THEN 'has never swept'
            ELSE printf('last sweep %d s ago', (wall_ms - swept_at) / 1000) END AS detail
  FROM v_now
 WHERE coalesce(swept_at, 0) < wall_ms - 60000
UNION ALL
SELECT 'quarantined', owner, name, printf('%s: end not confirmed after %d tries', handle, tries)
  FROM runtimes
 WHERE state = 'quarantined' AND tries >= 3
UNION ALL
SELECT 'overdue', owner, name, printf('expired %d s ago and not reaped', -expires_in_s)
  FROM v_sessions
 WHERE expires_in_s < -60
UNION ALL
SELECT 'long run', owner, name, printf('%s busy for %d s', execution, busy_for_s)
  FROM v_sessions
 WHERE busy_for_s > 3600
UNION ALL
SELECT 'stray', owner, session_name, printf('%s runs on without its session', eid)
  FROM executions e
 WHERE reason IS NULL
   AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.busy_execution = e.eid);
