-- Files that runs kept. They outlive their session: what names it is text. Paths are bytes.

CREATE TABLE artifacts (
  aid          INTEGER PRIMARY KEY AUTOINCREMENT,
  artifact_id  TEXT NOT NULL UNIQUE CHECK (length(artifact_id) = 36),
  owner        TEXT NOT NULL CHECK (length(CAST(owner AS BLOB)) <= 64),
  session_name TEXT NOT NULL CHECK (length(CAST(session_name AS BLOB)) BETWEEN 1 AND 128),
  ref          INTEGER NOT NULL CHECK (ref >= 1),
  path         BLOB NOT NULL CHECK (length(path) BETWEEN 1 AND 1024),
  latest       INTEGER NOT NULL CHECK (latest >= 1),
  UNIQUE (owner, session_name, ref),
  UNIQUE (owner, session_name, path)
) STRICT;
CREATE INDEX artifacts_owner ON artifacts (owner, aid);

CREATE TABLE artifact_versions (
  aid        INTEGER NOT NULL REFERENCES artifacts (aid) ON DELETE CASCADE,
  version    INTEGER NOT NULL CHECK (version >= 1),
  owner      TEXT NOT NULL,
  sha256     TEXT NOT NULL CHECK (length(sha256) = 64),
  size       INTEGER NOT NULL CHECK (size >= 0),
  eid        TEXT NOT NULL CHECK (length(eid) = 36),
  created_at INTEGER NOT NULL,
  PRIMARY KEY (aid, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_versions_blob ON artifact_versions (sha256);

-- The last short reference given in a session's name: one that was deleted is not given again.
CREATE TABLE artifact_refs (
  owner        TEXT NOT NULL,
  session_name TEXT NOT NULL,
  last_ref     INTEGER NOT NULL,
  PRIMARY KEY (owner, session_name)
) STRICT, WITHOUT ROWID;

-- What an owner has kept, for the quotas: every version counts, with its own size.
CREATE TABLE artifact_usage (
  owner    TEXT PRIMARY KEY,
  versions INTEGER NOT NULL CHECK (versions >= 0),
  bytes    INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER artifact_versions_added AFTER INSERT ON artifact_versions
BEGIN
  INSERT INTO artifact_usage (owner, versions, bytes) VALUES (NEW.owner, 1, NEW.size)
    ON CONFLICT (owner) DO UPDATE SET versions = versions + 1, bytes = bytes + NEW.size;
END;
CREATE TRIGGER artifact_versions_removed AFTER DELETE ON artifact_versions
BEGIN
  UPDATE artifact_usage SET versions = versions - 1, bytes = bytes - OLD.size
   WHERE owner = OLD.owner;
END;

CREATE VIEW v_artifacts AS
SELECT a.owner,
       a.session_name AS session,
       'A' || a.ref AS ref,
       v.version,
       CAST(a.path AS TEXT) AS path,
       v.size,
       v.sha256,
       strftime('%Y-%m-%dT%H:%M:%SZ', v.created_at / 1000, 'unixepoch') AS created,
       v.version = a.latest AS latest,
       v.eid,
       a.artifact_id
  FROM artifacts a
  JOIN artifact_versions v ON v.aid = a.aid;
