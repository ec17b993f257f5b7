-- Kernels started before they are wanted. A session that claims one deletes the row and notes the
-- handle in its own row of runtimes, in one transaction; from then on it counts against the caps.
CREATE TABLE pool (
  handle          TEXT PRIMARY KEY CHECK (length(CAST(handle AS BLOB)) BETWEEN 1 AND 128),
  kernel_session  TEXT NOT NULL CHECK (length(CAST(kernel_session AS BLOB)) <= 128),
  backend         TEXT NOT NULL CHECK (length(CAST(backend AS BLOB)) BETWEEN 1 AND 15),
  kernel_name     TEXT NOT NULL CHECK (length(CAST(kernel_name AS BLOB)) <= 128),
  created_at      INTEGER NOT NULL,
  created_boot_ms INTEGER NOT NULL,
  boot_id         TEXT NOT NULL CHECK (length(boot_id) <= 39)
) STRICT;
CREATE INDEX pool_age ON pool (created_at, handle);

DROP VIEW v_runtimes;
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
  CROSS JOIN v_now n
UNION ALL
SELECT NULL, NULL, 'pooled', backend, handle, NULL, 0, NULL,
       strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000, 'unixepoch'), NULL, NULL
  FROM pool;
