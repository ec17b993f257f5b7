-- The counter of a name's short references goes with the last that could tell of one: its artifacts,
-- its session and its history.
CREATE TRIGGER session_history_removed AFTER DELETE ON session_history
BEGIN
  DELETE FROM artifact_refs
   WHERE owner = OLD.owner AND session_name = OLD.name
     AND NOT EXISTS (SELECT 1 FROM artifacts WHERE owner = OLD.owner AND session_name = OLD.name)
     AND NOT EXISTS (SELECT 1 FROM sessions WHERE owner = OLD.owner AND name = OLD.name)
     AND NOT EXISTS (SELECT 1 FROM session_history WHERE owner = OLD.owner AND name = OLD.name);
END;
CREATE TRIGGER artifacts_removed AFTER DELETE ON artifacts
BEGIN
  DELETE FROM artifact_refs
   WHERE owner = OLD.owner AND session_name = OLD.session_name
     AND NOT EXISTS (SELECT 1 FROM artifacts
                      WHERE owner = OLD.owner AND session_name = OLD.session_name)
     AND NOT EXISTS (SELECT 1 FROM sessions WHERE owner = OLD.owner AND name = OLD.session_name)
     AND NOT EXISTS (SELECT 1 FROM session_history
                      WHERE owner = OLD.owner AND name = OLD.session_name);
END;
DELETE FROM artifact_refs AS r
 WHERE NOT EXISTS (SELECT 1 FROM artifacts WHERE owner = r.owner AND session_name = r.session_name)
   AND NOT EXISTS (SELECT 1 FROM sessions WHERE owner = r.owner AND name = r.session_name)
   AND NOT EXISTS (SELECT 1 FROM session_history
                    WHERE owner = r.owner AND name = r.session_name);
