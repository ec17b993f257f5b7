-- What a kept workspace takes on disk: the reaper measures it once, since nobody writes to it any
-- more. NULL until then.
ALTER TABLE workspaces ADD COLUMN kept_bytes INTEGER
  CHECK (kept_bytes IS NULL OR (kept_bytes >= 0 AND state = 'kept'));

-- How many were dropped over the bound on all of them, ever, and what they took.
CREATE TABLE workspaces_dropped (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  n     INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;
INSERT INTO workspaces_dropped (id, n, bytes) VALUES (1, 0, 0);

CREATE VIEW v_workspaces AS
SELECT w.owner,
       w.name,
       w.state,
       w.kept_bytes,
       CASE WHEN w.state = 'kept' THEN round(max(0, n.wall_ms - w.kept_since) / 1000.0, 1) END AS kept_for_s,
       strftime('%Y-%m-%dT%H:%M:%SZ', w.created_at / 1000, 'unixepoch') AS created,
       printf('%016x', w.workspace_id) AS workspace
  FROM workspaces w
  CROSS JOIN v_now n;
