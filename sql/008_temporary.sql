-- Opened by a one-call run that closes it again: the last of those at work in it does, unless somebody
-- has opened it in earnest meanwhile.
ALTER TABLE sessions ADD COLUMN temporary INTEGER NOT NULL DEFAULT 0 CHECK (temporary IN (0, 1));
