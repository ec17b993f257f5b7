-- Which backend holds a workspace's files: a directory of this machine's (jupyter), or runtimes of
-- its own that have the workspace as their key.
ALTER TABLE workspaces ADD COLUMN backend TEXT NOT NULL DEFAULT 'jupyter'
  CHECK (length(CAST(backend AS BLOB)) BETWEEN 1 AND 15);

DROP VIEW v_workspaces;
CREATE VIEW v_workspaces AS
SELECT w.owner,
       w.name,
       w.state,
       w.backend,
       w.kept_bytes,
       CASE WHEN w.state = 'kept' THEN round(max(0, n.wall_ms - w.kept_since) / 1000.0, 1) END AS kept_for_s,
       strftime('%Y-%m-%dT%H:%M:%SZ', w.created_at / 1000, 'unixepoch') AS created,
       printf('%016x', w.workspace_id) AS workspace
  FROM workspaces w
  CROSS JOIN v_now n;
