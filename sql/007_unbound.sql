-- A kernel of the pool that has not been told its session's directory yet: the first code that is
-- sent to it goes behind that.
ALTER TABLE runtimes ADD COLUMN unbound INTEGER NOT NULL DEFAULT 0 CHECK (unbound IN (0, 1));
